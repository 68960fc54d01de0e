#include "entrain/simulator/learned/neural_ranker.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/progress.h"
#include "entrain/simulator/learned/lesson_tensors.h"
#include "entrain/simulator/ranking.h"

namespace entrain::simulator {
namespace {

constexpr int64_t kScoringBatch = 256;

// Modules draw their first parameters from torch's default generator: seeded here, and given back.
class SeededTorch {
 public:
  explicit SeededTorch(uint64_t seed) : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  ~SeededTorch() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  SeededTorch(const SeededTorch&) = delete;
  SeededTorch& operator=(const SeededTorch&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

// A lesson with what was measured.
struct Class {
  LessonTensors tensors;
  std::vector<double> seconds;
};

std::vector<Class> classes_of(const std::vector<Lesson>& lessons, bool linear) {
  std::vector<Class> classes;
  for (const Lesson& lesson : lessons) {
    if (lesson.trials.size() < 2) continue;  // no pair
    std::vector<const strategy::Strategy*> strategies;
    std::vector<double> seconds;
    for (const auto* trial : lesson.trials) {
      strategies.push_back(&trial->strategy);
      seconds.push_back(trial->step_s());
    }
    classes.push_back(
        {LessonTensors(*lesson.graph, *lesson.cluster, strategies, linear), std::move(seconds)});
  }
  return classes;
}

std::vector<double> score_all(RankerNetwork& network, const LessonTensors& tensors) {
  const torch::NoGradGuard no_grad;
  network.eval();
  std::vector<double> scores;
  for (int64_t begin = 0; begin < tensors.count(); begin += kScoringBatch) {
    std::vector<int64_t> chosen(static_cast<size_t>(std::min(kScoringBatch, tensors.count() - begin)));
    std::iota(chosen.begin(), chosen.end(), begin);
    const auto out = network.forward(tensors.batch(chosen)).to(torch::kFloat64).contiguous();
    scores.insert(scores.end(), out.data_ptr<double>(), out.data_ptr<double>() + out.numel());
  }
  return scores;
}

double mean_accuracy(RankerNetwork& network, const std::vector<Class>& classes) {
  double sum = 0, counted = 0;
  for (const Class& c : classes) {
    const double accuracy = pair_accuracy(score_all(network, c.tensors), c.seconds);
    if (std::isnan(accuracy)) continue;
    sum += accuracy;
    counted += 1;
  }
  return counted > 0 ? sum / counted : std::numeric_limits<double>::quiet_NaN();
}

// 1 where a (row) should score higher than b (column), else 0: slower, or as fast with more parts.
torch::Tensor slower_matrix(const Class& c, const std::vector<int64_t>& chosen, double close) {
  const auto n = static_cast<int64_t>(chosen.size());
  auto matrix = torch::zeros({n, n});
  auto at = matrix.accessor<float, 2>();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t a = chosen[i], b = chosen[j];
      const double ta = c.seconds[a], tb = c.seconds[b];
      const int64_t more_parts = c.tensors.parts(a) - c.tensors.parts(b);
      const bool by_parts = std::abs(ta - tb) < close * std::max(ta, tb) && more_parts != 0;
      at[i][j] = (by_parts ? more_parts > 0 : ta > tb) ? 1 : 0;
    }
  }
  return matrix;
}

torch::Tensor pair_loss_of(const torch::Tensor& scores, const torch::Tensor& slower) {
  const auto difference = scores.unsqueeze(1) - scores.unsqueeze(0);
  return (torch::softplus(-difference) * slower).sum() / slower.sum().clamp_min(1);
}

struct Plan {
  const Class* from;
  std::vector<int64_t> chosen;
};

// Every strategy once, in batches of one class, in random order.
std::vector<Plan> draw_batches(const std::vector<Class>& classes, int most, std::mt19937_64& rng) {
  const auto size = static_cast<size_t>(most);
  std::vector<Plan> batches;
  for (const Class& c : classes) {
    std::vector<int64_t> order(c.seconds.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), rng);
    // Near equal batches: a last one of a single strategy would have no pair.
    const size_t count = (order.size() + size - 1) / size;
    for (size_t b = 0; b < count; ++b) {
      batches.push_back({&c,
                         {order.begin() + static_cast<std::ptrdiff_t>(b * order.size() / count),
                          order.begin() + static_cast<std::ptrdiff_t>((b + 1) * order.size() / count)}});
    }
  }
  std::shuffle(batches.begin(), batches.end(), rng);
  return batches;
}

// All tensors that make a network: parameters, then buffers, by name.
std::vector<std::pair<std::string, torch::Tensor>> tensors_of(const RankerNetwork& network) {
  std::vector<std::pair<std::string, torch::Tensor>> all;
  for (const auto& item : network.named_parameters()) all.emplace_back(item.key(), item.value());
  for (const auto& item : network.named_buffers()) all.emplace_back(item.key(), item.value());
  return all;
}

std::vector<torch::Tensor> snapshot(const RankerNetwork& network) {
  std::vector<torch::Tensor> copies;
  for (const auto& [name, tensor] : tensors_of(network)) copies.push_back(tensor.detach().clone());
  return copies;
}

void restore(RankerNetwork& network, const std::vector<torch::Tensor>& copies) {
  const torch::NoGradGuard no_grad;
  size_t i = 0;
  for (auto& [name, tensor] : tensors_of(network)) tensor.copy_(copies[i++]);
}

}  // namespace

