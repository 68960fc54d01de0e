#include "entrain/parallel/shaped.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "entrain/base/clock.h"
#include "entrain/base/error.h"
#include "entrain/graph/capture.h"
#include "entrain/job/agreement.h"
#include "entrain/job/control.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/parallel/compared_state.h"
#include "entrain/parallel/group_sum.h"
#include "entrain/parallel/no_gradient.h"
#include "entrain/parallel/undeferred.h"
#include "entrain/plan/passes.h"
#include "entrain/plan/plan.h"
#include "entrain/strategy/validate.h"

namespace entrain::parallel {
namespace {

bool among(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

layers::Sequence checked(const job::Context& context, layers::Sequence sequence,
                         const ShapedOptions& options) {
  if (!context.trains()) {
    bad_input("rank {} only serves parameters in this cluster: call entrain::serve() there", context.rank());
  }
  if (sequence.layers.empty()) bad_input("the model is not a sequence of layers: no shape can cut it");
  strategy::validate(options.shape, static_cast<int>(sequence.layers.size()), context.cluster,
                     options.examples);
  check_undeferred(sequence, options.shape);
  return sequence;
}

}  // namespace

Shaped::Shaped(job::Context& context, torch::nn::Module& module, layers::Sequence sequence,
               ShapedOptions options)
    : context_(context),
      module_(module),
      sequence_(checked(context, std::move(sequence), options)),
      options_(std::move(options)),
      handle_(context.handles++),
      parts_(parts_of(module, sequence_)),
      engine_(*context.transport, context.job.timeout_s, handle_) {
  describe_model();
}

// An orderly end tells the servers; after a failure they know already.
Shaped::~Shaped() {
  try {
    job::give_order(context_, job::To::kServers, {job::Order::Kind::kCloseHandle, handle_});
  } catch (const std::exception&) {
    // Whoever called run() has seen this error.
  }
}

// --- What is trained, where, and by which strategy ---

// G without what only a backward shows: variables in the order in which layers read them.
void Shaped::describe_model() {
  std::vector<size_t> order;
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (parts_[p].parameter && parts_[p].tensor.requires_grad() && !parts_[p].layers.empty())
      order.push_back(p);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return parts_[a].layers.front() < parts_[b].layers.front(); });
  for (const layers::Layer& layer : sequence_.layers) graph_.layers.push_back({layer.name, {}});
  const auto count = static_cast<int>(order.size());
  for (int v = 0; v < count; ++v) {
    const ModelPart& part = parts_[order[static_cast<size_t>(v)]];
    graph::Variable variable;
    variable.name = part.name;
    variable.shape = part.sizes;
    variable.dtype = graph::dtype_name(part.name, part.tensor.scalar_type());
    variable.ready_order = count - 1 - v;
    graph_.variables.push_back(std::move(variable));
    if (v > 0) graph_.edges.push_back({v - 1, v});
    variables_.push_back(part.tensor);
    for (const int layer : part.layers) graph_.layers[static_cast<size_t>(layer)].variables.push_back(v);
  }
}

void Shaped::use(torch::optim::Optimizer& optimizer, int64_t steps) {
  optimizer_ = &optimizer;
  step_ = steps;
  build();
}

