// The public API as a program uses it: only entrain.h, and ranks that are threads.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <mutex>
#include <numeric>
#include <set>

#include "entrain/entrain.h"
#include "entrain/job/context.h"
#include "entrain/pipeline/plan/pipeline.h"
#include "support/jobs.h"
#include "support/temp_dir.h"

namespace entrain {
namespace {

using ::testing::HasSubstr;

void on_ranks(const std::string& cluster, const std::function<void(Context&)>& body) {
  testing::run_job(cluster, [&](job::Context& inner) {
    Context context(std::make_unique<job::Context>(std::move(inner)));
    if (!context.trains()) return serve(context);
    body(context);
  });
}

// The default generator is shared between ranks that are threads.
torch::Tensor drawn(std::vector<int64_t> shape, uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed));
}

torch::nn::Sequential make_model() {
  torch::nn::Sequential model(torch::nn::Linear(8, 16), torch::nn::Tanh(), torch::nn::Linear(16, 16),
                              torch::nn::Tanh(), torch::nn::Linear(16, 4));
  const torch::NoGradGuard no_grad;
  uint64_t seed = 1;
  for (auto& parameter : model->parameters()) parameter.copy_(0.3 * drawn(parameter.sizes().vec(), seed++));
  return model;
}

torch::Tensor input(int worker, int64_t step) { return drawn({4, 8}, 1000 + 100 * worker + step); }
torch::Tensor target(int worker, int64_t step) { return drawn({4, 4}, 9000 + 100 * worker + step); }
torch::Tensor loss_of(torch::nn::Sequential& model, int worker, int64_t step) {
  return torch::mse_loss(model->forward(input(worker, step)), target(worker, step));
}

torch::Tensor flat(torch::nn::Sequential& model) {
  std::vector<torch::Tensor> all;
  for (const auto& parameter : model->parameters()) all.push_back(parameter.detach().flatten());
  return torch::cat(all);
}

// One process on the union of the workers' batches.
torch::Tensor alone(int workers, int64_t steps) {
  auto model = make_model();
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  for (int64_t step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    torch::Tensor loss = torch::zeros({});
    for (int worker = 0; worker < workers; ++worker) loss = loss + loss_of(model, worker, step) / workers;
    loss.backward();
    optimizer.step();
  }
  return flat(model);
}

void expect_near(const torch::Tensor& got, const torch::Tensor& expected) {
  EXPECT_LT((got - expected).norm().item<double>(), 1e-5 * expected.norm().item<double>());
}

TEST(Distribute, AutoTriesStrategiesAndTheUpdateIsThatOfOneProcess) {
  for (const bool quick : {true, false}) {  // step(), or backward() and the program's own update
    std::mutex mutex;
    std::set<std::string> used;
    int64_t steps = 0;
    torch::Tensor result;
    on_ranks("local:2", [&](Context& context) {
      auto model = make_model();
      torch::optim::Adam optimizer(model->parameters(), 1e-2);
      auto trainer = distribute(context, *model, optimizer, {.strategy = "auto", .steps = 2000});
      for (int64_t step = 0; step < 2000; ++step) {
        const auto loss = loss_of(model, context.worker(), step % 50);
        if (quick) {
          trainer->step(loss);
        } else {
          trainer->backward(loss);
          optimizer.step();
          optimizer.zero_grad();
        }
        bool enough = false;
        {
          const std::lock_guard lock(mutex);
          used.insert(trainer->strategy().name());
          enough = used.size() > 3;
          steps = trainer->steps();
        }
        if (any(context, enough)) break;
      }
      if (context.rank() == 0) result = flat(model);
    });
    EXPECT_GT(used.size(), 3u);
    auto model = make_model();
    torch::optim::Adam optimizer(model->parameters(), 1e-2);
    for (int64_t step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      ((loss_of(model, 0, step % 50) + loss_of(model, 1, step % 50)) / 2).backward();
      optimizer.step();
    }
    EXPECT_LT((result - flat(model)).norm().item<double>(), 1e-3 * flat(model).norm().item<double>());
  }
}

