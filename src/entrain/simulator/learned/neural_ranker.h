// The published rankers (linear, RNN, GAT) behind the seam. No torch in this header.
//
// Loss: over the pairs of a batch of one domain, mean of log(1 + exp(-(score of the slower - of the
// faster))). Augmented: pairs of close run-times are ordered by their number of parts, the fewer first; hosts
// and groups are renumbered at random in each batch. Adam 1e-3, x 0.3 at 40% and 80% of the epochs (80 and
// 160 of 200), gradient norm clipped to 0.25. The parameters of the epoch that orders the validation pairs
// best are kept.
#pragma once

#include "entrain/simulator/ranker.h"

namespace entrain::simulator {

struct NeuralOptions {
  int batch_size = 64;   // at most; with few trials smaller ones, so that an epoch has 8 steps
  int patience = 20;     // epochs without a better validation accuracy before it stops
  double close = 0.005;  // relative difference of run-times
  double weight_decay = 3e-4;
  double clip = 0.25;
};

class NeuralRanker final : public Ranker {
 public:
  // "linear", "rnn" or "gat". Throws InputError.
  explicit NeuralRanker(std::string name, NeuralOptions options = {});
  ~NeuralRanker() override;
  // Throws InputError when the file is none of these or has other features.
  static std::unique_ptr<NeuralRanker> load(const std::filesystem::path& path);

  std::string name() const override { return name_; }
  // The same seed gives the same ranker; torch's default generator is left as it was.
  void learn(const std::vector<Lesson>& training, const std::vector<Lesson>& validation,
             const LearnOptions& options) override;
  std::vector<double> score(const Lesson& lesson,
                            std::span<const strategy::Strategy> strategies) const override;
  // A JSON line with the feature schema and the tensors' names and shapes, then their float32 values.
  void save(const std::filesystem::path& path) const override;

 private:
  struct Impl;
  std::string name_;
  NeuralOptions options_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace entrain::simulator
