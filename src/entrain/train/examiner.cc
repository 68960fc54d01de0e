#include "entrain/train/examiner.h"

#include <optional>
#include <utility>

#include "entrain/layers/batch_norm.h"
#include "entrain/models/classifier.h"
#include "entrain/models/registry.h"
#include "entrain/optim/rule_worker.h"

namespace entrain::train {
namespace {

// `use` takes either kind: torch's, and the one that pipelines can defer.
template <typename Use>
void for_each_batch_norm(torch::nn::Module& module, Use use) {
  for (const auto& part : module.modules()) {
    if (auto* norm = dynamic_cast<torch::nn::BatchNorm2dImpl*>(part.get())) use(*norm);
    if (auto* norm = dynamic_cast<layers::BatchNorm2dImpl*>(part.get())) use(*norm);
  }
}

// Both return the old one.
std::optional<double> set_momentum(torch::nn::BatchNorm2dImpl& norm, std::optional<double> momentum) {
  const auto old = norm.options.momentum();
  norm.options.momentum(momentum ? c10::optional<double>(*momentum) : c10::nullopt);
  return old ? std::optional<double>(*old) : std::nullopt;
}

std::optional<double> set_momentum(layers::BatchNorm2dImpl& norm, std::optional<double> momentum) {
  return std::exchange(norm.momentum, momentum);
}

}  // namespace

Examiner::Examiner(const std::string& model, torch::Device device, data::Data& data, int64_t batch)
    : model_(models::make_model(model, 0)), data_(data), batch_(batch) {
  model_->to(device);
  x_ = optim::flatten(model_->parameters());
  for_each_batch_norm(*model_, [&](auto&) { has_batch_norm_ = true; });
}

// The mean of the batches' statistics: no momentum means a plain running mean.
void Examiner::recompute_statistics(int64_t batches, int64_t position) {
  std::vector<std::optional<double>> momenta;
  for_each_batch_norm(*model_, [&](auto& norm) {
    momenta.push_back(set_momentum(norm, std::nullopt));
    norm.reset_running_stats();
  });
  model_->train();
  for (int64_t i = 0; i < batches; ++i) model_->loss(data_.training(position + i, 0, batch_));
  size_t next = 0;
  for_each_batch_norm(*model_, [&](auto& norm) { set_momentum(norm, momenta[next++]); });
}

Examiner::Verdict Examiner::examine(const std::vector<torch::Tensor>& parameters, int64_t batches,
                                    int64_t position, const std::vector<torch::Tensor>& buffers) {
  std::vector<torch::Tensor> flat;
  for (const auto& parameter : parameters) flat.push_back(parameter.detach().to(x_.device()).flatten());
  return examine(torch::cat(flat), batches, position, buffers);
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

}  // namespace entrain::train