TEST(Distribute, HandlesWithAutoAndATuneBesideThemKeepTheirOrdersApart) {
  on_ranks("local:2", [](Context& context) {
    auto critic = make_model(), generator = make_model();
    torch::optim::Adam of_critic(critic->parameters(), 1e-3), of_generator(generator->parameters(), 1e-3);
    auto criticizes = distribute(context, *critic, of_critic, {.strategy = "auto", .steps = 600});
    auto generates = distribute(context, *generator, of_generator, {.strategy = "auto", .steps = 200});
    for (int64_t step = 0; step < 200; ++step) {
      for (int i = 0; i < 3; ++i) criticizes->step(loss_of(critic, context.worker(), (step + i) % 50));
      generates->step(loss_of(generator, context.worker(), step % 50));
    }
    const auto tuned = tune(context, *generator, [&] { return loss_of(generator, context.worker(), 0); },
                            {.trials = 1, .progress = false});
    EXPECT_GT(tuned.step_s, 0);
    criticizes->step(loss_of(critic, context.worker(), 0));
    EXPECT_THROW(generates->switch_strategy(tuned.best), InputError);
  });
}

TEST(Distribute, WorkersTakeTheirSharesOfTheExamples) {
  constexpr int64_t kExamples = 10;
  std::mutex mutex;
  std::vector<int64_t> counts(2);
  torch::Tensor result;
  const auto train = [&](Context& context, Options options, bool ranged) {
    auto model = make_model();
    torch::optim::Adam optimizer(model->parameters(), 1e-2);
    options.examples = kExamples;
    auto trainer = distribute(context, *model, optimizer, options);
    const ExampleRange own = trainer->range();
    if (ranged) counts[static_cast<size_t>(context.rank())] = own.count;
    for (int64_t step = 0; step < 4; ++step) {
      const auto x = drawn({kExamples, 8}, 100 + step).narrow(0, own.begin, own.count);
      const auto y = drawn({kExamples, 4}, 200 + step).narrow(0, own.begin, own.count);
      trainer->step(torch::mse_loss(model->forward(x), y));
    }
    const std::lock_guard lock(mutex);
    if (context.rank() == 0) result = flat(model).clone();
  };
  on_ranks("local:1", [&](Context& context) { train(context, {}, false); });
  const torch::Tensor expected = result;
  on_ranks("local:2", [&](Context& context) { train(context, {.shares = {0.3, 0.7}}, true); });
  EXPECT_EQ(counts, (std::vector<int64_t>{3, 7}));
  expect_near(result, expected);
  on_ranks("local:1", [](Context& context) {
    auto model = make_model();
    EXPECT_THAT([&] { distribute(context, *model)->range(); },
                ::testing::ThrowsMessage<std::exception>(HasSubstr("examples")));
  });
}

TEST(Distribute, AStrategyCanBeSwitchedToAnotherValue) {
  on_ranks("lab:2x1gbit+1x1gbit/server", [](Context& context) {
    auto model = make_model();
    torch::optim::Adam optimizer(model->parameters(), 1e-2);
    auto trainer = distribute(context, *model, optimizer);
    for (int64_t step = 0; step < 3; ++step) trainer->step(loss_of(model, context.worker(), step));
    EXPECT_EQ(trainer->strategy().name(), "allreduce");
    trainer->switch_strategy(Strategy::build("ps", trainer->graph(), Cluster::of(context)));
    for (int64_t step = 3; step < 6; ++step) trainer->step(loss_of(model, context.worker(), step));
    EXPECT_EQ(trainer->strategy().name(), "ps");
    EXPECT_EQ(trainer->steps(), 6);
    expect_near(flat(model), alone(2, 6));
  });
}

TEST(Strategy, PartsThatNobodyWouldRunAreRefused) {
  test::TempDir dir;
  const std::string pipeline = dir.path() / "pipeline.json", apart = dir.path() / "apart.json";
  Strategy::from_json(R"({"id": "p", "pipeline": {"devices": 2}})").save(pipeline);
  Strategy::from_json(R"({"id": "a", "optimizer": {"rule": "easgd"}})").save(apart);
  on_ranks("local:1", [&](Context& context) {
    auto model = make_model();
    torch::optim::Adam optimizer(model->parameters(), 1e-2);
    const auto loss = [](const torch::Tensor& a, const torch::Tensor& b) { return torch::mse_loss(a, b); };
    for (const std::string& file : {pipeline, apart}) {
      EXPECT_THROW(distribute(context, *model, optimizer, {.strategy = file}), InputError);
      EXPECT_THROW(pipelined(context, model, loss, optimizer, {.strategy = file}), InputError);
    }
    auto trainer = distribute(context, *model, optimizer);
    trainer->step(loss_of(model, 0, 0));
    EXPECT_THROW(trainer->switch_strategy(Strategy::load(apart)), InputError);
  });
}

