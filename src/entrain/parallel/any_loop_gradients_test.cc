// Any training loop, exact: gradients in the user's hands, several modules and optimizers.
#include <gtest/gtest.h>

#include <gmock/gmock.h>

#include "entrain/base/error.h"
#include "support/any_loop.h"

namespace entrain::testing {
namespace {

// --- Gradients in the user's hands ---

Tensors clip_by_value(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    handle->backward(net.loss(loop.batch(step)));
    torch::nn::utils::clip_grad_value_(net.parameters(), 0.1);
    optimizer.step();
  }
  return copies(net);
}

Tensors clip_by_norm_and_log_it(Loop& loop) {
  Net net;
  torch::optim::Adam optimizer(net.parameters(), 0.01);
  auto handle = loop.distribute(net, &optimizer);
  Tensors norms;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    handle->backward(net.loss(loop.batch(step)));
    norms.push_back(torch::tensor(torch::nn::utils::clip_grad_norm_(net.parameters(), 0.5)));
    optimizer.step();
  }
  return copies(net) + norms;
}

Tensors clip_norm_option(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  parallel::Options options;
  options.clip_norm = 0.5;
  auto handle = loop.distribute(net, &optimizer, options);
  for (int step = 0; step < kSteps; ++step) {
    if (dynamic_cast<testing::AloneLoop*>(&loop) == nullptr) {
      handle->step(net.loss(loop.batch(step)));
      continue;
    }
    handle->backward(net.loss(loop.batch(step)));
    torch::nn::utils::clip_grad_norm_(net.parameters(), 0.5);
    optimizer.step();
    set_to_none(net);
  }
  return copies(net);
}

Tensors accumulate_by_own_backward(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    (net.loss(loop.batch(step, 0)) / 2).backward();
    handle->step(net.loss(loop.batch(step, 1)) / 2);
  }
  return copies(net);
}

Tensors accumulate_by_two_backwards(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    handle->backward(net.loss(loop.batch(step, 0)) / 2);
    handle->backward(net.loss(loop.batch(step, 1)) / 2);
    optimizer.step();
  }
  return copies(net);
}

Tensors average_after_own_backward(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, nullptr);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    net.loss(loop.batch(step)).backward();
    handle->average_gradients();
    optimizer.step();
  }
  return copies(net);
}

Tensors two_losses_of_one_graph(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, nullptr);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const auto y = net.forward(loop.batch(step));
    handle->backward((y - 1).square().mean(), true);
    handle->backward(y.abs().mean());
    optimizer.step();
  }
  return copies(net);
}

Tensors gradient_penalty(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    const auto x = loop.batch(step).requires_grad_();
    const auto y = net.forward(x);
    const auto slope = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
    handle->step((y - 1).square().mean() + (slope.norm(2, 1) - 1).square().mean());
  }
  return copies(net);
}

// A backward that runs another one inside, as checkpointing does: gradients are made in several parts.
struct Inner : torch::autograd::Function<Inner> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x, Net* net) {
    context->save_for_backward({x});
    context->saved_data["net"] = reinterpret_cast<int64_t>(net);
    const torch::NoGradGuard no_grad;
    return net->forward(x);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    auto* net = reinterpret_cast<Net*>(context->saved_data["net"].toInt());
    const auto x = context->get_saved_variables()[0].detach().requires_grad_();
    const torch::AutoGradMode with_gradients(true);
    net->forward(x).backward(gradients[0]);
    return {x.grad(), torch::Tensor()};
  }
};

Tensors backward_inside_backward(Loop& loop) {
  Net net;
  auto optimizer = momentum(net.parameters());
  auto handle = loop.distribute(net, &optimizer);
  for (int step = 0; step < kSteps; ++step) {
    const auto x = loop.batch(step).requires_grad_();
    handle->step((Inner::apply(x, &net) - 1).square().mean() + net.loss(x));
  }
  return copies(net);
}

