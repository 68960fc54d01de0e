#include "entrain/trainer/examiner.h"

#include "entrain/models/classifier.h"
#include "entrain/models/registry.h"
#include "entrain/optim/worker.h"

namespace entrain {
namespace {

using torch::nn::BatchNorm2dImpl;

template <typename Use>
void for_each_batch_norm(torch::nn::Module& module, Use use) {
  for (const auto& part : module.modules()) {
    if (auto* norm = part->as<BatchNorm2dImpl>()) use(*norm);
  }
}

}  // namespace

Examiner::Examiner(const std::string& model, torch::Device device, Data& data)
    : model_(models::make_model(model, 0)), data_(data) {
  model_->to(device);
  x_ = optim::flatten(model_->parameters());
  for_each_batch_norm(*model_, [&](BatchNorm2dImpl&) { has_batch_norm_ = true; });
}

// The mean of the batches' statistics: momentum nothing is torch's word for a plain running mean.
void Examiner::recompute_statistics(int64_t batches, int64_t position) {
  std::vector<c10::optional<double>> momenta;
  for_each_batch_norm(*model_, [&](BatchNorm2dImpl& norm) {
    momenta.push_back(norm.options.momentum());
    norm.reset_running_stats();
    norm.options.momentum(c10::nullopt);
  });
  model_->train();
  for (int64_t i = 0; i < batches; ++i) model_->loss(data_.training(position + i));
  size_t next = 0;
  for_each_batch_norm(*model_, [&](BatchNorm2dImpl& norm) { norm.options.momentum(momenta[next++]); });
}

Examiner::Verdict Examiner::examine(const torch::Tensor& parameters, int64_t batches, int64_t position,
                                    const std::vector<torch::Tensor>& buffers) {
  const torch::NoGradGuard no_grad;
  x_.copy_(parameters);
  if (has_batch_norm_ && batches > 0) {
    recompute_statistics(batches, position);
  } else if (!buffers.empty()) {
    const auto own = model_->buffers();
    for (size_t i = 0; i < own.size(); ++i) own[i].copy_(buffers[i]);
  }
  model_->eval();
  auto* classifier = dynamic_cast<models::Classifier*>(model_.get());
  double loss = 0;
  int64_t wrong = 0, count = 0;
  for (int64_t i = 0; i < data_.test_batches(); ++i) {
    const models::Batch batch = data_.test(i);
    loss += model_->loss(batch).item<double>() * static_cast<double>(batch.size());
    if (classifier != nullptr) wrong += classifier->mistakes(batch);
    count += batch.size();
  }
  return {loss / static_cast<double>(count),
          classifier != nullptr ? static_cast<double>(wrong) / static_cast<double>(count) : -1};
}

}  // namespace entrain