// All that depends on the shape.
void Shaped::build() {
  const int rank = context_.rank();
  const strategy::Shape& shape = options_.shape;
  held_ = holdings_under(shape, parts_, context_.cluster.worker_ranks());
  if (rank != 0 && !options_.rehearsal) keep_only_held(rank, parts_, held_);
  assignment_ = plan::assign(shape, options_.examples);
  std::vector<int> balance;
  for (const strategy::Cell& cell : shape.cells) balance.push_back(cell.end - cell.begin);
  cut_ = pipeline::cut(sequence_.layers, balance);

  std::vector<pipeline::Cell> cells;
  variables_of_cell_.assign(shape.cells.size(), {});
  passes_of_.assign(variables_.size(), 0);
  holders_.assign(variables_.size(), {});
  for (size_t c = 0; c < shape.cells.size(); ++c) {
    const strategy::Cell& cell = shape.cells[c];
    std::vector<bool> reads(variables_.size());
    for (int layer = cell.begin; layer < cell.end; ++layer) {
      for (const int v : graph_.layers[static_cast<size_t>(layer)].variables)
        reads[static_cast<size_t>(v)] = true;
    }
    const auto& ranks = assignment_.rank_of[c];
    const auto own = static_cast<int>(std::count(ranks.begin(), ranks.end(), rank));
    for (size_t v = 0; v < reads.size(); ++v) {
      if (!reads[v]) continue;
      for (const int holder : cell.ranks) {
        if (!among(holders_[v], holder)) holders_[v].push_back(holder);
      }
      passes_of_[v] += own;
      if (own > 0) variables_of_cell_[c].push_back(v);
    }
    if (own == 0) continue;
    cells.emplace_back(sequence_.layers, cut_, static_cast<int>(c), options_.seed);
    for (const auto& module : cells.back().modules()) layers::defer_batch_norm(*module, true);
  }
  for (auto& ranks : holders_) std::sort(ranks.begin(), ranks.end());

  auto passes = plan::make_passes(shape, assignment_);
  passes.resize(static_cast<size_t>(std::max(context_.world(), static_cast<int>(passes.size()))));
  mail_ = std::make_unique<pipeline::RankMail>(*context_.transport, cut_, assignment_.rank_of,
                                               pipeline::place_of(cells), context_.job.timeout_s);
  worker_ = std::make_unique<pipeline::Worker>(cut_, std::move(passes[static_cast<size_t>(rank)]), 1.0,
                                               std::move(cells), sequence_, *mail_);
  worker_->slow_down(options_.slowdown);
  worker_->watch_backwards([this](int cell) { backward_begins(cell); },
                           [this](int cell) { backward_ended(cell); });
  named_.clear();
  std::vector<torch::Tensor> own;
  std::vector<size_t> own_numbers;
  for (size_t v = 0; v < variables_.size(); ++v) {
    variables_[v].mutable_grad().reset();  // of the shape before: nobody updates what is another rank's now
    if (!holds(v)) continue;
    named_.emplace_back(graph_.variables[v].name, variables_[v]);
    own.push_back(variables_[v]);
    own_numbers.push_back(v);
  }
  hooks_.reset();  // the old ones first
  hooks_ = std::make_unique<graph::GradientHooks>(own, [this, own_numbers](size_t i) {
    const size_t v = own_numbers[i];
    if (in_passes_ && passes_left_[v] == 0 && !made_[v]) made(v);
  });
}

// The strategy needs to know which gradients are sparse, which only a backward shows: so the first step
// synchronizes after its passes instead of during them.
void Shaped::settle() {
  graph::Capture captured{graph_, variables_, {}};
  for (size_t v = 0; v < variables_.size(); ++v) {
    const torch::Tensor gradient = variables_[v].grad();
    if (!holds(v) || !gradient.defined() || !gradient.is_sparse()) continue;
    captured.graph.variables[v].sparse = true;
    captured.graph.variables[v].rows_per_step = gradient.coalesce()._nnz();
  }
  job::agree_on_gradients(context_, captured);
  job::give_order(context_, job::To::kServers, {job::Order::Kind::kModel, handle_});
  graph_ = job::agree_on_graph(*context_.transport, captured.graph, Deadline::after(context_.job.timeout_s));
  settled_ = true;
  if (context_.rank() == 0) {
    strategy_ = options_.strategy.made_for(graph_, context_.cluster, options_.seed);
  }
  settle_strategy();
}

void Shaped::settle_strategy() {
  strategy_.shape = options_.shape;
  strategy_ = job::agree_on_strategy(*context_.transport, strategy_, Deadline::after(context_.job.timeout_s));
  strategy::validate(strategy_, graph_, context_.cluster);
  std::vector<torch::Tensor> own;
  for (size_t v = 0; v < variables_.size(); ++v) own.push_back(holds(v) ? variables_[v] : torch::Tensor());
  engine_.set_plan(plan::make_plan(strategy_, graph_, context_.cluster), graph_, std::move(own));
}

