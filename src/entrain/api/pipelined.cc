#include "entrain/api/pipelined.h"

#include "entrain/base/error.h"
#include "entrain/checkpoint/checkpoint.h"
#include "entrain/job/collectives.h"
#include "entrain/job/context.h"
#include "entrain/parallel/pipelined.h"
#include "entrain/parallel/same_start.h"
#include "entrain/parallel/saved.h"

namespace entrain {
namespace {

parallel::PipelinedOptions inner_options(const PipelineOptions& options) {
  parallel::PipelinedOptions inner;
  inner.pipeline.devices = options.cells;
  inner.pipeline.micro_batches = options.micro_batches;
  inner.pipeline.schedule = options.schedule;
  inner.pipeline.chunks = options.chunks;
  inner.pipeline.remat = options.remat;
  inner.pipeline.balance = options.balance;
  inner.pipeline.cells = options.threads ? "threads" : "auto";
  inner.strategy = options.strategy;
  inner.seed = options.seed;
  inner.clip_norm = options.clip_norm;
  strategy::validate(inner.pipeline);
  return inner;
}

}  // namespace

struct Pipelined::Impl {
  Impl(Context& public_context, torch::nn::Sequential& layers, LossFunction loss,
       torch::optim::Optimizer& of_all, const PipelineOptions& wanted)
      : context(public_context.inner()),
        model(layers),
        optimizer(of_all),
        options(inner_options(wanted)),
        place(parallel::place_of(context, options.pipeline)),
        sequence{layers::layers_of(model), std::move(loss)} {
    refuse_batch_norm_that_runs_twice();
    graph::NamedTensors named;
    for (const auto& item : model->named_parameters()) named.emplace_back(item.key(), item.value());
    parallel::check_same_tensors(context, named);
    std::vector<torch::Tensor> state = model->parameters();
    for (const auto& buffer : model->buffers()) state.push_back(buffer);
    job::broadcast(context, state);
  }

  // A pass that is computed again would move the statistics of torch's batch norm again.
  void refuse_batch_norm_that_runs_twice() const {
    if (options.pipeline.remat == "never") return;
    for (const auto& module : model->modules()) {
      if (module->name().find("BatchNorm") == std::string::npos) continue;
      bad_input("remat is {} and the model has a {}, whose statistics would move twice; allowed: never",
                options.pipeline.remat, module->name());
    }
  }

  // Cells are cut at the first step: layers are timed on its batch.
  parallel::Pipelined& cut_for(const torch::Tensor& input, const torch::Tensor& target) {
    if (!pipelined) {
      pipelined = std::make_unique<parallel::Pipelined>(context, *model, sequence,
                                                        models::Batch{input, target}, options);
      pipelined->use(optimizer, resumed);
    }
    return *pipelined;
  }

  job::Context& context;
  torch::nn::Sequential& model;
  torch::optim::Optimizer& optimizer;
  const parallel::PipelinedOptions options;
  const parallel::PipelinePlace place;
  layers::Sequence sequence;
  int64_t resumed = 0;  // steps done before the first one here
  std::unique_ptr<parallel::Pipelined> pipelined;
};

Pipelined::Pipelined(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pipelined::~Pipelined() = default;

double Pipelined::step(const torch::Tensor& input, const torch::Tensor& target) {
  parallel::Pipelined& pipelined = impl_->cut_for(input, target);
  const double loss = pipelined.run(input, target);
  pipelined.update();
  return loss;
}

int Pipelined::replica() const { return impl_->place.replica; }
int Pipelined::replicas() const { return impl_->place.replicas; }
std::vector<int> Pipelined::balance() const {
  return impl_->pipelined ? impl_->pipelined->balance() : impl_->options.pipeline.balance;
}
int64_t Pipelined::steps() const { return impl_->pipelined ? impl_->pipelined->steps() : impl_->resumed; }

void Pipelined::gather() {
  if (impl_->pipelined) impl_->pipelined->gather();
}

void Pipelined::save(const std::filesystem::path& folder, int keep, int64_t step) {
  gather();
  checkpoint::CheckpointInfo info;
  info.step = info.data_position = step;
  info.model = impl_->model->name();
  info.strategy = fmt::format("pipeline {}x{}", impl_->options.pipeline.devices, impl_->place.replicas);
  parallel::save_on_rank_0(impl_->context, folder, keep, std::move(info), *impl_->model, impl_->optimizer);
  job::barrier(impl_->context);
}

std::optional<int64_t> Pipelined::resume(const std::filesystem::path& folder) {
  if (impl_->pipelined) bad_input("resume of a pipeline after its first step; allowed: before it");
  const auto info = parallel::load_everywhere(impl_->context, folder, *impl_->model, impl_->optimizer);
  if (!info) return std::nullopt;
  parallel::restore_rng(impl_->context, *info);
  impl_->resumed = info->step;
  return info->step;
}

std::unique_ptr<Pipelined> pipelined(Context& context, torch::nn::Sequential& model, LossFunction loss,
                                     torch::optim::Optimizer& optimizer, PipelineOptions options) {
  return std::make_unique<Pipelined>(
      std::make_unique<Pipelined::Impl>(context, model, std::move(loss), optimizer, options));
}

}  // namespace entrain
