#include "entrain/parallel/threaded.h"

#include <algorithm>
#include <numeric>

#include "entrain/base/clock.h"
#include "entrain/base/error.h"
#include "entrain/optim/base.h"
#include "entrain/parallel/compared_state.h"
#include "entrain/parallel/device.h"
#include "entrain/parallel/pipeline_balance.h"
#include "entrain/parallel/undeferred.h"
#include "entrain/pipeline/run/assemble.h"

namespace entrain::parallel {
namespace {

int64_t own_examples(const job::Context& context, const strategy::Pipeline& pipeline, int64_t examples) {
  const int world = context.world();
  if (context.workers() != world) {
    bad_input(
        "cells that are threads on a cluster with hosts that only serve: not allowed; {} of {} ranks train",
        context.workers(), world);
  }
  if (examples % world != 0) {
    bad_input("{} examples per update on {} ranks whose cells are threads: allowed: a multiple of {}",
              examples, world, world);
  }
  const int64_t own = examples / world;
  if (own < pipeline.micro_batches) {
    bad_input("`micro_batches` {} of {} examples per rank: allowed: 1 to {}", pipeline.micro_batches, own,
              own);
  }
  return own;
}

}  // namespace

bool devices_are_ranks(const job::Context& context, const strategy::Pipeline& pipeline) {
  return pipeline.devices > 1 &&
         (pipeline.cells == "ranks" || (pipeline.cells == "auto" && context.workers() >= pipeline.devices));
}

Threaded::Threaded(job::Context& context, torch::nn::Module& module, layers::Sequence sequence,
                   const Examples& examples, ThreadedOptions options)
    : context_(context),
      module_(module),
      sequence_(std::move(sequence)),
      options_(std::move(options)),
      own_(own_examples(context, options_.pipeline, options_.examples)) {
  const strategy::Pipeline& wanted = options_.pipeline;
  check_undeferred(sequence_, wanted.remat);
  balance_ = agree_on_balance(context, wanted, sequence_, examples, own_ / wanted.micro_batches);
  if (options_.device != "cpu") {
    const auto places = gpus_of(context, wanted.devices);
    pipeline::place_cells(sequence_, pipeline::cut(sequence_.layers, balance_), places);
  }
}

void Threaded::use(torch::optim::Optimizer& optimizer, int64_t steps) {
  optimizer_ = &optimizer;
  step_ = steps;
  pipeline::Options engine{options_.pipeline};
  engine.balance = balance_;
  // Replicas see different examples: their random numbers differ too.
  engine.seed = options_.seed + static_cast<uint64_t>(context_.rank()) * 1'000'003;
  engine.loss_scale = 1.0 / context_.world();  // summed over replicas, gradients are the mean's
  engine_ = std::make_unique<pipeline::ThreadPipeline>(sequence_, engine);
  engine_->set_steps(steps);
  named_.clear();
  const auto parameters = engine_->parameters();
  for (const auto& item : module_.named_parameters()) {
    const auto is_it = [&](const torch::Tensor& tensor) { return tensor.is_same(item.value()); };
    if (std::any_of(parameters.begin(), parameters.end(), is_it)) {
      named_.emplace_back(item.key(), item.value());
    }
  }
  if (context_.world() > 1) {
    std::vector<int> ranks(static_cast<size_t>(context_.world()));
    std::iota(ranks.begin(), ranks.end(), 0);
    sync_ = std::make_unique<ReplicaSync>(context_, ranks, options_.strategy, options_.seed, named_);
  }
}

void Threaded::set_examples(int64_t examples) { own_ = own_examples(context_, options_.pipeline, examples); }

double Threaded::run(const Examples& examples) {
  const models::Batch batch = examples(context_.rank() * own_, own_);
  const auto start = Clock::now();
  // Not zeroed in place, as libtorch 1.13 does: the first micro-batch's gradients become the parameters' own.
  for (const auto& [name, parameter] : named_) parameter.mutable_grad().reset();
  const double loss = engine_->run(batch.input, batch.target);
  pass_seconds_ = seconds_since(start);
  if (sync_) sync_->sum(step_);
  if (const auto trouble = optim::trouble_with(loss, named_)) {
    optim::stop_at_non_finite(context_.rank(), step_, *trouble);
  }
  optim::clip_gradients(engine_->parameters(), options_.clip_norm);
  return loss;
}

void Threaded::compare() {
  if (!sync_) return;
  std::vector<HeldValue> held;
  for (const auto& [name, parameter] : named_) held.push_back({name, parameter});
  compare_state(context_, step_, held, sync_->plan());
}

void Threaded::update() {
  optim::update_and_check(*optimizer_, named_, context_.rank(), step_);
  ++step_;
}

}  // namespace entrain::parallel