// --- Several modules, several optimizers ---

Tensors gan(Loop& loop) {
  Net generator(1, kWide), critic(5);
  torch::optim::Adam of_generator(generator.parameters(), 0.01), of_critic(critic.parameters(), 0.01);
  auto g = loop.distribute(generator, &of_generator);
  auto c = loop.distribute(critic, &of_critic);
  for (int step = 0; step < kSteps; ++step) {
    of_critic.zero_grad();
    const auto fake = generator.forward(loop.batch(step, 1));
    c->step(critic.forward(fake.detach()).mean() - critic.forward(loop.batch(step, 0)).mean() +
            critic.forward(fake.detach()).square().mean());
    of_generator.zero_grad();
    g->step(-critic.forward(fake).mean() + fake.square().mean());  // leaves gradients in the critic
  }
  return copies(generator) + copies(critic);
}

Tensors one_backward_two_optimizers(Loop& loop) {
  struct Pair : torch::nn::Module {
    Pair()
        : a(register_module("a", std::make_shared<Net>(1, kWide))),
          b(register_module("b", std::make_shared<Net>(7, kWide))) {}
    std::shared_ptr<Net> a, b;
  } pair;
  torch::optim::Adam of_a(pair.a->parameters(), 0.01);
  auto of_b = momentum(pair.b->parameters());
  auto handle = loop.distribute(pair, nullptr);
  for (int step = 0; step < kSteps; ++step) {
    of_a.zero_grad();
    of_b.zero_grad();
    const auto x = loop.batch(step);
    handle->backward((pair.b->forward(pair.a->forward(x)) - x).square().mean());  // there and back
    of_a.step();
    of_b.step();
  }
  return copies(pair);
}

// DDPG: the actor's loss goes through the critic, whose gradients the critic's own zero_grad() removes.
Tensors actor_and_critic(Loop& loop) {
  Net actor(1, kWide), critic(3), target(3);
  auto of_actor = momentum(actor.parameters(), 0.01), of_critic = momentum(critic.parameters(), 0.01);
  auto a = loop.distribute(actor, &of_actor);
  auto c = loop.distribute(critic, &of_critic);
  for (int step = 0; step < kSteps; ++step) {
    const auto x = loop.batch(step);
    of_critic.zero_grad();
    c->step((critic.forward(x) - target.forward(actor.forward(x)).detach()).square().mean());
    of_actor.zero_grad();
    a->step(-critic.forward(actor.forward(x)).mean() + actor.forward(x).square().mean());
    const torch::NoGradGuard no_grad;
    const auto from = critic.parameters(), to = target.parameters();
    for (size_t i = 0; i < to.size(); ++i) torch::Tensor(to[i]).mul_(0.9).add_(from[i], 0.1);
  }
  return copies(actor) + copies(critic) + copies(target);
}

// Two handles of one module: each updates its own half, and leaves the other half's gradients as libtorch
// does.
Tensors two_handles_of_one_module(Loop& loop) {
  Net net;
  auto of_first = momentum(net.first->parameters()), of_last = momentum(net.last->parameters());
  auto first = loop.distribute(net, &of_first);
  auto last = loop.distribute(net, &of_last);
  for (int step = 0; step < kSteps; ++step) {
    first->step(net.loss(loop.batch(step, 0)));
    if (step % 2 == 0) of_last.zero_grad();  // else they are accumulated
    last->step(net.loss(loop.batch(step, 1)));
    of_first.zero_grad();
  }
  return copies(net);
}

Tensors one_handle_after_the_other(Loop& loop) {
  Net net;
  for (int round = 0; round < 3; ++round) {
    auto optimizer = momentum(net.parameters(), 0.05 / (round + 1));
    auto handle = loop.distribute(net, &optimizer);
    for (int step = 0; step < 3; ++step) handle->step(net.loss(loop.batch(step)));
  }
  return copies(net);
}

