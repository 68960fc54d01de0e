#include "entrain/parallel/distributed.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "entrain/base/error.h"
#include "entrain/base/reason.h"
#include "entrain/graph/capture.h"
#include "entrain/job/collectives.h"
#include "entrain/job/control.h"
#include "entrain/optim/base.h"
#include "entrain/parallel/compared_state.h"
#include "entrain/parallel/device.h"
#include "entrain/parallel/no_gradient.h"
#include "entrain/parallel/same_start.h"
#include "entrain/parallel/trained.h"
#include "entrain/strategy/shape.h"
#include "entrain/strategy/validate.h"

namespace entrain::parallel {
namespace {

// Adds the time from construction to destruction.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += seconds_since(start_); }

 private:
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

Distributed::Distributed(job::Context& context, torch::nn::Module& module, torch::optim::Optimizer* optimizer,
                         Options options)
    : context_(context),
      module_(module),
      optimizer_(optimizer),
      options_(std::move(options)),
      handle_(context.handles++),
      engine_(*context.transport, context.job.timeout_s, handle_) {
  check_rank();
  check_devices();
  take_range();
  if (optimizer != nullptr) updater_.emplace(*optimizer);
  const auto held = held_tensors(module, optimizer);
  check_same_tensors(context, held);
  std::vector<torch::Tensor> state;
  for (const auto& [name, tensor] : held) state.push_back(tensor);
  for (const auto& buffer : module.buffers()) state.push_back(buffer);
  job::broadcast(context, state);
  if (!held.empty()) engine_.sum_on(device_sum_of(context, held.front().second.device()));
}

void Distributed::check_rank() const {
  if (context_.trains()) return;
  bad_input("rank {} only serves parameters in this cluster: call entrain::serve() there", context_.rank());
}

void Distributed::check_devices() const {
  const auto held = held_tensors(module_, optimizer_);
  for (const auto& [name, tensor] : held) {
    const auto& [first_name, first] = held.front();
    if (tensor.device() == first.device()) continue;
    bad_input("rank {}: {} is on {}, {} on {}; allowed: all parameters of a rank on one device",
              context_.rank(), first_name, first.device().str(), name, tensor.device().str());
  }
}

// Divisor: examples of the update / examples of this rank.
void Distributed::take_range() {
  divisor_ = context_.workers();
  if (options_.strategy.stored() && options_.strategy.stored()->shape) {
    check_whole(*options_.strategy.stored()->shape);
    if (options_.shares.empty()) options_.shares = options_.strategy.stored()->shape->cells[0].shares;
  }
  if (options_.examples == 0 && options_.shares.empty()) return;
  const std::vector<int> ranks = context_.cluster.worker_ranks();
  strategy::Shape shape = strategy::data_parallel(1, ranks);
  shape.cells[0].shares = options_.shares;
  strategy::validate(shape, 1, context_.cluster, options_.examples);
  const auto own = std::find(ranks.begin(), ranks.end(), context_.rank()) - ranks.begin();
  range_ = plan::assign(shape, options_.examples).micro_batches[static_cast<size_t>(own)];
  divisor_ = static_cast<double>(options_.examples) / static_cast<double>(range_.count);
}

// A shape can say how these workers share the examples, and no more: each of them has the whole module.
void Distributed::check_whole(const strategy::Shape& shape) const {
  const std::vector<int> ranks = context_.cluster.worker_ranks();
  if (shape.cells.size() == 1 && shape.cells[0].ranks == ranks) return;
  bad_input(
      "the strategy's shape has {} cells on {} ranks; allowed where each worker has the whole model: one "
      "cell on "
      "all {} workers",
      shape.cells.size(), shape.ranks().size(), ranks.size());
}

// An orderly end tells the servers; after a failure they know already.
Distributed::~Distributed() {
  watch_.reset();
  try {
    finish();
    job::give_order(context_, job::To::kServers, {job::Order::Kind::kCloseHandle, handle_});
  } catch (const std::exception&) {
    // Whoever called step() or finish() has seen this error.
  }
}

// --- What is trained, and by which strategy ---

// Whether everything that requires a gradient now is a variable of G. What does so no more has no gradient,
// and is left out of the update for that.
bool Distributed::settled(const graph::NamedTensors& trained) const {
  return hooks_ != nullptr && std::all_of(trained.begin(), trained.end(), [&](const auto& item) {
           return settled_.contains(item.second.unsafeGetTensorImpl());
         });
}

void Distributed::settle_model(graph::Capture captured, const std::vector<size_t>& ready) {
  graph::describe_gradients(captured, ready);
  job::agree_on_gradients(context_, captured);
  graph::NamedTensors named, added;
  for (size_t v = 0; v < captured.variables.size(); ++v) {
    named.emplace_back(captured.graph.variables[v].name, captured.variables[v]);
  }
  job::give_order(context_, job::To::kServers, {job::Order::Kind::kModel, handle_});
  graph_ = job::agree_on_graph(*context_.transport, captured.graph, Deadline::after(context_.job.timeout_s));
  variables_ = graph::tensors_of(named, graph_);
  if (hooks_ != nullptr) {
    for (size_t v = 0; v < variables_.size(); ++v) {
      if (settled_.contains(variables_[v].unsafeGetTensorImpl())) continue;
      added.emplace_back(graph_.variables[v].name, variables_[v]);
    }
    check_same_values(context_, added);
  }
  settled_.clear();
  for (const auto& variable : variables_) settled_.insert(variable.unsafeGetTensorImpl());
  strategy::Strategy own;
  if (context_.rank() == 0) {
    own = options_.strategy.made_for(graph_, context_.cluster, options_.seed);
  }
  settle_strategy(own);
  profile_.emplace(variables_.size());
  watch_gradients();
}

void Distributed::settle_strategy(strategy::Strategy strategy) {
  strategy.shape.reset();  // range() is what it said
  strategy_ = job::agree_on_strategy(*context_.transport, strategy, Deadline::after(context_.job.timeout_s));
  strategy::validate(strategy_, graph_, context_.cluster);
  engine_.set_plan(plan::make_plan(strategy_, graph_, context_.cluster), graph_, variables_);
}

void Distributed::switch_strategy(const strategy::Strategy& strategy) {
  if (hooks_ == nullptr) fail("switch_strategy before the first step: set Options::strategy instead");
  finish();
  if (strategy.shape) {
    check_whole(*strategy.shape);
    if (strategy.shape->cells[0].shares != options_.shares) {
      bad_input("switch_strategy: the strategy's shape has other shares of the examples; allowed: the same");
    }
  }
  if (context_.rank() == 0) strategy::validate(strategy, graph_, context_.cluster);
  job::give_order(context_, job::To::kServers, {job::Order::Kind::kSwitch, handle_});
  settle_strategy(strategy);
}

void Distributed::watch_gradients() {
  hooks_.reset();  // the old ones first
  hooks_ = std::make_unique<graph::GradientHooks>(variables_, [this](size_t v) {
    if (!in_backward_) return;
    if (made_[v]) {
      fail(
          "rank {}: backward has made the gradient of {} a second time in step {}, and did so in no earlier "
          "step; call loss.backward() and then average_gradients() instead",
          context_.rank(), graph_.variables[v].name, step_);
    }
    profile_->made(v);
    made(v);
  });
}

graph::Graph Distributed::profiled_graph() const {
  if (!profile_ || profile_->steps() == 0) fail("profiled_graph before the second step");
  graph::Graph graph = graph_;
  profile_->fill(graph);
  return graph;
}

// --- Gradients: made, sent, summed ---

// d(mean over all workers)/dx = sum over workers of d(loss / divisor)/dx: the sum on the wire is the mean.
// A failure fails the job: the others wait for gradients that will not come.
void Distributed::run_backward(const torch::Tensor& loss, bool retain_graph, bool create_graph) {
  const Stopwatch stopwatch(times_.backward);
  try {
    const torch::Tensor shared = context_.workers() == 1 ? loss : loss / divisor_;
    shared.backward({}, retain_graph, create_graph);
  } catch (const std::exception& e) {
    in_backward_ = false;
    context_.transport->close(
        fmt::format("rank {}: backward of step {} failed: {}", context_.rank(), step_, reason_of(e)));
    throw;
  }
}

// What a backward of the user's has left joins the same sum.
void Distributed::share_accumulated(const graph::NamedTensors& tensors) const {
  if (context_.workers() == 1) return;
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.grad().defined()) tensor.mutable_grad() = tensor.grad() / divisor_;
  }
}

