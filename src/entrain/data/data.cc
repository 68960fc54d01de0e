#include "entrain/data/data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/data/example_seed.h"
#include "entrain/data/image_data.h"
#include "entrain/data/readers.h"
#include "entrain/data/tensor_data.h"
#include "entrain/data/text_data.h"

namespace entrain::data {
namespace {

namespace fs = std::filesystem;

// A few updates' examples made once, as somebody wants them, and gone through in turn: step s has those of
// s % kPool. Tested with examples that nobody trains on. `model` outlives it.
class SyntheticData final : public Data {
 public:
  SyntheticData(const models::Model& model, const DataOptions& options) : model_(model), options_(options) {
    const int64_t count = std::min<int64_t>(kTestBatch, options.examples);
    for (int64_t i = 0; i < kPool; ++i) test_.push_back(made(i, kTested, count));
  }

  models::Batch training(int64_t step, int64_t begin, int64_t count) override {
    auto& made_so_far = pools_[{begin, count}];
    for (auto i = static_cast<int64_t>(made_so_far.size()); i < kPool; ++i) {
      made_so_far.push_back(made(i, begin, count));
    }
    return made_so_far[static_cast<size_t>(step % kPool)];
  }
  int64_t steps_per_epoch() const override { return kPool; }
  int64_t test_batches() const override { return kPool; }
  models::Batch test(int64_t index) override { return test_[static_cast<size_t>(index)]; }

 private:
  static constexpr int64_t kPool = 4;
  static constexpr int64_t kTested = int64_t{1} << 40;  // the first example of tests
  static constexpr int64_t kTestBatch = 64;

  models::Batch made(int64_t update, int64_t begin, int64_t count) const {
    std::vector<models::Batch> examples;
    for (int64_t e = begin; e < begin + count; ++e) {
      auto generator = at::detail::createCPUGenerator(example_seed(options_.seed, update, e));
      examples.push_back(model_.synthetic(1, generator));
    }
    return models::Batch::joined(examples).to(options_.device);
  }

  const models::Model& model_;
  const DataOptions options_;
  std::map<std::pair<int64_t, int64_t>, std::vector<models::Batch>> pools_;  // by range
  std::vector<models::Batch> test_;
};

// "cifar10:/data/x" -> kind and path. A bare folder has the kind of what it holds.
std::pair<std::string, fs::path> parse(const std::string& spec, const models::Model& model) {
  const size_t colon = spec.find(':');
  if (colon != std::string::npos) {
    const std::string kind = spec.substr(0, colon);
    for (const char* known : {"cifar10", "idx", "text", "tensors"}) {
      if (kind == known) return {kind, spec.substr(colon + 1)};
    }
  }
  const fs::path path = spec;
  if (fs::exists(path / "data_batch_1.bin")) return {"cifar10", path};
  if (fs::exists(path / "train-images-idx3-ubyte")) return {"idx", path};
  if (path.extension() == ".safetensors" || fs::exists(path / (model.inputs()[0] + ".npy"))) {
    return {"tensors", path};
  }
  if (fs::exists(path / "train.txt") || fs::is_regular_file(path)) return {"text", path};
  bad_input(
      "`data` {}: nothing known there; allowed: cifar10:FOLDER (data_batch_1.bin, ..., test_batch.bin), "
      "idx:FOLDER (train-images-idx3-ubyte, ...), text:FILE or text:FOLDER (train.txt, test.txt), "
      "tensors:FILE.safetensors or tensors:FOLDER (NAME.npy) with {}",
      spec, fmt::join(model.inputs(), ", "));
}

std::vector<fs::path> cifar10_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (int i = 1; fs::exists(folder / fmt::format("data_batch_{}.bin", i)); ++i) {
    files.push_back(folder / fmt::format("data_batch_{}.bin", i));
  }
  if (files.empty()) bad_input("{}: no data_batch_1.bin (CIFAR-10's binary form) there", folder.string());
  return files;
}

// MNIST's test files are named t10k-*.
Images read_idx_pair(const fs::path& folder, const std::string& prefix) {
  return read_idx_images(folder / (prefix + "-images-idx3-ubyte"), folder / (prefix + "-labels-idx1-ubyte"));
}

}  // namespace

std::unique_ptr<Data> open_data(const std::string& spec, const models::Model& model,
                                const DataOptions& options) {
  if (spec.empty()) return std::make_unique<SyntheticData>(model, options);
  const auto [kind, path] = parse(spec, model);
  if (kind == "cifar10") {
    return make_image_data(read_cifar10(cifar10_files(path)), read_cifar10({path / "test_batch.bin"}), model,
                           options);
  }
  if (kind == "idx") {
    return make_image_data(read_idx_pair(path, "train"), read_idx_pair(path, "t10k"), model, options);
  }
  if (kind == "tensors") return make_tensor_data(path, model, options);
  return make_text_data(path, model, options);
}

}  // namespace entrain::data
