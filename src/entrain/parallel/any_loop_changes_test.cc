// Any training loop, exact: what is trained changes, of whatever kind; parameters are read and written in
// every way.
#include <gtest/gtest.h>

#include <cstring>
#include <sstream>
#include <thread>

#include "support/any_loop.h"

namespace entrain::testing {
namespace {

// --- What is trained changes ---

Tensors freeze_and_unfreeze(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < 2 * kSteps; ++step) {
    const bool frozen = step / 3 % 2 == 1;
    for (auto& parameter : net.first->parameters()) parameter.requires_grad_(!frozen);
    handle->step(net.loss(loop.batch(step)));
  }
  return copies(net);
}

Tensors unfreeze_later(Loop& loop) {
  Net net;
  for (auto& parameter : net.first->parameters()) parameter.requires_grad_(false);
  torch::optim::Adam optimizer(net.parameters(), 0.01);
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    if (step == 3) net.first->weight.requires_grad_(true);
    handle->step(net.loss(loop.batch(step)));
  }
  return copies(net);
}

Tensors add_layer_and_group(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  torch::nn::Linear more{nullptr};
  for (int step = 0; step < kSteps; ++step) {
    if (step == 2) {
      more = net.register_module("more", torch::nn::Linear(kWide, 1));
      const torch::NoGradGuard no_grad;
      for (auto& parameter : more->parameters()) parameter.copy_(drawn(parameter.sizes().vec(), 77));
      optimizer.add_param_group(torch::optim::OptimizerParamGroup(more->parameters()));
    }
    const auto x = loop.batch(step);
    auto y = net.forward(x);
    if (step >= 2) y = y + more(x);
    handle->step((y - 1).square().mean());
  }
  return copies(net);
}

// A layer that the optimizer gets to know only later: until then its gradients are there and do nothing.
Tensors layer_whose_group_comes_later(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.first->parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    if (step == 3) optimizer.add_param_group(torch::optim::OptimizerParamGroup(net.last->parameters()));
    if (step <= 3) set_to_none(*net.last);
    handle->step(net.loss(loop.batch(step)));
  }
  return copies(net);
}

Tensors tensor_outside_the_module(Loop& loop) {
  Net net;
  auto scale = drawn({1}, 5).requires_grad_(), latent = drawn({1, kWide}, 6).requires_grad_();
  auto parameters = net.parameters();
  parameters.push_back(scale);
  auto optimizer = momentum(parameters);
  optimizer.add_param_group(torch::optim::OptimizerParamGroup({latent}));
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    handle->step((net.forward(loop.batch(step) + latent) * scale - 1).square().mean());
  }
  return copies(net) + Tensors{scale.detach(), latent.detach()};
}

Tensors tensor_listed_twice(Loop& loop) {
  Net net;
  auto parameters = net.parameters();
  parameters.push_back(net.first->weight);
  torch::optim::SGD optimizer(parameters, 0.05);
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) handle->step(net.loss(loop.batch(step)));
  return copies(net);
}

Tensors tied_weights(Loop& loop) {
  struct Tied : Net {
    Tied() : Net(1, kWide), copy(register_parameter("copy", first->weight)) {}
    torch::Tensor copy;
  } net;
  torch::optim::SGD optimizer({net.first->weight, net.first->bias, net.last->weight, net.last->bias}, 0.05);
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    const auto x = loop.batch(step);
    handle->step((torch::mm(torch::tanh(net.first(x)), net.copy) - x).square().mean());
  }
  return copies(net);
}

// A branch that some steps take on all ranks: with gradients kept and zeroed, as libtorch 1.13 does it, decay
// and momentum go on meanwhile; set to none, as libtorch 2 does it, they rest.
template <bool kZeroed>
Tensors layer_used_now_and_then(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    if (!kZeroed) set_to_none(net);
    for (auto& p : net.parameters()) {
      if (kZeroed && p.grad().defined()) p.mutable_grad().zero_();
    }
    const auto x = loop.batch(step);
    const auto y = step % 2 == 0 ? net.forward(x) : net.last(torch::cat({x, x}, 1));
    handle->backward((y - 1).square().mean());
    optimizer.step();
  }
  return copies(net);
}

