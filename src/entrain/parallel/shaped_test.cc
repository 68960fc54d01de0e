// Any shape computes what one process does on the same micro-batches, and so does a job whose shape changes.
#include "entrain/parallel/shaped.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <random>

#include "entrain/base/error.h"
#include "entrain/layers/batch_norm.h"
#include "entrain/models/model.h"
#include "entrain/optim/base.h"
#include "entrain/parallel/server.h"
#include "entrain/pipeline/run/pipeline_subjects.h"
#include "entrain/strategy/builders/registry.h"
#include "entrain/strategy/shape_text.h"
#include "support/jobs.h"

namespace entrain::parallel {
namespace {

using pipeline::Subject;
using strategy::Shape;
using Tensors = std::vector<torch::Tensor>;

constexpr uint64_t kSeed = 11;

struct Trial {
  std::string subject = "mlp";
  std::string cluster = "lab:4x1gbit";
  std::string builder = "allreduce";
  std::string optimizer = "sgd";
  std::vector<Shape> shapes;  // by step
  double clip_norm = 0;
  bool tcp = false;
};

struct Outcome {
  std::vector<double> losses;                      // by step
  std::map<std::string, torch::Tensor> gradients;  // of the last step
  std::map<std::string, torch::Tensor> state;      // parameters and buffers after it
  int64_t moved = 0;                               // bytes that all ranks were sent by reshapes
};

// Adam divides by the size of a gradient, also by that of one that is only rounding (of a key's bias, say,
// which softmax ignores): so in double.
struct Prepared {
  explicit Prepared(const Trial& trial)
      : subject(pipeline::make_subject(trial.subject)), model(subject.make()) {
    if (trial.optimizer != "adam") return;
    model->to(torch::kDouble);
    if (subject.batch.input.is_floating_point()) subject.batch.input = subject.batch.input.to(torch::kDouble);
    if (subject.batch.target.is_floating_point())
      subject.batch.target = subject.batch.target.to(torch::kDouble);
  }
  Subject subject;
  std::shared_ptr<models::Model> model;
};

std::unique_ptr<torch::optim::Optimizer> optimizer_of(const std::string& name, const Tensors& parameters) {
  if (name == "adam")
    return std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(0.01));
  return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.05).momentum(0.9));
}

std::map<std::string, torch::Tensor> state_of(const torch::nn::Module& model) {
  std::map<std::string, torch::Tensor> state;
  for (const auto& item : model.named_parameters()) state[item.key()] = item.value().detach().clone();
  for (const auto& item : model.named_buffers()) state[item.key()] = item.value().to(torch::kDouble).clone();
  return state;
}

// The examples of a step: those of the subject, turned.
models::Batch batch_of(const Subject& subject, size_t step) {
  const auto turn = static_cast<int64_t>(step);
  return {subject.batch.input.roll(turn, 0), subject.batch.target.roll(turn, 0)};
}

// A plain loop over layers and micro-batches.
Outcome alone(const Trial& trial) {
  const Prepared prepared(trial);
  const auto& [subject, model] = prepared;
  const auto sequence = model->sequence();
  layers::defer_batch_norm(*model, true);
  const auto optimizer = optimizer_of(trial.optimizer, model->parameters());
  const int64_t examples = subject.batch.size();
  Outcome outcome;
  for (size_t step = 0; step < trial.shapes.size(); ++step) {
    optimizer->zero_grad();
    for (auto& parameter : model->parameters()) parameter.mutable_grad().reset();
    const models::Batch batch = batch_of(subject, step);
    double loss = 0;
    const auto assignment = plan::assign(trial.shapes[step], examples);
    for (int m = 0; m < assignment.count(); ++m) {
      const auto [begin, count] = assignment.micro_batches[static_cast<size_t>(m)];
      const auto part = batch.narrow(begin, count);
      layers::Skips skips;
      torch::Tensor x = part.input;
      for (int layer = 0; layer < subject.layers; ++layer) {
        const layers::Pass pass({kSeed, static_cast<int64_t>(step), layer, m});
        x = sequence.layers[static_cast<size_t>(layer)].forward(x, skips);
      }
      const auto weighted =
          sequence.loss(x, part.target) * (static_cast<double>(count) / static_cast<double>(examples));
      weighted.backward();
      loss += weighted.item<double>();
    }
    outcome.losses.push_back(loss);
    optim::clip_gradients(model->parameters(), trial.clip_norm);
    outcome.gradients.clear();
    for (const auto& item : model->named_parameters()) {
      if (item.value().grad().defined())
        outcome.gradients[item.key()] = item.value().grad().to_dense().clone();
    }
    optimizer->step();
    layers::commit_batch_norm(*model);
  }
  outcome.state = state_of(*model);
  return outcome;
}