TEST(Checkpoints, AJobThatIsStartedAgainEndsWhereOneThatNeverStoppedDoes) {
  test::TempDir dir;
  const auto run = [&](int64_t to, int64_t expected_start) {
    on_ranks("local:2", [&](Context& context) {
      auto model = make_model();
      torch::optim::Adam optimizer(model->parameters(), 1e-2);
      auto trainer = distribute(context, *model, optimizer);
      const Checkpoints checkpoints(dir.path() / "run");
      int64_t step = checkpoints.resume(*trainer);
      EXPECT_EQ(step, expected_start);
      for (; step < to; ++step) trainer->step(loss_of(model, context.worker(), step));
      checkpoints.save(step, *trainer);
      expect_near(flat(model), alone(2, to));
    });
  };
  run(4, 0);
  run(7, 4);
}

TEST(TrainApart, AResumedWorkerGoesOnBitForBit) {
  for (const Rule& rule : {Rule(Lsgd{.period = 3}), Rule(LocalSgd{.period = 3}), Rule(Easgd{.period = 3}),
                           Rule(Bmuf{.period = 3}), Rule(Parle{.period = 3})}) {
    test::TempDir dir;
    std::vector<torch::Tensor> whole(2), halves(2);
    const auto run = [&](int64_t from, int64_t to, bool save, std::vector<torch::Tensor>& ends) {
      on_ranks("local:2", [&](Context& context) {
        auto model = make_model();
        torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
        auto worker = train_apart(context, *model, optimizer, {.rule = rule});
        const Checkpoints checkpoints(dir.path());
        int64_t step = save || from > 0 ? checkpoints.resume(*worker) : 0;
        EXPECT_EQ(step, from);
        for (; step < to; ++step) {
          worker->step(loss_of(model, context.worker(), step));
          // The job that never stops completes its exchanges at the same moment.
          if (step + 1 == 5 && !save) worker->finish();
        }
        if (save) checkpoints.save(step, *worker);
        worker->finish();
        worker->take_result();
        ends[static_cast<size_t>(context.rank())] = flat(model).clone();
      });
    };
    run(0, 11, false, whole);
    EXPECT_TRUE(whole[0].equal(whole[1])) << "the result is the same everywhere";
    run(0, 5, true, halves);
    run(5, 11, false, halves);
    EXPECT_TRUE(halves[0].equal(whole[0])) << "rule " << rule.index();
  }
}

TEST(TrainApart, WorkersStartAlikeAndMeetOnlyOnceAPeriod) {
  on_ranks("local:2", [](Context& context) {
    auto model = make_model();
    const torch::NoGradGuard no_grad;
    if (context.rank() == 1) model->parameters()[0].fill_(7);  // rank 0's counts
    const torch::AutoGradMode grad(true);
    torch::optim::SGD optimizer(model->parameters(), 0.05);
    auto worker = train_apart(context, *model, optimizer, {.rule = LocalSgd{.period = 4, .overlap = false}});
    for (int64_t step = 0; step < 8; ++step) {
      worker->step(loss_of(model, context.worker(), step));
      const auto all = all_gather(context, flat(model));
      EXPECT_EQ(all[0].equal(all[1]), step % 4 == 3) << step;
    }
    EXPECT_EQ(worker->exchanges(), 2);
    EXPECT_EQ(worker->steps(), 8);
  });
}

TEST(TrainApart, AWorkerThatIsDestroyedCompletesItsExchange) {
  on_ranks("local:2", [](Context& context) {
    for (int job = 0; job < 2; ++job) {  // one after the other
      auto model = make_model();
      torch::optim::SGD optimizer(model->parameters(), 0.05);
      auto worker = train_apart(context, *model, optimizer, {.rule = Lsgd{.period = 4}});
      EXPECT_THROW(train_apart(context, *model, optimizer), InputError);
      for (int64_t step = 0; step < 8; ++step) worker->step(loss_of(model, context.worker(), step));
    }
  });
}