Tensors layer_used_now_and_then_by_step(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    const auto x = loop.batch(step);
    const auto y = step % 2 == 0 ? net.forward(x) : net.last(torch::cat({x, x}, 1));
    handle->step((y - 1).square().mean());
  }
  return copies(net);
}

// The gradient is -0 everywhere, and still one: weight decay counts.
Tensors gradient_of_minus_zero(Loop& loop) {
  Net net;
  auto still = net.register_parameter("still", drawn({5}, 9));
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    handle->step(net.loss(loop.batch(step)) + (still * -0.0).sum());
  }
  return copies(net);
}

// --- Parameters, read and written in every way ---

Tensors moving_average(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  auto average = copies(net);
  for (int step = 0; step < kSteps; ++step) {
    handle->step(net.loss(loop.batch(step)));
    const torch::NoGradGuard no_grad;
    const auto now = net.parameters();
    for (size_t i = 0; i < now.size(); ++i) average[i].mul_(0.8).add_(now[i], 0.2);
  }
  return copies(net) + average;
}

// WGAN: through data(), past autograd and every hook.
Tensors clamp_weights(Loop& loop) {
  Net net;
  torch::optim::RMSprop optimizer(net.parameters(), torch::optim::RMSpropOptions(0.05));
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    handle->step(net.loss(loop.batch(step)));
    for (auto& parameter : net.parameters()) parameter.data().clamp_(-0.2, 0.2);
  }
  return copies(net);
}

Tensors read_memory(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  Tensors seen;
  for (int step = 0; step < kSteps; ++step) {
    handle->step(net.loss(loop.batch(step)));
    for (const auto& parameter : net.parameters()) {
      auto copy = torch::empty_like(parameter);
      std::memcpy(copy.data_ptr(), parameter.data_ptr(), parameter.nbytes());
      seen.push_back(copy.detach());
    }
  }
  return seen;
}

Tensors save_without_finish(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  Tensors seen;
  for (int step = 0; step < kSteps; ++step) {
    handle->step(net.loss(loop.batch(step)));
    std::stringstream file;
    torch::save(net.parameters(), file);
    Tensors read;
    torch::load(read, file);
    seen = seen + read;
  }
  for (auto& tensor : seen) tensor = tensor.detach();
  return seen;
}

Tensors test_in_another_thread(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  Tensors seen;
  for (int step = 0; step < kSteps; ++step) {
    handle->step(net.loss(loop.batch(step)));
    std::thread([&] {
      const torch::NoGradGuard no_grad;
      seen.push_back(net.forward(drawn({3, kWide}, 4)));
    }).join();
  }
  return seen;
}

Tensors write_between_steps(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    handle->step(net.loss(loop.batch(step)));
    const torch::NoGradGuard no_grad;
    net.first->weight.div_(net.first->weight.norm(2, 1, true).clamp_min(1));  // onto the unit sphere
  }
  return copies(net);
}

// --- Kinds of tensors ---

Tensors channels_last(Loop& loop) {
  torch::nn::Sequential net(torch::nn::Conv2d(2, 4, 3), torch::nn::Tanh(), torch::nn::Conv2d(4, 1, 2));
  {
    const torch::NoGradGuard no_grad;
    uint64_t seed = 1;
    for (auto& parameter : net->parameters()) {
      parameter.copy_(0.3 * drawn(parameter.sizes().vec(), seed++));
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(torch::MemoryFormat::ChannelsLast));
    }
  }
  auto optimizer = momentum(net->parameters());
  auto handle = loop.distribute(*net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    const auto x =
        torch::cat({loop.batch(step), loop.batch(step, 1), loop.batch(step, 2), loop.batch(step, 3)}, 1);
    const auto images = x.view({-1, 2, 4, 4}).contiguous(torch::MemoryFormat::ChannelsLast);
    handle->step((net->forward(images) - 1).square().mean());
  }
  return copies(*net);
}

