#include "entrain/api/pipelined.h"

#include <algorithm>
#include <map>
#include <thread>

#include "entrain/base/clock.h"
#include "entrain/base/error.h"
#include "entrain/checkpoint/checkpoint.h"
#include "entrain/job/collectives.h"
#include "entrain/job/context.h"
#include "entrain/job/failure.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/parallel/pipeline_balance.h"
#include "entrain/parallel/same_start.h"
#include "entrain/parallel/saved.h"
#include "entrain/parallel/shaped.h"
#include "entrain/parallel/threaded.h"
#include "entrain/parallel/undeferred.h"
#include "entrain/pipeline/plan/pipeline.h"
#include "entrain/strategy/parts.h"
#include "entrain/strategy/shape_file.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/trials/advised_shapes.h"
#include "entrain/trials/online_tuner.h"
#include "entrain/trials/profiled_model.h"

namespace entrain {
namespace {

strategy::Pipeline pipeline_of(const PipelineOptions& options) {
  strategy::Pipeline pipeline;
  pipeline.devices = options.cells;
  pipeline.micro_batches = options.micro_batches;
  pipeline.schedule = options.schedule;
  pipeline.chunks = options.chunks;
  pipeline.remat = pipeline::parse_remat(options.remat);
  pipeline.balance = options.balance;
  pipeline.cells = options.threads ? "threads" : "auto";
  pipeline::validate(pipeline);
  return pipeline;
}

}  // namespace

struct Pipelined::Impl {
  Impl(Context& public_context, torch::nn::Sequential& layers, LossFunction loss,
       torch::optim::Optimizer& of_all, PipelineOptions wanted)
      : context(public_context.inner()),
        model(layers),
        optimizer(of_all),
        options(std::move(wanted)),
        strategy(searches() ? PipelineOptions().strategy : options.strategy),
        sequence{layers::layers_of(model), std::move(loss)} {
    context.check_trains();
    if (strategy.stored()) strategy::check_parts(*strategy.stored(), "pipelined()");
    if (searches()) {
      take_search();
    } else if (options.shape.empty()) {
      take_pipeline();
    } else {
      take_shape(options.shape);
    }
    graph::NamedTensors named;
    for (const auto& item : model->named_parameters()) named.emplace_back(item.key(), item.value());
    parallel::check_same_tensors(context, named);
    std::vector<torch::Tensor> state = model->parameters();
    for (const auto& buffer : model->buffers()) state.push_back(buffer);
    job::broadcast(context, state);
  }

  bool searches() const { return options.strategy == "auto"; }

  void take_search() {
    if (!options.shape.empty()) bad_input("`strategy` auto with a shape: allowed: one of them");
    if (options.examples < context.workers()) {
      bad_input("`examples` {} with `strategy` auto: allowed: how many an update has, {} or more",
                options.examples, context.workers());
    }
    if (parallel::any_undeferred(sequence)) {
      bad_input("`strategy` auto of a model with batch norm: allowed: `shape`, each such layer on one rank");
    }
    of_ranks = true;
  }

  void take_pipeline() {
    pipeline = pipeline_of(options);
    parallel::check_undeferred(sequence, pipeline.remat);
    const std::vector<int> ranks = context.cluster.worker_ranks();
    const auto place =
        static_cast<int>(std::find(ranks.begin(), ranks.end(), context.rank()) - ranks.begin());
    of_ranks = parallel::devices_are_ranks(context, pipeline);
    const int width = of_ranks ? pipeline.devices : 1;
    if (of_ranks) {  // throws where they do not divide the ranks
      const auto count = static_cast<size_t>(pipeline.devices * pipeline.chunks);
      strategy::shape_of(pipeline, std::vector<int>(count, 1), ranks);
    }
    replica = place / width;
    replicas = context.workers() / width;
  }

  strategy::Shape checked_shape(const std::string& text) const {
    strategy::Shape wanted = strategy::shape_from(text, layer_count());
    strategy::validate(wanted, layer_count(), context.cluster, options.examples);
    parallel::check_undeferred(sequence, wanted);
    return wanted;
  }
  void take_shape(const std::string& text) {
    if (options.examples < 1) {
      bad_input("`examples` {} with a shape: allowed: how many an update has, of all ranks together",
                options.examples);
    }
    shape = checked_shape(text);
    of_ranks = true;
  }
  int layer_count() const { return static_cast<int>(sequence.layers.size()); }