TEST(TrainApart, NobodyLooksAtValuesThatAreAllowed) {
  on_ranks("local:2", [](Context& context) {
    torch::nn::Sequential model(torch::nn::Linear(8, 4), torch::nn::BatchNorm1d(4));
    torch::optim::SGD optimizer(model->parameters(), 0.05);
    auto worker = train_apart(context, *model, optimizer,
                              {.rule = LocalSgd{.period = 2}, .on_nonfinite = NonFinite::kAllow});
    for (int64_t step = 0; step < 4; ++step) worker->step(NAN * loss_of(model, context.worker(), step));
    worker->finish();
    EXPECT_EQ(worker->exchanges(), 2);
  });
}

TEST(TrainApart, TheResultIsTheSameEverywhere) {
  on_ranks("lab:2x1gbit/ranks=2", [](Context& context) {  // two groups
    torch::nn::Sequential model(torch::nn::Linear(8, 16), torch::nn::BatchNorm1d(16),
                                torch::nn::Linear(16, 4));
    torch::optim::SGD optimizer(model->parameters(), 0.05);
    auto worker = train_apart(context, *model, optimizer, {.rule = Lsgd{.period = 4}});
    for (int64_t step = 0; step < 6; ++step) worker->step(loss_of(model, context.worker(), step));
    worker->finish();
    worker->take_result();
    for (const auto& all : {all_gather(context, flat(model)), all_gather(context, model->buffers()[0])}) {
      for (const auto& other : all) EXPECT_TRUE(other.equal(all[0]));
    }
  });
}

TEST(TrainApart, AsynchronousWorkersEndInOrder) {
  on_ranks("local:3", [](Context& context) {
    auto model = make_model();
    torch::optim::SGD optimizer(model->parameters(), 0.05);
    auto worker = train_apart(context, *model, optimizer, {.rule = Downpour{.period = 2}});
    const int64_t steps = 10 + 5 * context.worker();
    for (int64_t step = 0; step < steps; ++step) worker->step(loss_of(model, context.worker(), step % 50));
    worker->finish();
    if (context.rank() == 0) {
      worker->take_result();
      EXPECT_TRUE(flat(model).isfinite().all().item<bool>());
    }
    EXPECT_EQ(worker->steps(), steps);
    EXPECT_THROW(Checkpoints("nowhere").save(1, *worker), InputError);
  });
}

TEST(TrainApart, ALossThatIsNotFiniteEndsTheJobAndIsNamed) {
  try {
    on_ranks("local:2", [](Context& context) {
      auto model = make_model();
      torch::optim::SGD optimizer(model->parameters(), 0.05);
      auto worker = train_apart(context, *model, optimizer, {.rule = LocalSgd{.period = 2}});
      for (int64_t step = 0; step < 4; ++step) {
        const double spoilt = step == 2 && context.rank() == 1 ? NAN : 1.0;
        worker->step(spoilt * loss_of(model, context.worker(), step));
      }
    });
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 1, step 2"));
  }
}

TEST(Pipelined, TheUpdateIsThatOfOneProcessOnTheReplicasBatches) {
  const auto loss = [](const torch::Tensor& output, const torch::Tensor& wanted) {
    return torch::mse_loss(output, wanted);
  };
  for (const auto& [cluster, replicas] :
       {std::pair("local:1", 1), std::pair("local:2", 1), std::pair("local:4", 2)}) {
    test::TempDir dir;
    const auto run = [&, replicas = replicas](int64_t to, int64_t expected_start) {
      on_ranks(cluster, [&](Context& context) {
        auto model = make_model();
        torch::optim::Adam optimizer(model->parameters(), 1e-2);
        auto pipe = pipelined(context, model, loss, optimizer, {.cells = 2, .micro_batches = 2});
        EXPECT_EQ(pipe->replicas(), replicas);
        const Checkpoints checkpoints(dir.path());
        int64_t step = checkpoints.resume(*pipe);
        EXPECT_EQ(step, expected_start);
        for (; step < to; ++step) pipe->step(input(pipe->replica(), step), target(pipe->replica(), step));
        checkpoints.save(step, *pipe);
        EXPECT_EQ(pipe->steps(), to);
        const auto balance = pipe->balance();
        EXPECT_EQ(std::accumulate(balance.begin(), balance.end(), 0), 5);
        if (context.rank() == 0) expect_near(flat(model), alone(replicas, to));
      });
    };
    run(3, 0);
    run(5, 3);
  }
}

