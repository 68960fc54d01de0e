#include "entrain/graph/profile.h"

#include <torch/torch.h>

#include "entrain/base/clock.h"
#include "entrain/base/error.h"
#include "entrain/base/quantile.h"
#include "entrain/graph/capture.h"
#include "entrain/graph/flops.h"
#include "entrain/graph/forward_watch.h"
#include "entrain/graph/gradient_hooks.h"

namespace entrain::graph {
namespace {

// What one run showed, per variable.
struct Run {
  std::vector<double> forward_s, backward_s, flops;
  std::vector<size_t> ready;  // variables in the order of their gradients
};

// Gradients and buffers as they were, whatever happens.
class Restore {
 public:
  explicit Restore(const torch::nn::Module& module)
      : parameters_(module.parameters()), buffers_(module.buffers()) {
    for (const auto& parameter : parameters_) gradients_.push_back(parameter.grad());
    for (const auto& buffer : buffers_) saved_.push_back(buffer.detach().clone());
  }
  ~Restore() {
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients_[i];
    for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(saved_[i]);
  }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

  void clear_gradients() {
    for (auto& parameter : parameters_) parameter.mutable_grad().reset();
  }

 private:
  std::vector<torch::Tensor> parameters_, buffers_, gradients_, saved_;
};

class Stopwatch {
 public:
  explicit Stopwatch(bool device) : device_(device) { lap(); }

  // Seconds since the last lap, with the work of a GPU done.
  double lap() {
    if (device_) torch::cuda::synchronize();
    const double seconds = seconds_since(start_);
    start_ = Clock::now();
    return seconds;
  }

 private:
  bool device_;
  Clock::time_point start_ = Clock::now();
};

Run run_once(const std::vector<torch::Tensor>& variables,
             const std::function<torch::Tensor()>& loss_function) {
  const size_t count = variables.size();
  Run run{std::vector<double>(count), std::vector<double>(count), std::vector<double>(count), {}};
  Stopwatch watch(variables.front().is_cuda());

  // Before the first variable's operation only the batch is prepared: that counts to it.
  size_t current = 0;
  bool started = false;
  torch::Tensor loss;
  {
    ForwardWatch uses(variables, [&](size_t i) {
      if (started && i == current) return;
      run.forward_s[started ? current : i] += watch.lap();
      started = true;
      current = i;
    });
    FlopWatch flops([&](double value) { run.flops[current] += 3 * value; });
    loss = loss_function();
    run.forward_s[current] += watch.lap();
    uses.check();
    flops.check();
  }

  GradientHooks hooks(variables, [&](size_t i) {
    run.backward_s[i] += watch.lap();
    run.ready.push_back(i);
  });
  loss.backward();
  if (run.ready.empty()) fail("profile: backward made no gradient");
  run.backward_s[run.ready.back()] += watch.lap();
  return run;
}

// Gives each variable of a layer its share of the layer's sum.
void share(const Capture& captured, std::vector<double>& values) {
  for (size_t begin = 0, end = 0; begin < values.size(); begin = end) {
    double sum = 0, elements = 0;
    for (end = begin; end < values.size() && captured.layers[end] == captured.layers[begin]; ++end) {
      sum += values[end];
      elements += static_cast<double>(captured.variables[end].numel());
    }
    for (size_t i = begin; i < end; ++i) {
      values[i] = elements > 0 ? sum * static_cast<double>(captured.variables[i].numel()) / elements : 0;
    }
  }
}

std::vector<double> medians(const std::vector<Run>& runs, std::vector<double> Run::*field) {
  std::vector<double> result((runs.front().*field).size());
  for (size_t i = 0; i < result.size(); ++i) {
    std::vector<double> values;
    for (const Run& run : runs) values.push_back((run.*field)[i]);
    result[i] = median(std::move(values));
  }
  return result;
}

}  // namespace

Graph profile(const torch::nn::Module& module, const std::function<torch::Tensor()>& loss,
              const ProfileOptions& options) {
  if (options.repeats < 1) fail("profile: repeats is {}; at least 1 is needed", options.repeats);
  Restore restore(module);
  Capture captured = capture_variables(module, loss());
  std::vector<Run> runs;
  for (int i = 0; i < options.warmup + options.repeats; ++i) {
    restore.clear_gradients();
    Run run = run_once(captured.variables, loss);
    share(captured, run.forward_s);
    share(captured, run.backward_s);
    share(captured, run.flops);
    if (i >= options.warmup) runs.push_back(std::move(run));
  }

  describe_gradients(captured, runs.back().ready);
  Graph graph = captured.graph;
  const auto forward = medians(runs, &Run::forward_s);
  const auto backward = medians(runs, &Run::backward_s);
  for (size_t i = 0; i < graph.variables.size(); ++i) {
    graph.variables[i].forward_s = forward[i];
    graph.variables[i].backward_s = backward[i];
    graph.variables[i].flops = runs.back().flops[i];
  }
  return graph;
}

}  // namespace entrain::graph