Outcome shaped(const Trial& trial) {
  std::mutex turn;  // at torch's one generator, from which models are made, and at the outcome
  Outcome outcome;
  const auto body = [&](job::Context& context) {
    torch::set_num_threads(1);
    if (!context.trains()) return serve(context);
    const Prepared prepared = [&] {
      const std::lock_guard lock(turn);
      return Prepared(trial);
    }();
    const auto& [subject, model] = prepared;
    ShapedOptions options;
    options.shape = trial.shapes.front();
    options.strategy = strategy::Request(trial.builder);
    options.examples = subject.batch.size();
    options.seed = kSeed;
    options.clip_norm = trial.clip_norm;
    Shaped shaped(context, *model, model->sequence(), options);
    const auto optimizer = optimizer_of(trial.optimizer, model->parameters());
    shaped.use(*optimizer, 0);
    std::vector<double> losses;
    for (size_t step = 0; step < trial.shapes.size(); ++step) {
      if (!(trial.shapes[step] == shaped.shape())) {
        const int64_t bytes = shaped.reshape(trial.shapes[step]);
        const std::lock_guard lock(turn);
        outcome.moved += bytes;
      }
      const models::Batch batch = batch_of(subject, step);
      losses.push_back(shaped.run([&](int64_t begin, int64_t count) { return batch.narrow(begin, count); }));
      if (step + 1 == trial.shapes.size()) {
        const std::lock_guard lock(turn);
        for (const auto& item : model->named_parameters()) {
          if (!item.value().grad().defined() || item.value().numel() == 0) continue;
          const auto gradient = item.value().grad().to_dense().clone();
          const auto [found, first] = outcome.gradients.emplace(item.key(), gradient);
          EXPECT_TRUE(first || torch::equal(found->second, gradient)) << item.key() << " differs by holder";
        }
        outcome.losses = losses;
      }
      shaped.update();
    }
    shaped.gather();
    if (context.rank() != 0) return;
    const std::lock_guard lock(turn);
    outcome.state = state_of(*model);
  };
  if (trial.tcp) {
    testing::run_tcp_job(trial.cluster, body);
  } else {
    testing::run_job(trial.cluster, body);
  }
  return outcome;
}

void expect_close(const std::map<std::string, torch::Tensor>& actual,
                  const std::map<std::string, torch::Tensor>& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << what << ": no " << name;
    ASSERT_EQ(actual.at(name).sizes(), tensor.sizes()) << what << ": " << name;
    const double scale = std::max(1e-3, tensor.abs().max().item<double>());
    const double off = (actual.at(name) - tensor).abs().max().item<double>();
    EXPECT_LT(off / scale, 1e-5) << what << ": " << name;
  }
}

std::string describe(const Trial& trial) {
  std::string text = trial.subject + " on " + trial.cluster + ", " + trial.builder + ", " + trial.optimizer;
  for (const Shape& shape : trial.shapes) text += "\n  " + strategy::to_text(shape);
  return text;
}

Outcome expect_same_as_alone(const Trial& trial) {
  SCOPED_TRACE(describe(trial));
  Outcome actual;
  try {
    actual = shaped(trial);
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
    return actual;
  }
  const Outcome expected = alone(trial);
  EXPECT_EQ(actual.losses.size(), expected.losses.size());
  for (size_t step = 0; step < expected.losses.size() && step < actual.losses.size(); ++step) {
    EXPECT_NEAR(actual.losses[step], expected.losses[step], 1e-5 * std::abs(expected.losses[step]))
        << "step " << step;
  }
  expect_close(actual.gradients, expected.gradients, "gradients");
  expect_close(actual.state, expected.state, "state");
  return actual;
}

int layers_of(const std::string& subject) { return pipeline::make_subject(subject).layers; }

class Random {
 public:
  explicit Random(uint64_t seed) : random_(seed) {}
  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  template <typename T>
  const T& of(const std::vector<T>& values) {
    return values[static_cast<size_t>(below(static_cast<int>(values.size())))];
  }

  Shape shape(int layers, std::vector<int> workers, int64_t examples) {
    Shape shape;
    shape.schedule = of<std::string>({"gpipe", "1f1b", "interleaved"});
    shape.remat = of<pipeline::Remat>(
        {pipeline::Remat::kNever, pipeline::Remat::kExceptLast, pipeline::Remat::kAlways});
    std::set<int> cuts = {layers};
    for (int c = below(4); c > 0; --c) cuts.insert(1 + below(layers));
    int begin = 0;
    for (const int end : cuts) {
      strategy::Cell cell{begin, end, {}};
      std::shuffle(workers.begin(), workers.end(), random_);
      cell.ranks.assign(workers.begin(), workers.begin() + 1 + below(static_cast<int>(workers.size())));
      if (below(2) == 0) {
        double sum = 0;
        for (size_t r = 0; r < cell.ranks.size(); ++r) sum += cell.shares.emplace_back(1 + below(5));
        for (double& share : cell.shares) share /= sum;
      }
      shape.cells.push_back(std::move(cell));
      begin = end;
    }
    shape.micro_batches = std::min<int>(static_cast<int>(examples), shape.most_replicas() + below(5));
    return shape;
  }