TEST(Pipelined, UnderAShapeThatChangesItIsThatOfOneProcess) {
  constexpr int kParts = 3;  // of an update's 12 examples, as alone() makes them
  const auto loss = [](const torch::Tensor& output, const torch::Tensor& wanted) {
    return torch::mse_loss(output, wanted);
  };
  const auto all = [](const auto& make, int64_t step) {
    std::vector<torch::Tensor> parts;
    for (int part = 0; part < kParts; ++part) parts.push_back(make(part, step));
    return torch::cat(parts);
  };
  on_ranks("local:3", [&](Context& context) {
    auto model = make_model();
    torch::optim::Adam optimizer(model->parameters(), 1e-2);
    auto pipe =
        pipelined(context, model, loss, optimizer, {.shape = "0-2@0*.25,1*.75 3-4@2 m=4", .examples = 12});
    EXPECT_EQ(pipe->replicas(), 1);
    EXPECT_THROW(pipe->reshape("@0"), InputError);  // before a first step
    for (int64_t step = 0; step < 6; ++step) {
      if (step == 2) {
        const int64_t bytes = pipe->reshape("@1 m=2");
        EXPECT_EQ(bytes > 0, context.rank() == 1);
      }
      if (step == 4) pipe->reshape("0@2 1-4@0,1");
      const auto x = all(input, step), y = all(target, step);
      const double now = step % 2 == 0 ? pipe->step(x, y) : pipe->step([&](int64_t begin, int64_t count) {
        return std::pair(x.narrow(0, begin, count), y.narrow(0, begin, count));
      });
      EXPECT_GT(now, 0);
    }
    EXPECT_EQ(pipe->balance(), (std::vector<int>{1, 4}));
    EXPECT_THROW(pipe->reshape("0-1@0"), InputError);
    pipe->gather();
    if (context.rank() == 0) expect_near(flat(model), alone(kParts, 6));
  });
}

TEST(Pipelined, UnderAutoItIsThatOfOneProcessWhateverShapesAreTried) {
  constexpr int kParts = 2, kSteps = 60;
  const auto loss = [](const torch::Tensor& output, const torch::Tensor& wanted) {
    return torch::mse_loss(output, wanted);
  };
  on_ranks("local:2", [&](Context& context) {
    auto model = make_model();
    torch::optim::Adam optimizer(model->parameters(), 1e-2);
    auto pipe =
        pipelined(context, model, loss, optimizer, {.examples = 8, .strategy = "auto", .steps = kSteps});
    EXPECT_EQ(pipe->shape(), "");
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto x = torch::cat({input(0, step), input(1, step)});
      const auto y = torch::cat({target(0, step), target(1, step)});
      pipe->step([&](int64_t begin, int64_t count) {
        return std::pair(x.narrow(0, begin, count), y.narrow(0, begin, count));
      });
      EXPECT_NE(pipe->shape(), "");
    }
    EXPECT_THROW(pipe->reshape("@0"), InputError);
    pipe->gather();
    if (context.rank() == 0) expect_near(flat(model), alone(kParts, kSteps));
  });
}

TEST(Pipelined, AutoNeedsExamplesAndNoShapeOfTheUsers) {
  on_ranks("local:2", [](Context& context) {
    auto model = make_model();
    torch::optim::Adam optimizer(model->parameters(), 1e-2);
    const auto loss = [](const torch::Tensor& a, const torch::Tensor& b) { return torch::mse_loss(a, b); };
    const auto refused = [&](const PipelineOptions& options) {
      EXPECT_THROW(pipelined(context, model, loss, optimizer, options), InputError);
    };
    refused({.strategy = "auto"});
    refused({.examples = 1, .strategy = "auto"});
    refused({.shape = "@0", .examples = 8, .strategy = "auto"});
    torch::nn::Sequential norm(torch::nn::Linear(8, 4), torch::nn::BatchNorm1d(4), torch::nn::Linear(4, 4));
    torch::optim::Adam of_norm(norm->parameters(), 1e-2);
    EXPECT_THROW(pipelined(context, norm, loss, of_norm, {.examples = 8, .strategy = "auto"}), InputError);
  });
}