int64_t Shaped::take_shape(const strategy::Shape& shape) {
  strategy::validate(shape, static_cast<int>(sequence_.layers.size()), context_.cluster, options_.examples);
  check_undeferred(sequence_, shape);
  engine_.serve();  // what others still ask of this rank is of the old plan
  const Holdings wanted = holdings_under(shape, parts_, context_.cluster.worker_ranks());
  const int64_t bytes =
      options_.rehearsal ? 0 : move_parts(context_, module_, *optimizer_, parts_, held_, wanted);
  options_.shape = shape;
  build();
  return bytes;
}

int64_t Shaped::reshape(const strategy::Shape& shape) {
  const int64_t bytes = take_shape(shape);
  if (settled_) {
    job::give_order(context_, job::To::kServers, {job::Order::Kind::kSwitch, handle_});
    settle_strategy();
  }
  return bytes;
}

int64_t Shaped::switch_strategy(const strategy::Strategy& strategy) {
  if (!settled_ || !strategy.shape) fail("switch_strategy before the first step, or without a shape");
  const int64_t bytes = take_shape(*strategy.shape);
  strategy_ = strategy;
  job::give_order(context_, job::To::kServers, {job::Order::Kind::kSwitch, handle_});
  settle_strategy();
  return bytes;
}

// The layers stay where they are; each replica's passes get other examples.
void Shaped::set_examples(int64_t examples) {
  if (examples == options_.examples) return;
  strategy::validate(options_.shape, static_cast<int>(sequence_.layers.size()), context_.cluster, examples);
  engine_.serve();  // what others still ask of this rank
  options_.examples = examples;
  build();
}

void Shaped::compare() {
  std::vector<HeldValue> held;
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (!holds(v) || holders_[v].size() < 2) continue;
    const auto same = std::find(holders_.begin(), holders_.end(), holders_[v]);
    held.push_back({graph_.variables[v].name, variables_[v], static_cast<int>(same - holders_.begin())});
  }
  compare_state(context_, step_, held, engine_.plan());
}

void Shaped::gather() {
  Holdings wanted = held_;
  for (auto& ranks : wanted) {
    if (ranks.empty() || ranks.front() != 0) ranks.insert(ranks.begin(), 0);
  }
  move_parts(context_, module_, *optimizer_, parts_, held_, wanted);
}

// --- One step ---

pipeline::MicroBatches Shaped::cut(const Examples& examples) const {
  pipeline::MicroBatches batch;
  const int rank = context_.rank();
  const auto count = static_cast<size_t>(assignment_.count());
  batch.total = assignment_.examples;
  batch.inputs.resize(count);
  batch.targets.resize(count);
  for (size_t m = 0; m < count; ++m) {
    const plan::MicroBatch& of = assignment_.micro_batches[m];
    batch.sizes.push_back(of.count);
    const bool first = assignment_.rank_of.front()[m] == rank, last = assignment_.rank_of.back()[m] == rank;
    if (!first && !last) continue;
    const models::Batch made = examples(of.begin, of.count);
    if (first) batch.inputs[m] = made.input;
    if (last) batch.targets[m] = made.target;
  }
  return batch;
}

void Shaped::begin() {
  job::give_order(context_, job::To::kServers, {job::Order::Kind::kServeStep, handle_});
  engine_.begin(rounds_++);
}

void Shaped::backward_begins(int cell) {
  for (const size_t v : variables_of_cell_[static_cast<size_t>(cell)]) --passes_left_[v];
}

// What this pass has not made and no other will: a variable that its micro-batch did not use.
void Shaped::backward_ended(int cell) {
  if (!in_passes_) return;
  for (const size_t v : variables_of_cell_[static_cast<size_t>(cell)]) {
    if (passes_left_[v] == 0 && !made_[v] && variables_[v].grad().defined()) made(v);
  }
}

// variables_[v].grad() is this rank's, and complete.
void Shaped::made(size_t v) {
  made_[v] = true;
  if (holders_[v].size() > 1) mark_as_made(variables_[v].mutable_grad());
  engine_.ready(v);
}