void Distributed::synchronize(const torch::Tensor& loss, bool retain_graph, bool create_graph) {
  complete();
  const auto trained = trained_tensors(module_, optimizer_);
  share_accumulated(trained);
  if (!settled(trained)) {
    first_backward(trained, loss, retain_graph, create_graph);
  } else {
    begin();
    profile_->backward_begins();
    in_backward_ = !several_times_;
    if (loss.defined()) run_backward(loss, retain_graph, create_graph);
    in_backward_ = false;
    profile_->backward_ends();
  }
  send_rest();
  ++step_;
}

// The strategy needs G, and only a backward shows all of G: which gradients are sparse and in which order
// they come. So it synchronizes after backward instead of during it.
void Distributed::first_backward(const graph::NamedTensors& trained, const torch::Tensor& loss,
                                 bool retain_graph, bool create_graph) {
  graph::Capture captured = graph::capture_variables(trained, loss);
  std::vector<size_t> order;
  std::vector<bool> seen(captured.variables.size());
  several_times_ = false;
  if (loss.defined()) {
    const graph::GradientHooks recorder(captured.variables, [&](size_t v) {
      several_times_ = several_times_ || seen[v];
      if (!seen[v]) order.push_back(v);
      seen[v] = true;
    });
    run_backward(loss, retain_graph, create_graph);
  }
  settle_model(std::move(captured), order);
  begin();
}