TEST(Pipelined, MeasuringLayersLeavesTheRandomNumbersAlone) {
  on_ranks("local:1", [](Context& context) {
    torch::nn::Sequential drops(torch::nn::Linear(8, 16), torch::nn::Dropout(0.5), torch::nn::Linear(16, 4));
    torch::optim::Adam optimizer(drops->parameters(), 1e-2);
    const auto loss = [](const torch::Tensor& a, const torch::Tensor& b) { return torch::mse_loss(a, b); };
    torch::manual_seed(5);
    const auto expected = torch::rand({3});
    torch::manual_seed(5);
    pipelined(context, drops, loss, optimizer, {.cells = 2})->step(input(0, 0), target(0, 0));
    EXPECT_TRUE(torch::rand({3}).equal(expected));
  });
}

TEST(Pipelined, AModuleThatIsThereTwiceIsTrainedOnce) {
  on_ranks("local:1", [](Context& context) {
    torch::nn::Linear shared(8, 8);
    torch::nn::Sequential model(shared, torch::nn::Tanh(), shared, torch::nn::Linear(8, 4));
    torch::optim::SGD optimizer(model->parameters(), 1e-2);
    const auto loss = [](const torch::Tensor& a, const torch::Tensor& b) { return torch::mse_loss(a, b); };
    auto pipe = pipelined(context, model, loss, optimizer, {.cells = 2, .micro_batches = 2});
    EXPECT_GT(pipe->step(input(0, 0), target(0, 0)), 0);
  });
}

TEST(Pipelined, OptionsBeginWhereAPipelineDoes) {
  const PipelineOptions options;
  const pipeline::Pipeline pipeline;
  EXPECT_EQ(options.schedule, pipeline.schedule);
  EXPECT_EQ(options.remat, pipeline::remat_name(pipeline.remat));
  EXPECT_EQ(options.chunks, pipeline.chunks);
  EXPECT_EQ(options.balance, pipeline.balance);
  EXPECT_EQ(pipeline.cells, options.threads ? "threads" : "auto");
}

TEST(Pipelined, WhatDoesNotFitIsRefused) {
  on_ranks("local:3", [](Context& context) {
    auto model = make_model();
    torch::optim::Adam optimizer(model->parameters(), 1e-2);
    const auto loss = [](const torch::Tensor& a, const torch::Tensor& b) { return torch::mse_loss(a, b); };
    EXPECT_THROW(pipelined(context, model, loss, optimizer, {.cells = 2}), InputError);
    EXPECT_THROW(pipelined(context, model, loss, optimizer, {.schedule = "none"}), InputError);
    EXPECT_THROW(pipelined(context, model, loss, optimizer, {.shape = "@0"}), InputError);  // no examples
    EXPECT_THROW(pipelined(context, model, loss, optimizer, {.shape = "@3", .examples = 4}), InputError);
    torch::nn::Sequential norm(torch::nn::Linear(8, 4), torch::nn::BatchNorm1d(4), torch::nn::Linear(4, 4));
    torch::optim::Adam of_norm(norm->parameters(), 1e-2);
    EXPECT_THROW(pipelined(context, norm, loss, of_norm, {.cells = 3}), InputError);
    pipelined(context, norm, loss, of_norm, {.cells = 3, .remat = "never"});
  });
}

TEST(Tune, AllRanksGetTheSameStrategyAndTheModelIsAsBefore) {
  std::vector<std::string> best(2);
  on_ranks("local:2", [&](Context& context) {
    auto model = make_model();
    const torch::Tensor before = flat(model).clone();
    const auto loss = [&] { return loss_of(model, context.worker(), 0); };
    const Tuned tuned = tune(context, *model, loss, {.trials = 3, .progress = false});
    EXPECT_TRUE(flat(model).equal(before));
    EXPECT_GT(tuned.step_s, 0);
    EXPECT_GT(tuned.ddp_s, 0);
    EXPECT_GT(tuned.best_builder_s, 0);
    const Graph graph = Graph::of(*model, loss);
    tuned.best.validate(graph, Cluster::of(context));
    best[static_cast<size_t>(context.rank())] = tuned.best.to_json();
    EXPECT_THROW(tune(context, *model, loss, {.compressors = {"zip"}}), InputError);
    EXPECT_THROW(tune(context, *model, loss, {.progress = false, .stop = [] { return true; }}), Error);
    EXPECT_TRUE(flat(model).equal(before));
  });
  EXPECT_FALSE(best[0].empty());
  EXPECT_EQ(best[0], best[1]);
}