  // Cells are cut at the first step: layers are timed on its examples.
  void cut_for(const parallel::Examples& examples) {
    if (!of_ranks) {
      auto threaded =
          std::make_unique<parallel::Threaded>(context, *model, sequence, examples,
                                               parallel::ThreadedOptions{.pipeline = pipeline,
                                                                         .strategy = strategy,
                                                                         .examples = options.examples,
                                                                         .seed = options.seed,
                                                                         .clip_norm = options.clip_norm});
      threaded->use(optimizer, resumed);
      balance = threaded->balance();
      cells = std::move(threaded);
      return;
    }
    if (searches()) {
      shape = first_of_search(examples);
    } else if (!shape) {
      const int64_t of_one = options.examples / (replicas * pipeline.micro_batches);
      shape = strategy::shape_of(pipeline,
                                 parallel::agree_on_balance(context, pipeline, sequence, examples, of_one),
                                 context.cluster.worker_ranks());
    }
    auto of_shape =
        std::make_unique<parallel::Shaped>(context, *model, sequence,
                                           parallel::ShapedOptions{.shape = *shape,
                                                                   .strategy = strategy,
                                                                   .examples = options.examples,
                                                                   .seed = options.seed,
                                                                   .clip_norm = options.clip_norm});
    of_shape->use(optimizer, resumed);
    take_balance();
    shaped = of_shape.get();
    cells = std::move(of_shape);
  }

  // Rank 0 times the layers on the first step's examples, while the others wait.
  strategy::Shape first_of_search(const parallel::Examples& examples) {
    if (context.workers() == 1) return strategy::data_parallel(layer_count(), context.cluster.worker_ranks());
    if (context.rank() == 0) {
      tuner.emplace(context.cluster,
                    trials::OnlineTunerOptions{
                        .model = "model",
                        .batch_size = options.examples / context.workers(),
                        .steps = options.steps,
                        .seed = options.seed,
                        .examples = options.examples,
                        .cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency())),
                        .mixes_examples = layers::mixes_examples(*model)});
    }
    advised.emplace(context, tuner ? &*tuner : nullptr, layer_count(), /*stream=*/context.handles + 1);
    return advised->begin([&] {
      return trials::profiled(
          {.module = *model,
           .sequence = sequence,
           .loss = [&](const models::Batch& b) { return sequence.loss(model->forward(b.input), b.target); },
           .examples = [&](int64_t count) { return examples(0, count); },
           .batch_size = options.examples / context.workers(),
           .workers = context.workers()});
    });
  }

  // Another shape may come between two steps; the one that has ended is what it is judged by.
  void stepped(double seconds) {
    if (!advised) return;
    if (made > 1) advised->after_step(*shaped, resumed + made - 1, seconds);
    if (advised->before_step(*shaped, /*stop=*/false, /*last=*/false) != job::Order::Kind::kSwitch) return;
    shape = shaped->shape();
    take_balance();
  }

  void take_balance() {
    balance.clear();
    for (const strategy::Cell& cell : shape->cells) balance.push_back(cell.end - cell.begin);
  }

  double step(int64_t of_update, const parallel::Examples& examples) {
    options.examples = of_update;
    if (cells) {
      cells->set_examples(of_update);
    } else {
      cut_for(examples);
    }
    return job::named_failure(context, [&] {
      const auto start = Clock::now();
      const double loss = cells->run(examples);
      cells->update();
      ++made;
      stepped(seconds_since(start));
      return loss;
    });
  }

  // Where in this replica's batch the update's example `begin` is: a replica's micro-batches follow each
  // other.
  int64_t place_in_batch(int64_t begin) const {
    if (shaped == nullptr || replicas == 1) return begin;
    int64_t place = 0;
    const plan::Assignment& assignment = shaped->assignment();
    for (const int m : assignment.of_replica(0, replica)) {
      const plan::MicroBatch& of = assignment.micro_batches[static_cast<size_t>(m)];
      if (of.begin == begin) return place;
      place += of.count;
    }
    fail("no micro-batch of replica {} begins at example {}", replica, begin);
  }

  job::Context& context;
  torch::nn::Sequential& model;
  torch::optim::Optimizer& optimizer;
  PipelineOptions options;
  strategy::Request strategy;            // options.strategy, read
  strategy::Pipeline pipeline;           // unless it was a shape
  std::optional<strategy::Shape> shape;  // where cells are ranks; known after the first step
  bool of_ranks = false;
  int replica = 0, replicas = 1;
  layers::Sequence sequence;
  int64_t resumed = 0, made = 0;  // steps: before the first one here, and since
  std::vector<int> balance;
  std::unique_ptr<parallel::CellTraining> cells;
  parallel::Shaped* shaped = nullptr;            // cells, where they are ranks
  std::optional<trials::OnlineTuner> tuner;      // "auto", on rank 0
  std::optional<trials::AdvisedShapes> advised;  // "auto", from the first step on
};

