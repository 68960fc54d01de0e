#include "entrain/parallel/pipelined.h"

#include <algorithm>
#include <cmath>

#include "entrain/base/clock.h"
#include "entrain/base/error.h"
#include "entrain/parallel/device.h"
#include "entrain/parallel/pipeline_balance.h"
#include "entrain/parallel/pipeline_state.h"
#include "entrain/pipeline/run/assemble.h"
#include "entrain/pipeline/run/thread_pipeline.h"

namespace entrain::parallel {

PipelinePlace place_of(const job::Context& context, const strategy::Pipeline& pipeline) {
  const int world = context.world(), devices = pipeline.devices;
  if (context.workers() != world) {
    bad_input("a pipeline on a cluster with hosts that only serve: not allowed; {} of {} ranks train",
              context.workers(), world);
  }
  PipelinePlace place;
  place.ranks = devices > 1 && (pipeline.cells == "ranks" || (pipeline.cells == "auto" && world >= devices));
  if (place.ranks && world % devices != 0) {
    bad_input("`pipeline` {} on {} ranks: allowed: a number of ranks that {} divides, or `cells` threads",
              devices, world, devices);
  }
  const int width = place.ranks ? devices : 1;
  place.replica = context.rank() / width;
  place.replicas = world / width;
  place.device = context.rank() % width;
  for (int d = 0; d < width; ++d) place.pipeline.push_back(place.replica * width + d);
  for (int r = 0; r < place.replicas; ++r) place.twins.push_back(r * width + place.device);
  return place;
}

Pipelined::Pipelined(job::Context& context, torch::nn::Module& module, layers::Sequence sequence,
                     const models::Batch& sample, PipelinedOptions options)
    : context_(context),
      module_(module),
      sequence_(std::move(sequence)),
      options_(std::move(options)),
      place_(place_of(context, options_.pipeline)) {
  const strategy::Pipeline& wanted = options_.pipeline;
  if (options_.device != "cpu" && place_.ranks) {
    bad_input("`device` {} with cells that are ranks: allowed: `cells` threads, or cpu", options_.device);
  }
  if (sample.size() < wanted.micro_batches) {
    bad_input("`micro_batches` {} of `batch_size` {}: allowed: 1 to {}", wanted.micro_batches, sample.size(),
              sample.size());
  }
  balance_ = agree_on_balance(context, wanted, sequence_, sample);
  if (options_.device != "cpu") {
    const auto places = gpus_of(context, wanted.devices);
    pipeline::place_cells(sequence_, pipeline::cut(sequence_.layers, balance_), places);
  }
}

void Pipelined::use(torch::optim::Optimizer& optimizer, int64_t steps) {
  optimizer_ = &optimizer;
  step_ = steps;
  const strategy::Pipeline& wanted = options_.pipeline;
  pipeline::Options engine;
  engine.balance = balance_;
  engine.devices = wanted.devices;
  engine.chunks = wanted.chunks;
  engine.micro_batches = wanted.micro_batches;
  engine.schedule = wanted.schedule;
  engine.remat = pipeline::parse_remat(wanted.remat);
  // Replicas see different examples: their random numbers differ too.
  engine.seed = options_.seed + static_cast<uint64_t>(place_.replica) * 1'000'003;
  engine.loss_scale = 1.0 / place_.replicas;  // summed over replicas, gradients are the mean's
  if (place_.ranks) {
    auto made = std::make_unique<pipeline::RankPipeline>(*context_.transport, place_.pipeline, sequence_,
                                                         engine, context_.job.timeout_s);
    rank_engine_ = made.get();
    engine_ = std::move(made);
    if (context_.rank() != 0) keep_only(module_, rank_engine_->parameters(), rank_engine_->buffers());
  } else {
    engine_ = std::make_unique<pipeline::ThreadPipeline>(sequence_, engine);
  }
  engine_->set_steps(steps);
  named_ = named(module_, engine_->parameters());
  if (place_.replicas > 1) {
    sync_ = std::make_unique<ReplicaSync>(context_, place_.twins, options_.strategy, options_.seed, named_);
  }
}

// By the norm of all cells' gradients together.
void Pipelined::clip() {
  if (options_.clip_norm == 0) return;
  const torch::NoGradGuard no_grad;
  double squares = 0;
  for (const auto& [name, parameter] : named_) {
    const bool counts = rank_engine_ == nullptr || rank_engine_->counts_here(parameter);
    if (!parameter.grad().defined() || !counts) continue;
    squares += parameter.grad().to(torch::kDouble).square().sum().item<double>();
  }
  if (rank_engine_ != nullptr) squares = rank_engine_->sum(squares);
  const double scale = options_.clip_norm / (std::sqrt(squares) + 1e-6);
  if (scale >= 1) return;
  for (auto& [name, parameter] : named_) {
    if (parameter.grad().defined()) parameter.mutable_grad().mul_(scale);
  }
}

double Pipelined::run(const torch::Tensor& input, const torch::Tensor& target) {
  const auto start = Clock::now();
  // Not zeroed in place, as libtorch 1.13 does: the first micro-batch's gradients become the parameters' own.
  for (const auto& [name, parameter] : named_) parameter.mutable_grad().reset();
  const double loss = engine_->run(input, target);
  pass_seconds_ = seconds_since(start);
  if (sync_) sync_->sum(step_);
  if (rank_engine_ != nullptr) rank_engine_->sum_tied();
  if (const auto trouble = optim::trouble_with(loss, named_)) {
    optim::stop_at_non_finite(context_.rank(), step_, *trouble);
  }
  clip();
  return loss;
}

void Pipelined::update() {
  optimizer_->step();
  if (const auto name = optim::first_non_finite(named_)) {
    optim::stop_at_non_finite(context_.rank(), step_,
                              fmt::format("{} is not finite after the update", *name));
  }
  ++step_;
}

void Pipelined::gather() {
  if (place_.ranks) gather_model(context_, place_.pipeline, *rank_engine_, module_, *optimizer_);
}

}  // namespace entrain::parallel
