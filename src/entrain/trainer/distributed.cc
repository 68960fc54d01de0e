#include "entrain/trainer/distributed.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <utility>

#include "entrain/base/error.h"
#include "entrain/collective/algorithms.h"
#include "entrain/collective/executor.h"
#include "entrain/graph/capture.h"
#include "entrain/optim/base.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/validate.h"
#include "entrain/trainer/device.h"

namespace entrain {
namespace {

constexpr transport::Tag kModelTag = transport::kControlTags + 4;
constexpr transport::Tag kParametersTag = transport::kControlTags + (transport::Tag{1} << 40);

// Adds the time from construction to destruction.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += seconds_since(start_); }

 private:
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

// What a worker sends for a variable that its loss did not use: -0, because it adds like 0 and yet
// (-0) + (-0) alone is -0. So all workers see it when nobody has used the variable.
torch::Tensor no_gradient(const torch::Tensor& variable) { return torch::full_like(variable, -0.0); }

// Whether every worker sent no_gradient(). On a device nobody looks: it would have to be waited for.
bool is_no_gradient(const torch::Tensor& gradient) {
  if (gradient.is_sparse() || !gradient.is_cpu() || gradient.numel() == 0 || !gradient.is_contiguous()) {
    return false;
  }
  const auto* bytes = static_cast<const unsigned char*>(gradient.data_ptr());
  const size_t width = gradient.element_size();  // little-endian: the sign is in the last byte
  const bool first =
      bytes[width - 1] == 0x80 && std::all_of(bytes, bytes + width - 1, [](auto b) { return b == 0; });
  return first && std::memcmp(bytes, bytes + width, gradient.nbytes() - width) == 0;  // all are as the first
}

}  // namespace

Distributed::Distributed(Context& context, torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                         Options options)
    : context_(context),
      module_(module),
      options_(std::move(options)),
      updater_(optimizer),
      engine_(*context.transport, context.job.timeout_s, context.engines++) {
  check_module();
  ++context_.handles;
  check_same_parameters();
  broadcast_parameters();
  const auto parameters = module.parameters();
  if (!parameters.empty()) engine_.sum_on(device_sum_of(context, parameters.front().device()));
}

void Distributed::check_module() const {
  if (!context_.trains()) {
    bad_input("rank {} only serves parameters in this cluster: call entrain::serve() there", context_.rank());
  }
  if (context_.handles > 0 && context_.workers() < context_.world()) {
    bad_input("rank {}: a second distribute() where hosts only serve; allowed: one at a time",
              context_.rank());
  }
  const auto parameters = module_.named_parameters();
  for (const auto& parameter : parameters) {
    if (parameter->device() == parameters[0]->device()) continue;
    bad_input("rank {}: {} is on {}, {} on {}; allowed: all parameters of a rank on one device",
              context_.rank(), parameters[0].key(), parameters[0]->device().str(), parameter.key(),
              parameter->device().str());
  }
}

// An orderly end tells the servers; after a failure they know already.
Distributed::~Distributed() {
  --context_.handles;
  watch_.reset();
  try {
    finish();
    order_servers(context_, Order::kEnd);
  } catch (const std::exception&) {
    // Whoever called step() or finish() has seen this error.
  }
}

// Ranks with different models must fail by a name, not by a size.
void Distributed::check_same_parameters() {
  std::string own;
  for (const auto& parameter : module_.named_parameters()) {
    own += fmt::format("{} {} [{}]\n", parameter.key(), toString(parameter->scalar_type()),
                       fmt::join(parameter->sizes().vec(), ", "));
  }
  const Deadline deadline = Deadline::after(context_.job.timeout_s);
  if (context_.rank() == 0) {
    for (int rank = 1; rank < context_.world(); ++rank) {
      if (!context_.cluster.is_worker(rank)) continue;
      transport::send(*context_.transport, rank, kModelTag, transport::as_bytes(own),
                      {0, deadline, "model's outline"});
    }
    return;
  }
  const auto payload = transport::recv(*context_.transport, 0, kModelTag, {deadline, "model's outline"});
  std::istringstream here(own), there{std::string(transport::as_text(payload.bytes()))};
  std::string mine, other;
  while (std::getline(here, mine) && std::getline(there, other)) {
    if (mine != other)
      fail("rank {} trains another model: {} here, {} on rank 0", context_.rank(), mine, other);
  }
  if (own.size() != payload.size()) {
    fail("rank {} trains another model: rank 0's has {} variables", context_.rank(),
         own.size() < payload.size() ? "more" : "fewer");
  }
}

void Distributed::broadcast_parameters() {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> tensors, hosts;
  std::vector<transport::Bytes> pieces;
  size_t bytes = 0;
  for (const auto& named : {module_.named_parameters(), module_.named_buffers()}) {
    for (const auto& tensor : named) {
      if (!tensor->is_contiguous()) fail("rank {}: {} is not contiguous", context_.rank(), tensor.key());
      tensors.push_back(*tensor);
      hosts.push_back(tensor->cpu());  // itself, where it is in host memory
      pieces.emplace_back(static_cast<std::byte*>(hosts.back().data_ptr()), tensor->nbytes());
      bytes += tensor->nbytes();
    }
  }
  std::byte padding{};  // what is sent is cut into elements of two bytes
  if (bytes % 2 != 0) pieces.emplace_back(&padding, 1);
  std::vector<int> workers;
  for (int rank = 0; rank < context_.world(); ++rank) {
    if (context_.cluster.is_worker(rank)) workers.push_back(rank);
  }
  collective::RunOptions options;
  options.tag = kParametersTag;
  options.type = collective::Type::kBFloat16;  // any two bytes: nothing is summed
  options.what = "broadcast of rank 0's parameters";
  // Rank 0 sends all of it log2(workers) times; a link slower than kSlowest counts as dead.
  constexpr double kSlowest = 10e6;  // bytes a second
  options.deadline = Deadline::after(context_.job.timeout_s +
                                     static_cast<double>(bytes) * std::log2(workers.size()) / kSlowest);
  collective::execute(collective::broadcast(workers, context_.world()), collective::Buffer(pieces), options,
                      *context_.transport);
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].is_cpu()) tensors[i].copy_(hosts[i]);
  }
}