void Distributed::begin() {
  job::give_order(context_, job::To::kServers, {job::Order::Kind::kServeStep, handle_});
  engine_.begin(step_);
  made_.assign(variables_.size(), false);
}

// variables_[v].grad() is this rank's, and complete.
void Distributed::made(size_t v) {
  made_[v] = true;
  if (context_.workers() > 1) mark_as_made(variables_[v].mutable_grad());
  engine_.ready(v);
}

// What backward has not reported: gradients that were there before, and variables that this rank's loss did
// not use, for whose gradients the others wait.
void Distributed::send_rest() {
  const torch::NoGradGuard no_grad;
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (made_[v]) continue;
    torch::Tensor& gradient = variables_[v].mutable_grad();
    if (gradient.defined()) {
      made(v);
      continue;
    }
    gradient = no_gradient(graph_.variables[v], variables_[v]);
    engine_.ready(v);
  }
}

// Whether no worker has a gradient of v. Nobody looks where this rank has one.
bool Distributed::is_unused(size_t v, const torch::Tensor& gradient) const {
  return !made_[v] && is_no_gradient(gradient);
}

// Hands out the mean gradients in the order of their arrival.
void Distributed::take_all(const std::function<void(size_t, torch::Tensor)>& take) {
  while (true) {
    int taken = -1;
    {
      const Stopwatch stopwatch(times_.waited);
      taken = engine_.take_any();
    }
    if (taken < 0) return;
    const auto v = static_cast<size_t>(taken);
    torch::Tensor gradient = engine_.gradient(v);
    if (!is_unused(v, gradient)) take(v, std::move(gradient));
  }
}

// In grad(), beside what the user may have accumulated there while it was under way.
void Distributed::keep(size_t v, torch::Tensor gradient) {
  torch::Tensor& current = variables_[v].mutable_grad();
  current = current.defined() ? current + gradient : std::move(gradient);
}

void Distributed::synchronize_buffers() {
  if (options_.buffers == Buffers::kOwn || context_.workers() == 1) return;
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> sent, floating;
  for (const auto& buffer : module_.buffers()) {
    const bool averaged = options_.buffers == Buffers::kAverage && buffer.is_floating_point();
    (averaged ? floating : sent).push_back(buffer);
  }
  job::broadcast(context_, sent);
  if (floating.empty()) return;
  std::vector<torch::Tensor> flat;
  for (const auto& buffer : floating) flat.push_back(buffer.flatten().to(torch::kFloat64));
  const torch::Tensor means = job::all_reduce(context_, torch::cat(flat), job::Reduce::kMean);
  int64_t at = 0;
  for (auto& buffer : floating) {
    buffer.copy_(means.narrow(0, at, buffer.numel()).view_as(buffer));
    at += buffer.numel();
  }
}

// --- The two ways to train ---

void Distributed::backward(const torch::Tensor& loss, bool retain_graph, bool create_graph) {
  if (!loss.defined() || !loss.requires_grad()) bad_input("backward(loss): the loss has no gradient");
  if (profile_) profile_->forward_ends(not_computing());
  synchronize(loss, retain_graph, create_graph);
  take_all([this](size_t v, torch::Tensor gradient) { keep(v, std::move(gradient)); });
  synchronize_buffers();
  if (!profile_->full()) watch_forward();
  profile_->forward_begins(not_computing());
}

void Distributed::average_gradients() {
  if (profile_) profile_->forget();
  synchronize({}, false, false);
  take_all([this](size_t v, torch::Tensor gradient) { keep(v, std::move(gradient)); });
  synchronize_buffers();
}

void Distributed::step(const torch::Tensor& loss) {
  if (!updater_) bad_input("step(loss): distribute() was given no optimizer; allowed: backward(loss)");
  if (!loss.defined() || !loss.requires_grad()) bad_input("step(loss): the loss has no gradient");
  if (profile_) profile_->forward_ends(not_computing());
  complete();  // by the options of the last step
  check_loss(loss);
  updater_->begin();
  synchronize(loss, false, false);
  under_way_ = true;
  not_finite_.clear();
  const bool overlap = options_.overlap_forward && as_they_arrive();
  if (!overlap) complete();
  synchronize_buffers();
  if (overlap || !profile_->full()) watch_forward();
  profile_->forward_begins(not_computing());
}