std::vector<Program> programs() {
  return {
      {"ClipByValue", clip_by_value},
      {"ClipByNormAndLogIt", clip_by_norm_and_log_it},
      {"ClipNormOption", clip_norm_option},
      {"AccumulateByOwnBackward", accumulate_by_own_backward},
      {"AccumulateByTwoBackwards", accumulate_by_two_backwards},
      {"AverageAfterOwnBackward", average_after_own_backward},
      {"TwoLossesOfOneGraph", two_losses_of_one_graph},
      {"GradientPenalty", gradient_penalty},
      {"BackwardInsideBackward", backward_inside_backward},
      {"Gan", gan},
      {"OneBackwardTwoOptimizers", one_backward_two_optimizers},
      {"ActorAndCritic", actor_and_critic},
      {"TwoHandlesOfOneModule", two_handles_of_one_module},
      {"OneHandleAfterTheOther", one_handle_after_the_other},
  };
}

class AnyGradient : public ::testing::TestWithParam<Program> {};

TEST_P(AnyGradient, AreThoseOfOneProcess) { expect_that_of_one_process(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Programs, AnyGradient, ::testing::ValuesIn(programs()),
                         [](const auto& p) { return p.param.name; });

// --- Refused, saying what to do ---

void expect_refused(const std::string& cluster, const std::function<void(job::Context&)>& body,
                    const std::string& advice) {
  try {
    run_job(cluster, body);
    ADD_FAILURE() << "not refused";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr(advice));
  }
}

TEST(AnyLoopRefuses, LbfgsInStep) {
  expect_refused(
      "local:1",
      [](job::Context& context) {
        Net net;
        torch::optim::LBFGS optimizer(net.parameters());
        auto handle = parallel::distribute(context, net, optimizer);
        handle->step(net.loss(drawn({2, kWide}, 1)));
      },
      "optimizer.step(closure)");
}

TEST(AnyLoopRefuses, StepWithoutAnOptimizer) {
  expect_refused(
      "local:1",
      [](job::Context& context) {
        Net net;
        parallel::distribute(context, net)->step(net.loss(drawn({2, kWide}, 1)));
      },
      "backward(loss)");
}

TEST(AnyLoopRefuses, ALayerAddedWithOtherValuesOnEachRank) {
  expect_refused(
      "local:2",
      [](job::Context& context) {
        Net net;
        torch::optim::SGD optimizer(net.parameters(), 0.1);
        auto handle = parallel::distribute(context, net, optimizer);
        const auto x = drawn({2, kWide}, 1);
        handle->step(net.loss(x));
        const auto more = net.register_parameter("more", drawn({kWide}, 10 + context.rank()));
        handle->step(net.loss(x * more));
      },
      "entrain::broadcast(context, tensor)");
}

TEST(AnyLoopRefuses, RanksThatStopApart) {
  expect_refused(
      "local:2",
      [](job::Context& context) {
        Net net;
        torch::optim::SGD optimizer(net.parameters(), 0.1);
        auto handle = parallel::distribute(context, net, optimizer);
        for (int step = 0; step < 3 + context.rank(); ++step) handle->step(net.loss(drawn({2, kWide}, 1)));
      },
      "entrain::any()");
}

TEST(AnyLoopRefuses, ABackwardThatBeginsToMakeGradientsInSeveralParts) {
  expect_refused(
      "local:2",
      [](job::Context& context) {
        Net net;
        torch::optim::SGD optimizer(net.parameters(), 0.1);
        auto handle = parallel::distribute(context, net, optimizer);
        for (int step = 0; step < 3; ++step) {
          const auto x = drawn({2, kWide}, 1).requires_grad_();
          handle->step(step == 2 ? Inner::apply(x, &net).mean() + net.loss(x) : net.loss(x));
        }
      },
      "average_gradients()");
}
}  // namespace
}  // namespace entrain::testing