// d(mean over all workers)/dx = sum over workers of d(loss / workers)/dx: the sum on the wire is the mean.
torch::Tensor Distributed::shared_loss(const torch::Tensor& loss) const {
  return context_.workers() == 1 ? loss : loss / context_.workers();
}

// What a backward of the user's has left joins the same sum.
void Distributed::share_accumulated(const std::vector<torch::Tensor>& variables) const {
  if (context_.workers() == 1) return;
  const torch::NoGradGuard no_grad;
  for (const auto& variable : variables) {
    if (variable.grad().defined()) variable.mutable_grad().div_(context_.workers());
  }
}

void Distributed::check_frozen() const {
  for (const auto& [name, parameter] : frozen_) {
    if (!parameter.requires_grad()) continue;
    fail(
        "rank {}: {} requires a gradient since the first step, which settled what is trained; make another "
        "Distributed after such a change",
        context_.rank(), name);
  }
}

// A failure fails the job: the others wait for gradients that will not come.
void Distributed::backward(const torch::Tensor& loss) {
  try {
    shared_loss(loss).backward();
  } catch (const std::exception& e) {
    in_backward_ = false;
    context_.transport->close(
        fmt::format("rank {}: backward of step {} failed: {}", context_.rank(), step_, e.what()));
    throw;
  }
}

void Distributed::step(const torch::Tensor& loss) {
  check_frozen();
  if (watch_) watch_->check();
  if (profile_) profile_->forward_ends(not_computing());
  finish();
  if (hooks_ == nullptr) {
    first_step(loss);
  } else {
    order_servers(context_, Order::kStep);
    engine_.begin(step_);
    made_.assign(variables_.size(), false);
    share_accumulated(variables_);
    in_backward_ = true;
    {
      const Stopwatch stopwatch(times_.backward);
      profile_->backward_begins();
      backward(loss);
    }
    in_backward_ = false;
    profile_->backward_ends();
    send_missing();
  }
  under_way_ = true;
  ++step_;
  if (options_.overlap_forward && options_.clip_norm == 0) {
    watch_ = std::make_unique<graph::ForwardWatch>(variables_, [this](size_t v) { use(v); });
  } else {
    finish();
  }
  if (profile_) profile_->forward_begins(not_computing());
}