TEST(Values, AStrategyIsBuiltSavedLoadedCheckedAndSimulated) {
  test::TempDir dir;
  auto model = make_model();
  const Graph graph = Graph::of(*model, [&] { return loss_of(model, 0, 0); });
  EXPECT_THAT(graph.variables(),
              ::testing::ElementsAre("0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"));
  EXPECT_EQ(graph.bytes(), flat(model).numel() * 4);
  EXPECT_GT(graph.compute_s(), 0);
  graph.save(dir.path() / "g.json");
  EXPECT_EQ(Graph::load(dir.path() / "g.json").variables(), graph.variables());

  const Cluster cluster = Cluster::parse("lab:1x10gbit+3x1gbit");
  EXPECT_EQ(cluster.hosts(), 4);
  EXPECT_EQ(cluster.workers(), 4);
  EXPECT_THAT(Strategy::builders(), ::testing::Contains("ps"));
  const Strategy ps = Strategy::build("ps+fp16", graph, cluster);
  ps.validate(graph, cluster);
  for (const auto* name : {"s.json", "s.pb"}) {
    ps.save(dir.path() / name);
    EXPECT_EQ(Strategy::load(dir.path() / name).to_json(), ps.to_json());
  }
  const Simulated expected = simulate(ps, graph, cluster);
  EXPECT_GE(expected.step_s, expected.link_bound_s);
  EXPECT_GE(expected.step_s, expected.compute_s);

  auto other = torch::nn::Sequential(torch::nn::Linear(8, 4));
  const Graph small = Graph::of(*other, [&] { return other->forward(input(0, 0)).sum(); });
  EXPECT_THROW(ps.validate(small, cluster), InputError);
  EXPECT_THROW(Strategy::build("pss", graph, cluster), InputError);
}

TEST(Sampling, WorkersShareTheExamplesAndEpochsDiffer) {
  std::mutex mutex;
  std::vector<std::set<size_t>> seen(3);  // by epoch, of all workers
  on_ranks("local:3", [&](Context& context) {
    Sampler sampler(context, 31);
    std::vector<std::vector<size_t>> orders(3);  // of this worker, by epoch
    for (size_t epoch = 0; epoch < 3; ++epoch) {
      sampler.reset();
      size_t count = 0;
      while (const auto batch = sampler.next(4)) {
        const std::lock_guard lock(mutex);
        for (const size_t index : *batch) EXPECT_TRUE(seen[epoch].insert(index).second);
        count += batch->size();
        orders[epoch].insert(orders[epoch].end(), batch->begin(), batch->end());
      }
      EXPECT_EQ(count, 10u);
    }
    Sampler again(context, 31);
    again.set_epoch(2);
    again.reset();
    EXPECT_EQ(*again.next(10), orders[2]) << "an epoch is what its number says";
    EXPECT_NE(orders[0], orders[1]);

    // Saved in the middle of an epoch.
    Sampler half(context, 31);
    half.reset();
    half.next(6);
    torch::serialize::OutputArchive out;
    half.save(out);
    std::stringstream bytes;
    out.save_to(bytes);
    torch::serialize::InputArchive in;
    in.load_from(bytes);
    Sampler resumed(context, 31);
    resumed.load(in);
    resumed.reset();  // as a loader's begin() does
    EXPECT_EQ(*resumed.next(4), *half.next(4));
    resumed.reset();
    EXPECT_EQ(*resumed.next(10), orders[1]);

    Sampler ordered(context, 31, /*shuffle=*/false);
    ordered.reset();
    EXPECT_EQ((*ordered.next(2))[1], static_cast<size_t>(3 + context.worker()));
    EXPECT_THROW(Sampler(context, 2), InputError);
  });
  for (const auto& epoch : seen) EXPECT_EQ(epoch.size(), 30u);
}

}  // namespace
}  // namespace entrain