Tensors mixed_types(Loop& loop) {
  Net net;
  net.last->to(torch::kFloat64);
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    const auto hidden = torch::tanh(net.first(loop.batch(step)));
    handle->step((net.last(hidden.to(torch::kFloat64)) - 1).square().mean());
  }
  return copies(net);
}

// A sparse gradient that no first batch makes: G takes it for dense.
Tensors sparse_later(Loop& loop) {
  struct Words : Net {
    Words()
        : table(register_module("table",
                                torch::nn::Embedding(torch::nn::EmbeddingOptions(12, kWide).sparse(true)))) {
      const torch::NoGradGuard no_grad;
      table->weight.copy_(drawn({12, kWide}, 20));
    }
    torch::nn::Embedding table;
  } net;
  torch::optim::SGD optimizer(net.parameters(), 0.05);
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    const auto x = loop.batch(step);
    const auto words = (x.select(1, 0) * 100).to(torch::kInt64).remainder(12);
    handle->step(net.loss(step > 0 ? x + net.table(words) : x));
  }
  return copies(net);
}

Tensors buffers_averaged(Loop& loop) {
  Net net;
  auto running = net.register_buffer("running", torch::zeros({kWide}));
  auto optimizer = momentum(net.parameters());
  parallel::Options options;
  options.buffers = parallel::Buffers::kAverage;
  auto handle = loop.distribute(net, &optimizer, options);
  for (int step = 0; step < kSteps; ++step) {
    const auto x = loop.batch(step);
    {
      const torch::NoGradGuard no_grad;
      running.mul_(0.9).add_(x.mean(0), 0.1);
    }
    handle->step(net.loss(x));
  }
  return copies(net) + Tensors{running};
}

// --- The user's own end ---

Tensors own_stop_rule(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  double last = 0;
  int step = 0;
  for (; step < 100; ++step) {
    const auto loss = net.loss(loop.batch(step));
    handle->step(loss);
    last = loop.mean(loss).item<double>();
    if (loop.any(loop.leads() && last < 3)) break;
  }
  return copies(net) + Tensors{torch::tensor(static_cast<double>(step)), torch::tensor(last)};
}

std::vector<Program> programs() {
  return {
      {"FreezeAndUnfreeze", freeze_and_unfreeze},
      {"UnfreezeLater", unfreeze_later},
      {"AddLayerAndGroup", add_layer_and_group},
      {"LayerWhoseGroupComesLater", layer_whose_group_comes_later},
      {"TensorOutsideTheModule", tensor_outside_the_module},
      {"TensorListedTwice", tensor_listed_twice},
      {"TiedWeights", tied_weights},
      {"LayerUsedNowAndThenZeroed", layer_used_now_and_then<true>},
      {"LayerUsedNowAndThenSetToNone", layer_used_now_and_then<false>},
      {"LayerUsedNowAndThenByStep", layer_used_now_and_then_by_step},
      {"GradientOfMinusZero", gradient_of_minus_zero},
      {"MovingAverage", moving_average},
      {"ClampWeights", clamp_weights},
      {"ReadMemory", read_memory},
      {"SaveWithoutFinish", save_without_finish},
      {"TestInAnotherThread", test_in_another_thread},
      {"WriteBetweenSteps", write_between_steps},
      {"ChannelsLast", channels_last},
      {"MixedTypes", mixed_types},
      {"SparseLater", sparse_later},
      {"BuffersAveraged", buffers_averaged},
      {"OwnStopRule", own_stop_rule},
  };
}

class AnyChange : public ::testing::TestWithParam<Program> {};

TEST_P(AnyChange, AreThoseOfOneProcess) { expect_that_of_one_process(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Programs, AnyChange, ::testing::ValuesIn(programs()),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace entrain::testing