// The strategy needs G, and only a backward shows all of G: which gradients are sparse and in
// which order they come. So the first step synchronizes after backward instead of during it.
void Distributed::first_step(const torch::Tensor& loss) {
  graph::Capture captured = graph::capture_variables(module_, loss);
  share_accumulated(captured.variables);
  std::vector<size_t> order;
  {
    const graph::GradientHooks recorder(captured.variables, [&](size_t v) { order.push_back(v); });
    backward(loss);
  }
  for (const auto& parameter : module_.named_parameters()) {
    if (!parameter->requires_grad()) frozen_.emplace_back(parameter.key(), *parameter);
  }
  graph::describe_gradients(captured, order);
  const Deadline deadline = Deadline::after(context_.job.timeout_s);
  graph_ = agree_on_graph(*context_.transport, captured.graph, deadline);
  variables_ = graph::tensors_of(module_, graph_);
  strategy::Strategy own;
  if (context_.rank() == 0)
    own = strategy::load_or_build(options_.strategy, graph_, context_.cluster, options_.seed);
  settle(own);
  profile_.emplace(variables_.size());

  hooks_ = std::make_unique<graph::GradientHooks>(variables_, [this](size_t v) {
    if (!in_backward_) return;
    made_[v] = true;
    profile_->made(v);
    engine_.ready(v);
  });
  order_servers(context_, Order::kStep);
  engine_.begin(step_);
  for (size_t v = 0; v < variables_.size(); ++v) made_[v] = variables_[v].grad().defined();
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (made_[v]) engine_.ready(v);
  }
  send_missing();
}

void Distributed::settle(const strategy::Strategy& strategy) {
  strategy_ = agree_on_strategy(*context_.transport, strategy, Deadline::after(context_.job.timeout_s));
  strategy::validate(strategy_, graph_, context_.cluster);
  engine_.set_plan(plan::make_plan(strategy_, graph_, context_.cluster), graph_, variables_);
  made_.assign(variables_.size(), false);
}

graph::Graph Distributed::profiled_graph() const {
  if (!profile_ || profile_->steps() == 0) fail("profiled_graph before the second step");
  graph::Graph graph = graph_;
  profile_->fill(graph);
  return graph;
}

void Distributed::switch_strategy(const strategy::Strategy& strategy) {
  if (hooks_ == nullptr) fail("switch_strategy before the first step: set Options::strategy instead");
  finish();
  if (context_.rank() == 0) strategy::validate(strategy, graph_, context_.cluster);
  order_servers(context_, Order::kSwitch);
  settle(strategy);
}

// A variable that this rank's loss did not use: the others wait for its gradient.
void Distributed::send_missing() {
  const torch::NoGradGuard no_grad;
  for (size_t v = 0; v < variables_.size(); ++v) {
    if (made_[v]) continue;
    torch::Tensor& gradient = variables_[v].mutable_grad();
    if (!gradient.defined()) {
      gradient = graph_.variables[v].sparse
                     ? torch::zeros(variables_[v].sizes(), variables_[v].options().layout(torch::kSparse))
                     : no_gradient(variables_[v]);
    }
    engine_.ready(v);
  }
}

// The variable has a gradient only meanwhile: the next backward hands over its own tensor (no copy, no
// zeroing), or the user has begun to accumulate one, which stays.
void Distributed::update(size_t v, torch::Tensor gradient) {
  if (is_no_gradient(gradient)) return;
  const Stopwatch stopwatch(times_.updated);
  torch::Tensor& current = variables_[v].mutable_grad();
  torch::Tensor accumulated = std::exchange(current, std::move(gradient));
  updater_.update(variables_[v]);
  current = std::move(accumulated);
}

// The next forward is about to read variable v.
void Distributed::use(size_t v) {
  profile_->reads(v, not_computing());
  bool taken = false;
  {
    const Stopwatch stopwatch(times_.waited);
    taken = engine_.take(v);
  }
  if (taken) update(v, engine_.gradient(v));
}

void Distributed::finish() {
  if (!under_way_) return;
  watch_.reset();
  std::vector<size_t> clipped;  // wait for the others
  while (true) {
    int taken = -1;
    {
      const Stopwatch stopwatch(times_.waited);
      taken = engine_.take_any();
    }
    if (taken < 0) break;
    const auto v = static_cast<size_t>(taken);
    if (options_.clip_norm == 0) {
      update(v, engine_.gradient(v));
    } else {  // still in step(): no gradient of the user's is there
      variables_[v].mutable_grad() = engine_.gradient(v);
      clipped.push_back(v);
    }
  }
  optim::clip_gradients(variables_, clipped.empty() ? 0 : options_.clip_norm);
  for (const size_t v : clipped) update(v, std::exchange(variables_[v].mutable_grad(), {}));
  under_way_ = false;
}

std::unique_ptr<Distributed> distribute(Context& context, torch::nn::Module& module,
                                        torch::optim::Optimizer& optimizer, Options options) {
  return std::make_unique<Distributed>(context, module, optimizer, std::move(options));
}

}  // namespace entrain