void Shaped::send_rest() {
  const torch::NoGradGuard no_grad;
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (!holds(v) || made_[v]) continue;
    torch::Tensor& gradient = variables_[v].mutable_grad();
    if (gradient.defined()) {
      made(v);
    } else {
      gradient = no_gradient(graph_.variables[v], variables_[v]);
      engine_.ready(v);
    }
  }
}

void Shaped::take_all() {
  for (int taken = engine_.take_any(); taken >= 0; taken = engine_.take_any()) {
    const auto v = static_cast<size_t>(taken);
    torch::Tensor gradient = engine_.gradient(v);
    if (made_[v] || !is_no_gradient(gradient)) variables_[v].mutable_grad() = std::move(gradient);
  }
}

// Deferred batch norm moves by the statistics of all replicas of its cell.
void Shaped::sum_statistics() {
  for (const pipeline::Cell& cell : worker_->cells()) {
    std::vector<int> ranks = options_.shape.cells[static_cast<size_t>(cell.index())].ranks;
    std::sort(ranks.begin(), ranks.end());
    for (const auto& module : cell.modules()) {
      const torch::Tensor gathered =
          ranks.size() > 1 ? layers::gathered_statistics(*module) : torch::Tensor();
      if (gathered.defined() && gathered.numel() > 0) {
        layers::set_gathered_statistics(
            *module, group_sum(context_, ranks, gathered, transport::tags::kCellSum + 1, "batch statistics"));
      }
      layers::commit_batch_norm(*module);
    }
  }
}

std::vector<double> Shaped::sums(std::vector<double> values, std::string_view what) {
  const torch::Tensor own = torch::tensor(values, torch::kDouble);
  const torch::Tensor sum =
      group_sum(context_, context_.cluster.worker_ranks(), own, transport::tags::kCellSum, what);
  for (size_t i = 0; i < values.size(); ++i) values[i] = sum[static_cast<int64_t>(i)].item<double>();
  return values;
}

// By the norm of all variables' gradients together, of which `squares` is the square.
void Shaped::clip(double squares) {
  if (options_.clip_norm == 0) return;
  const torch::NoGradGuard no_grad;
  const double norm = std::sqrt(squares);
  if (norm <= options_.clip_norm) return;
  for (auto& [name, variable] : named_) {
    if (variable.grad().defined()) variable.mutable_grad().mul_(options_.clip_norm / norm);
  }
}

double Shaped::run(const Examples& examples) {
  const pipeline::MicroBatches batch = cut(examples);
  const auto start = Clock::now();
  for (const auto& [name, variable] : named_) variable.mutable_grad().reset();
  passes_left_ = passes_of_;
  made_.assign(variables_.size(), false);
  if (settled_) begin();
  in_passes_ = settled_;
  mail_->begin_step(batch.sizes);
  const double part = worker_->run(step_, batch, start);
  mail_->end_step();
  in_passes_ = false;
  pass_seconds_ = seconds_since(start);
  if (!settled_) {
    settle();
    begin();
  }
  send_rest();
  take_all();
  sum_statistics();
  if (const auto trouble = optim::trouble_with(part, named_)) {
    optim::stop_at_non_finite(context_.rank(), step_, *trouble);
  }
  double squares = 0;
  for (size_t v = 0; options_.clip_norm > 0 && v < variables_.size(); ++v) {
    const bool counts = holders_[v].front() == context_.rank();  // once for all who hold it
    if (!counts || !variables_[v].grad().defined()) continue;
    torch::Tensor& gradient = variables_[v].mutable_grad();
    if (gradient.is_sparse()) gradient = gradient.coalesce();  // rows that came twice count as their sum
    const torch::Tensor values = gradient.is_sparse() ? gradient._values() : gradient;
    squares += values.to(torch::kDouble).square().sum().item<double>();
  }
  const auto all = sums({part, squares}, "the loss of all micro-batches");
  clip(all[1]);
  return all[0];
}

void Shaped::update() {
  optim::update_and_check(*optimizer_, named_, context_.rank(), step_);
  ++step_;
}

}  // namespace entrain::parallel