struct NeuralRanker::Impl {
  std::shared_ptr<RankerNetwork> network;

  void epoch(const std::vector<Class>& classes, torch::optim::Adam& adam, const NeuralOptions& options,
             bool augment, std::mt19937_64& rng) const {
    network->train();
    for (const Plan& plan : draw_batches(classes, options.batch_size, rng)) {
      StrategyBatch batch = plan.from->tensors.batch(plan.chosen);
      if (augment) renumber(batch, rng);
      const auto slower = slower_matrix(*plan.from, plan.chosen, augment ? options.close : 0);
      adam.zero_grad();
      pair_loss_of(network->forward(batch), slower).backward();
      torch::nn::utils::clip_grad_norm_(network->parameters(), options.clip);
      adam.step();
    }
  }
};

NeuralRanker::NeuralRanker(std::string name, NeuralOptions options)
    : name_(std::move(name)), options_(options), impl_(std::make_unique<Impl>()) {
  if (name_ == "linear") options_.batch_size = std::min(options_.batch_size, 8);
  const SeededTorch seeded(0);
  impl_->network = make_network(name_);
}

NeuralRanker::~NeuralRanker() = default;

void NeuralRanker::learn(const std::vector<Lesson>& training, const std::vector<Lesson>& validation,
                         const LearnOptions& options) {
  const SeededTorch seeded(options.seed);
  impl_->network = make_network(name_);
  const auto classes = classes_of(training, name_ == "linear"),
             held = classes_of(validation, name_ == "linear");
  if (classes.empty()) return;
  std::vector<torch::Tensor> rows;
  for (const Class& c : classes) rows.push_back(c.tensors.inputs());
  impl_->network->standardise_by(torch::cat(rows));
  torch::optim::Adam adam(
      impl_->network->parameters(),
      torch::optim::AdamOptions(options.learning_rate).weight_decay(options_.weight_decay));
  std::mt19937_64 rng(options.seed);
  Progress progress(name_, options.epochs, options.progress);
  std::vector<torch::Tensor> best;
  double best_accuracy = -1;
  int best_epoch = 0;
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    if (epoch > 0 && (epoch == options.epochs * 2 / 5 || epoch == options.epochs * 4 / 5)) {
      for (auto& group : adam.param_groups()) {
        auto& adam_options = static_cast<torch::optim::AdamOptions&>(group.options());
        adam_options.lr(adam_options.lr() * 0.3);
      }
    }
    impl_->epoch(classes, adam, options_, options.augment, rng);
    const double accuracy = mean_accuracy(*impl_->network, held);
    progress.update(epoch + 1, std::isnan(accuracy) ? "" : fmt::format("validation {:.3f}", accuracy));
    if (std::isnan(accuracy)) continue;
    if (accuracy > best_accuracy) {
      best_accuracy = accuracy;
      best_epoch = epoch;
      best = snapshot(*impl_->network);
    } else if (epoch - best_epoch >= options_.patience) {
      break;
    }
  }
  if (!best.empty()) restore(*impl_->network, best);
}

std::vector<double> NeuralRanker::score(const Lesson& lesson,
                                        std::span<const strategy::Strategy> strategies) const {
  std::vector<const strategy::Strategy*> asked;
  for (const auto& strategy : strategies) asked.push_back(&strategy);
  return score_all(*impl_->network, LessonTensors(*lesson.graph, *lesson.cluster, asked, name_ == "linear"));
}

void NeuralRanker::save(const std::filesystem::path& path) const {
  auto header = make_header(name_, name_ == "linear" ? linear_schema() : part_schema());
  std::string bytes;
  for (const auto& [name, tensor] : tensors_of(*impl_->network)) {
    const auto values = tensor.detach().to(torch::kFloat32).contiguous();
    header["tensors"].push_back({{"name", name}, {"shape", values.sizes().vec()}});
    bytes.append(reinterpret_cast<const char*>(values.data_ptr<float>()),
                 static_cast<size_t>(values.numel()) * sizeof(float));
  }
  write_file_atomically(path, header.dump() + "\n" + bytes);
}

std::unique_ptr<NeuralRanker> NeuralRanker::load(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  const auto header = read_header(content, path);
  const auto name = header["ranker"].get<std::string>();
  auto ranker = std::make_unique<NeuralRanker>(name);
  require_schema(header, name == "linear" ? linear_schema() : part_schema(), path);
  nlohmann::json expected = nlohmann::json::array();
  size_t floats = 0;
  const auto tensors = tensors_of(*ranker->impl_->network);
  for (const auto& [key, tensor] : tensors) {
    expected.push_back({{"name", key}, {"shape", tensor.sizes().vec()}});
    floats += static_cast<size_t>(tensor.numel());
  }
  const size_t begin = std::min(content.size(), content.find('\n') + 1);
  if (header.value("tensors", nlohmann::json()) != expected ||
      content.size() - begin != floats * sizeof(float)) {
    bad_input("{}: damaged ranker, or one of another version: its tensors are not those of {}", path.string(),
              name);
  }
  const torch::NoGradGuard no_grad;
  const char* at = content.data() + begin;
  for (const auto& [key, tensor] : tensors) {
    auto values = torch::empty(tensor.sizes());
    const size_t size = static_cast<size_t>(values.numel()) * sizeof(float);
    std::memcpy(values.data_ptr<float>(), at, size);
    at += size;
    torch::Tensor(tensor).copy_(values);
  }
  return ranker;
}

}  // namespace entrain::simulator