void Distributed::watch_forward() {
  watch_ = std::make_unique<graph::ForwardWatch>(variables_, [this](size_t v) { use(v); });
}

// Whether a variable may be updated before all others are here.
bool Distributed::as_they_arrive() const {
  return updater_->one_by_one() && options_.clip_norm == 0 && options_.on_nonfinite != NonFinite::kSkip;
}

void Distributed::finish() {
  complete();
  check_last_loss();
}

void Distributed::compare() {
  finish();
  std::vector<HeldValue> held;
  for (size_t v = 0; v < variables_.size(); ++v) held.push_back({graph_.variables[v].name, variables_[v]});
  compare_state(context_, options_.first_step + step_, held, engine_.plan());
}

// Makes the updates of the last step that are missing.
void Distributed::complete() {
  if (watch_) watch_->check();
  watch_.reset();
  if (!under_way_) return;
  if (as_they_arrive()) {
    take_all([this](size_t v, torch::Tensor gradient) { update(v, std::move(gradient)); });
  } else {
    update_together();
  }
  under_way_ = false;
  if (!not_finite_.empty()) stop_for(not_finite_, step_ - 1);
}

// The variable has a gradient only meanwhile: the next backward hands over its own tensor (no copy, no
// zeroing), or the user has begun to accumulate one, which stays.
void Distributed::update(size_t v, torch::Tensor gradient) {
  const Stopwatch stopwatch(times_.updated);
  if (!updater_->holds(variables_[v])) return keep(v, std::move(gradient));
  if (gradient.is_cpu()) check_gradient(v, gradient);  // a GPU's would have to be waited for
  if (!not_finite_.empty()) return;
  torch::Tensor& current = variables_[v].mutable_grad();
  torch::Tensor accumulated = std::exchange(current, std::move(gradient));
  updater_->update(variables_[v]);
  current = std::move(accumulated);
}

void Distributed::update_together() {
  std::vector<size_t> taken;
  take_all([&](size_t v, torch::Tensor gradient) {
    keep(v, std::move(gradient));
    taken.push_back(v);
  });
  const Stopwatch stopwatch(times_.updated);
  for (const size_t v : taken) check_gradient(v, variables_[v].grad());
  if (not_finite_.empty()) {
    optim::clip_gradients(variables_, options_.clip_norm);
    updater_->update_all();
  } else if (options_.on_nonfinite == NonFinite::kSkip) {
    ++skipped_;
    not_finite_.clear();
  }
  for (const size_t v : taken) {
    if (updater_->holds(variables_[v])) variables_[v].mutable_grad().reset();
  }
}

// The next forward is about to read variable v.
void Distributed::use(size_t v) {
  if (at::GradMode::is_enabled()) profile_->reads(v, not_computing());  // else it is an optimizer, or a test
  if (!under_way_) return;
  bool taken = false;
  {
    const Stopwatch stopwatch(times_.waited);
    taken = engine_.take(v);
  }
  if (!taken) return;
  torch::Tensor gradient = engine_.gradient(v);
  if (!is_unused(v, gradient)) update(v, std::move(gradient));
}

void Distributed::check_gradient(size_t v, const torch::Tensor& gradient) {
  if (options_.on_nonfinite == NonFinite::kAllow || !not_finite_.empty() || optim::all_finite(gradient)) {
    return;
  }
  not_finite_ = fmt::format("the mean gradient of {} is not finite ({})", graph_.variables[v].name,
                            optim::describe_non_finite(gradient));
}

// A GPU's loss would have to be waited for: it is looked at one step later.
void Distributed::check_loss(const torch::Tensor& loss) {
  if (options_.on_nonfinite != NonFinite::kStop || loss.numel() != 1) return;
  check_last_loss();
  last_loss_ = loss.detach();
  loss_step_ = step_;
  if (loss.is_cpu()) check_last_loss();
}

void Distributed::check_last_loss() {
  if (!last_loss_.defined()) return;
  const double value = std::exchange(last_loss_, {}).item<double>();
  if (!std::isfinite(value)) stop_for(fmt::format("the loss is {}", value), loss_step_);
}

void Distributed::stop_for(const std::string& what, int64_t step) {
  try {
    optim::stop_at_non_finite(context_.rank(), options_.first_step + step, what);
  } catch (const Error& e) {
    context_.transport->close(e.what());  // the others learn why
    throw;
  }
}

std::unique_ptr<Distributed> distribute(job::Context& context, torch::nn::Module& module,
                                        torch::optim::Optimizer& optimizer, Options options) {
  return std::make_unique<Distributed>(context, module, optimizer, std::move(options));
}

std::unique_ptr<Distributed> distribute(job::Context& context, torch::nn::Module& module, Options options) {
  return std::make_unique<Distributed>(context, module, std::move(options));
}

}  // namespace entrain::parallel
