#include "entrain/data/text_data.h"

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/data/readers.h"
#include "entrain/data/shares.h"

namespace entrain::data {
namespace {

namespace fs = std::filesystem;

// The text in rows of length + 1 tokens, each starting with the last token of the one before it.
torch::Tensor rows_of(const torch::Tensor& tokens, int64_t length, const fs::path& path) {
  if (tokens.size(0) <= length) {
    bad_input("`data` {}: {} words, allowed: more than the model's sequence of {}", path.string(),
              tokens.size(0), length);
  }
  return tokens.unfold(0, length + 1, length).contiguous();
}

models::Batch text_batch(const torch::Tensor& rows) {
  const int64_t length = rows.size(1) - 1;
  return {rows.narrow(1, 0, length).contiguous(), rows.narrow(1, 1, length).contiguous()};
}

class TextData final : public Data {
 public:
  TextData(const torch::Tensor& training, const torch::Tensor& test, const DataOptions& options)
      : options_(options),
        shares_(training.size(0), options.examples, options.seed),
        training_(training.to(options.device)),
        test_(test.to(options.device)) {}

  models::Batch training(int64_t step, int64_t begin, int64_t count) override {
    return text_batch(training_.index_select(0, shares_.at(step, begin, count).to(options_.device)));
  }
  int64_t steps_per_epoch() const override { return shares_.steps_per_epoch(); }
  int64_t test_batches() const override { return (test_.size(0) + kTestBatch - 1) / kTestBatch; }
  models::Batch test(int64_t index) override {
    const int64_t begin = index * kTestBatch;
    return text_batch(test_.narrow(0, begin, std::min(kTestBatch, test_.size(0) - begin)));
  }

 private:
  static constexpr int64_t kTestBatch = 64;

  DataOptions options_;
  Shares shares_;
  torch::Tensor training_, test_;
};

// Training and held-out text.
std::pair<std::string, std::string> read_text(const fs::path& path) {
  if (fs::is_directory(path)) return {read_file(path / "train.txt"), read_file(path / "test.txt")};
  const std::string text = read_file(path);
  const size_t cut = text.find('\n', text.size() / 10 * 9);
  if (cut == std::string::npos) bad_input("`data` {}: text in lines is wanted", path.string());
  return {text.substr(0, cut + 1), text.substr(cut + 1)};
}

}  // namespace

std::unique_ptr<Data> make_text_data(const fs::path& path, const models::Model& model,
                                     const DataOptions& options) {
  auto generator = at::detail::createCPUGenerator(0);
  const auto sample = model.synthetic(1, generator);
  if (sample.input.dim() != 2 || !sample.target.defined() || sample.target.sizes() != sample.input.sizes()) {
    bad_input("`data` holds text; this model is no language model");
  }
  if (model.classes() < 2) {
    bad_input(
        "`data` holds text; the model must say how many tokens it knows, in an int attribute `classes`");
  }
  const int64_t length = sample.input.size(1);
  const auto [training, test] = read_text(path);
  const Vocabulary vocabulary(training, model.classes());
  const auto rows = rows_of(vocabulary.tokens(training), length, path);
  if (rows.size(0) < options.examples) {
    bad_input("`data` {}: {} rows of {} words: fewer than the {} of one update", path.string(), rows.size(0),
              length, options.examples);
  }
  return std::make_unique<TextData>(rows, rows_of(vocabulary.tokens(test), length, path), options);
}

}  // namespace entrain::data
