// A training loop written once, run by one process on the union of the batches and by ranks on their own.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "entrain/job/collectives.h"
#include "entrain/parallel/distributed.h"
#include "entrain/parallel/server.h"
#include "support/jobs.h"

namespace entrain::testing {

using Tensors = std::vector<torch::Tensor>;

// What a loop calls where plain libtorch has loss.backward() and optimizer.step().
class Handle {
 public:
  virtual ~Handle() = default;
  virtual void step(const torch::Tensor& loss) = 0;
  virtual void backward(const torch::Tensor& loss, bool retain_graph = false) = 0;
  virtual void average_gradients() = 0;
};

class Loop {
 public:
  virtual ~Loop() = default;

  virtual std::unique_ptr<Handle> distribute(torch::nn::Module& module, torch::optim::Optimizer* optimizer,
                                             parallel::Options options = {}) = 0;
  // A metric over all workers, and whether one of them says so.
  virtual torch::Tensor mean(const torch::Tensor& value) = 0;
  virtual bool any(bool value) = 0;

  // Examples of this process: kBatch by kWide, of each worker that it stands for.
  torch::Tensor batch(int step, int part = 0) const;
  bool leads() const { return workers_.front() == 0; }

 protected:
  explicit Loop(std::vector<int> workers) : workers_(std::move(workers)) {}
  std::vector<int> workers_;
};

inline constexpr int64_t kBatch = 4, kWide = 8;
inline constexpr int kSteps = 6;

// Ranks are threads, and the default generator is shared between them.
inline torch::Tensor drawn(const std::vector<int64_t>& shape, uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed));
}

inline torch::Tensor Loop::batch(int step, int part) const {
  Tensors all;
  for (const int worker : workers_) {
    all.push_back(drawn({kBatch, kWide}, static_cast<uint64_t>(10000 + 1000 * worker + 10 * step + part)));
  }
  return torch::cat(all);
}

// --- One process ---

class AloneHandle final : public Handle {
 public:
  explicit AloneHandle(torch::optim::Optimizer* optimizer) : optimizer_(optimizer) {}
  void step(const torch::Tensor& loss) override {
    loss.backward();
    optimizer_->step();
    for (auto& group : optimizer_->param_groups()) {
      for (auto& parameter : group.params()) parameter.mutable_grad().reset();
    }
  }
  void backward(const torch::Tensor& loss, bool retain_graph) override { loss.backward({}, retain_graph); }
  void average_gradients() override {}

 private:
  torch::optim::Optimizer* optimizer_;
};

class AloneLoop final : public Loop {
 public:
  explicit AloneLoop(std::vector<int> workers) : Loop(std::move(workers)) {}
  std::unique_ptr<Handle> distribute(torch::nn::Module&, torch::optim::Optimizer* optimizer,
                                     parallel::Options) override {
    return std::make_unique<AloneHandle>(optimizer);
  }
  torch::Tensor mean(const torch::Tensor& value) override { return value.detach(); }
  bool any(bool value) override { return value; }
};

// --- One rank of several ---

class RankHandle final : public Handle {
 public:
  explicit RankHandle(std::unique_ptr<parallel::Distributed> distributed)
      : distributed_(std::move(distributed)) {}
  void step(const torch::Tensor& loss) override { distributed_->step(loss); }
  void backward(const torch::Tensor& loss, bool retain_graph) override {
    distributed_->backward(loss, retain_graph);
  }
  void average_gradients() override { distributed_->average_gradients(); }

 private:
  std::unique_ptr<parallel::Distributed> distributed_;
};

class RankLoop final : public Loop {
 public:
  RankLoop(job::Context& context, std::string strategy)
      : Loop({context.rank()}), context_(context), strategy_(std::move(strategy)) {}
  std::unique_ptr<Handle> distribute(torch::nn::Module& module, torch::optim::Optimizer* optimizer,
                                     parallel::Options options) override {
    options.strategy = strategy_;
    return std::make_unique<RankHandle>(
        optimizer != nullptr ? entrain::parallel::distribute(context_, module, *optimizer, options)
                             : entrain::parallel::distribute(context_, module, options));
  }
  torch::Tensor mean(const torch::Tensor& value) override { return entrain::job::mean(context_, value); }
  bool any(bool value) override { return entrain::job::any(context_, value); }

 private:
  job::Context& context_;
  std::string strategy_;
};

// --- What the programs have in common ---

struct Net : torch::nn::Module {
  explicit Net(uint64_t seed = 1, int64_t out = 1)
      : first(register_module("first", torch::nn::Linear(kWide, 16))),
        last(register_module("last", torch::nn::Linear(16, out))) {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : parameters()) parameter.copy_(0.3 * drawn(parameter.sizes().vec(), seed++));
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(torch::tanh(first(x))); }
  torch::Tensor loss(const torch::Tensor& x) { return (forward(x) - x.sum(1, true)).square().mean(); }
  torch::nn::Linear first, last;
};

inline Tensors copies(const torch::nn::Module& module) {
  Tensors result;
  for (const auto& parameter : module.parameters()) result.push_back(parameter.detach().clone());
  return result;
}

inline Tensors operator+(Tensors a, const Tensors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline void set_rate(torch::optim::Optimizer& optimizer, double rate) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
}

inline void set_to_none(torch::nn::Module& module) {
  for (auto& parameter : module.parameters()) parameter.mutable_grad().reset();
}

inline torch::optim::SGD momentum(const Tensors& parameters, double rate = 0.05) {
  return torch::optim::SGD(parameters, torch::optim::SGDOptions(rate).momentum(0.9).weight_decay(0.01));
}

struct Program {
  std::string name;
  std::function<Tensors(Loop&)> run;
};

inline std::ostream& operator<<(std::ostream& out, const Program& program) { return out << program.name; }

// On 1, 2 and 4 ranks and with a host that only serves, under both kinds of synchronization: what one process
// gives on the union of the batches.
inline void expect_that_of_one_process(const Program& program) {
  for (const char* cluster : {"local:1", "local:2", "local:4", "lab:2x1gbit+1x1gbit/server"}) {
    const auto parsed = cluster::parse(cluster);
    std::vector<int> workers;
    for (int rank = 0; rank < parsed.workers(); ++rank) workers.push_back(rank);
    AloneLoop alone(workers);
    const Tensors expected = program.run(alone);
    ASSERT_FALSE(expected.empty());
    for (const char* strategy : {"allreduce", "ps"}) {
      run_job(cluster, [&](job::Context& context) {
        if (!context.trains()) return parallel::serve(context);
        RankLoop loop(context, strategy);
        const Tensors result = program.run(loop);
        ASSERT_EQ(result.size(), expected.size());
        for (size_t i = 0; i < result.size(); ++i) {
          EXPECT_LE((result[i] - expected[i]).norm().item<double>(), 1e-5 * expected[i].norm().item<double>())
              << cluster << ", " << strategy << ", rank " << context.rank() << ", tensor " << i;
        }
      });
    }
  }
}

}  // namespace entrain::testing
