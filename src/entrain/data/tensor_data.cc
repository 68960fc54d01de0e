#include "entrain/data/tensor_data.h"

#include <fmt/ranges.h>

#include <map>

#include "entrain/base/error.h"
#include "entrain/data/shares.h"
#include "entrain/tensor_files/npy.h"
#include "entrain/tensor_files/safetensors.h"

namespace entrain::data {
namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, torch::Tensor>;

const std::string kHeldOut = "test_";

models::Batch batch_of(const std::vector<torch::Tensor>& tensors) {
  models::Batch batch{tensors[0], tensors.size() > 1 ? tensors[1] : torch::Tensor()};
  if (tensors.size() > 2) batch.more.assign(tensors.begin() + 2, tensors.end());
  return batch;
}

class TensorData final : public Data {
 public:
  TensorData(std::vector<torch::Tensor> training, const std::vector<torch::Tensor>& test,
             const DataOptions& options)
      : options_(options),
        shares_(training[0].size(0), options.examples, options.seed),
        training_(std::move(training)) {
    if (!test.empty()) test_ = batch_of(test).to(options.device);
  }

  models::Batch training(int64_t step, int64_t begin, int64_t count) override {
    const torch::Tensor which = shares_.at(step, begin, count);
    std::vector<torch::Tensor> rows;
    for (const auto& tensor : training_) rows.push_back(tensor.index_select(0, which));
    return batch_of(rows).to(options_.device);
  }
  int64_t steps_per_epoch() const override { return shares_.steps_per_epoch(); }
  int64_t test_batches() const override {
    return test_.input.defined() ? (test_.size() + kTestBatch - 1) / kTestBatch : 0;
  }
  models::Batch test(int64_t index) override {
    const int64_t begin = index * kTestBatch;
    return test_.narrow(begin, std::min(kTestBatch, test_.size() - begin));
  }

 private:
  static constexpr int64_t kTestBatch = 64;

  DataOptions options_;
  Shares shares_;
  std::vector<torch::Tensor> training_;
  models::Batch test_;
};

Tensors read(const fs::path& path, const std::vector<std::string>& names) {
  Tensors found;
  if (!fs::is_directory(path)) {
    for (auto& [name, tensor] : tensor_files::read_safetensors(path).tensors) found[name] = std::move(tensor);
    return found;
  }
  for (const std::string& name : names) {
    for (const std::string& one : {name, kHeldOut + name}) {
      const fs::path file = path / (one + ".npy");
      if (fs::exists(file)) found[one] = tensor_files::read_npy(file);
    }
  }
  return found;
}

// The tensors of that prefix, in the model's order; none when the prefix has none.
std::vector<torch::Tensor> choose(const fs::path& path, const Tensors& all, const std::string& prefix,
                                  const models::Model& model) {
  std::vector<torch::Tensor> result;
  std::vector<std::string> missing, there;
  for (const std::string& name : model.inputs()) {
    const auto found = all.find(prefix + name);
    (found == all.end() ? missing : there).push_back(prefix + name);
    if (found == all.end()) continue;
    torch::Tensor tensor = found->second;
    if (tensor.is_floating_point()) tensor = tensor.to(model.parameters()[0].scalar_type());
    result.push_back(tensor);
  }
  if (there.empty() && !prefix.empty()) return {};
  if (!missing.empty()) {
    bad_input("`data` {}: no {} there; the model takes {}", path.string(), fmt::join(missing, ", "),
              fmt::join(model.inputs(), ", "));
  }
  for (size_t i = 0; i < result.size(); ++i) {
    if (result[i].dim() > 0 && result[i].size(0) == result[0].size(0)) continue;
    bad_input("`data` {}: {} is [{}], but {} has [{}]; wanted: as many rows, one an example", path.string(),
              there[i], fmt::join(result[i].sizes(), ", "), there[0], fmt::join(result[0].sizes(), ", "));
  }
  return result;
}

}  // namespace

std::unique_ptr<Data> make_tensor_data(const fs::path& path, const models::Model& model,
                                       const DataOptions& options) {
  const Tensors all = read(path, model.inputs());
  auto training = choose(path, all, "", model);
  if (training[0].size(0) < options.examples) {
    bad_input("`data` {}: {} examples: fewer than the {} of one update", path.string(), training[0].size(0),
              options.examples);
  }
  return std::make_unique<TensorData>(std::move(training), choose(path, all, kHeldOut, model), options);
}

}  // namespace entrain::data