Pipelined::Pipelined(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pipelined::~Pipelined() {
  if (!impl_->advised || std::uncaught_exceptions() > 0) return;
  try {
    impl_->advised->end();
  } catch (const std::exception&) {
    // The job has failed: whoever called step() has seen the error.
  }
}

double Pipelined::step(const torch::Tensor& input, const torch::Tensor& target) {
  return impl_->step(input.size(0) * impl_->replicas, [&](int64_t begin, int64_t count) {
    const int64_t place = impl_->of_ranks ? impl_->place_in_batch(begin) : 0;
    return models::Batch{input.narrow(0, place, count), target.narrow(0, place, count)};
  });
}

double Pipelined::step(const Examples& examples) {
  if (impl_->options.shape.empty() && !impl_->searches())
    bad_input("step(examples) of a pipeline without a shape: allowed: step(input, target)");
  return impl_->step(impl_->options.examples, [&](int64_t begin, int64_t count) {
    const auto [input, target] = examples(begin, count);
    return models::Batch{input, target};
  });
}

int64_t Pipelined::reshape(const std::string& shape) {
  if (impl_->searches()) bad_input("reshape() where `strategy` is auto: not supported");
  if (impl_->options.shape.empty())
    bad_input("reshape() of a pipeline without a shape: give PipelineOptions::shape");
  if (impl_->shaped == nullptr) bad_input("reshape() before the first step: give PipelineOptions::shape");
  const strategy::Shape wanted = impl_->checked_shape(shape);
  const int64_t bytes = job::named_failure(impl_->context, [&] { return impl_->shaped->reshape(wanted); });
  impl_->shape = wanted;
  impl_->take_balance();
  return bytes;
}

int Pipelined::replica() const { return impl_->replica; }
int Pipelined::replicas() const { return impl_->replicas; }
std::vector<int> Pipelined::balance() const {
  return impl_->cells ? impl_->balance : impl_->pipeline.balance;
}
std::string Pipelined::shape() const { return impl_->shape ? strategy::to_text(*impl_->shape) : ""; }
int64_t Pipelined::steps() const { return impl_->resumed + impl_->made; }

void Pipelined::gather() {
  if (impl_->cells) impl_->cells->gather();
}

void Pipelined::save(const std::filesystem::path& folder, int keep, int64_t step) {
  gather();
  checkpoint::CheckpointInfo info;
  info.step = info.data_position = step;
  info.model = impl_->model->name();
  info.strategy = impl_->shape ? strategy::to_text(*impl_->shape)
                               : fmt::format("threads {}x{}", impl_->pipeline.devices, impl_->replicas);
  parallel::save_on_rank_0(impl_->context, folder, keep, std::move(info), *impl_->model, impl_->optimizer);
  job::barrier(impl_->context);
}

std::optional<int64_t> Pipelined::resume(const std::filesystem::path& folder) {
  if (impl_->cells) bad_input("resume of a pipeline after its first step; allowed: before it");
  const auto info = parallel::load_everywhere(impl_->context, folder, *impl_->model, impl_->optimizer);
  if (!info) return std::nullopt;
  parallel::restore_rng(impl_->context, *info);
  impl_->resumed = info->step;
  return info->step;
}

std::unique_ptr<Pipelined> pipelined(Context& context, torch::nn::Sequential& model, LossFunction loss,
                                     torch::optim::Optimizer& optimizer, PipelineOptions options) {
  return std::make_unique<Pipelined>(
      std::make_unique<Pipelined::Impl>(context, model, std::move(loss), optimizer, std::move(options)));
}

}  // namespace entrain