  Trial trial() {
    Trial trial;
    auto subjects = pipeline::subject_names();
    subjects.insert(subjects.end(), {"tied_words", "sparse_words"});
    trial.subject = of(subjects);
    trial.cluster = of<std::string>(
        {"lab:4x1gbit", "lab:3x1gbit", "lab:3x1gbit+1x10gbit/server", "lab:2x1gbit/ranks=2", "lab:1x1gbit"});
    trial.builder = of(strategy::names());
    trial.optimizer = of<std::string>({"sgd", "adam"});
    if (trial.subject == "sparse_words") trial.optimizer = "sgd";  // torch's Adam wants dense gradients
    trial.clip_norm = below(3) == 0 ? 0.1 : 0;
    trial.tcp = below(2) == 0;
    return trial;
  }

 private:
  std::mt19937_64 random_;
};

int count_from(const char* variable, int usual) {
  const char* text = std::getenv(variable);
  return text == nullptr ? usual : std::atoi(text);
}

std::vector<int> workers_of(const std::string& cluster) { return cluster::parse(cluster).worker_ranks(); }

TEST(ShapedEquivalence, OfRandomShapesWithAnySynchronizer) {
  Random random(2024);
  for (int i = count_from("ENTRAIN_RANDOM_SHAPES", 20); i > 0 && !HasFailure(); --i) {
    Trial trial = random.trial();
    const Shape shape = random.shape(layers_of(trial.subject), workers_of(trial.cluster), 33);
    trial.shapes.assign(3, shape);
    expect_same_as_alone(trial);
  }
}

TEST(ShapedEquivalence, OfJobsWhoseShapeChangesAtRandomSteps) {
  Random random(77);
  for (int i = count_from("ENTRAIN_RANDOM_RESHAPES", 4); i > 0 && !HasFailure(); --i) {
    Trial trial = random.trial();
    if (trial.subject != "sparse_words") trial.optimizer = "adam";
    for (int changes = 3; changes > 0; --changes) {
      const Shape shape = random.shape(layers_of(trial.subject), workers_of(trial.cluster), 33);
      trial.shapes.insert(trial.shapes.end(), static_cast<size_t>(1 + random.below(2)), shape);
    }
    expect_same_as_alone(trial);
  }
}

TEST(Shaped, ReshapeMovesNoMoreThanIsMissing) {
  Trial trial;
  trial.cluster = "lab:3x1gbit";
  trial.optimizer = "adam";
  const int layers = layers_of(trial.subject);
  const Shape before = strategy::parse_shape("0-15@0,1 16-31@2 m=4", layers);
  const Shape after = strategy::parse_shape("0-15@1 16-31@2,0 m=4", layers);
  trial.shapes = {before, after};
  const auto outcome = expect_same_as_alone(trial);
  // Rank 0 gets layers 16 to 31: eight matrices of 12 x 12 with their biases, twice more as Adam's averages,
  // and Adam's count of each.
  const int64_t parameters = 8 * (12 * 12 + 12) * 8;
  EXPECT_EQ(outcome.moved, 3 * parameters + 16 * 8);
}

TEST(Shaped, OneRankAloneSendsNoGradients) {
  Trial trial;
  trial.cluster = "lab:2x1gbit";
  trial.shapes.assign(2, strategy::parse_shape("@1 m=3 schedule=gpipe", layers_of(trial.subject)));
  expect_same_as_alone(trial);
}

TEST(Shaped, AShapeThatDoesNotFitIsRefusedBeforeAnythingIsSent) {
  const auto error_of = [](const std::string& text, int64_t examples) {
    std::string error = "none";
    testing::run_job("lab:1x1gbit", [&](job::Context& context) {
      const Subject subject = pipeline::make_subject("mlp");
      const auto model = subject.make();
      ShapedOptions options;
      options.examples = examples;
      try {
        options.shape = strategy::parse_shape(text, subject.layers);
        const Shaped shaped(context, *model, model->sequence(), options);
      } catch (const InputError& e) {
        error = e.what();
      }
    });
    return error;
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(error_of("@1", 8), HasSubstr("rank 1 is not in the cluster, allowed: 0"));
  EXPECT_THAT(error_of("0-5@0 7-31@0", 8), HasSubstr("cell 1 begins at layer 7, allowed: 6"));
  EXPECT_THAT(error_of("0-5@0", 8), HasSubstr("end before layer 6, allowed: 32"));
  EXPECT_THAT(error_of("@0 m=9", 8), HasSubstr("micro_batches is 9, allowed: at most 8"));
}

}  // namespace
}  // namespace entrain::parallel
