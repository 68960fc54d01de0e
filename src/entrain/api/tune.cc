#include "entrain/api/tune.h"

#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/base/progress.h"
#include "entrain/job/context.h"
#include "entrain/job/control.h"
#include "entrain/parallel/distributed.h"
#include "entrain/strategy/compression.h"
#include "entrain/strategy/stored.h"
#include "entrain/transport/control_tags.h"
#include "entrain/trials/standing_runner.h"
#include "entrain/tuner/recalibrate.h"
#include "entrain/tuner/tuner.h"

namespace entrain {
namespace {

constexpr const char* kReference = "ddp";

// The user's module and loss.
class LossStepper final : public trials::Stepper {
 public:
  LossStepper(job::Context& context, torch::nn::Module& module, std::function<torch::Tensor()> loss)
      // Parameters must stay near where they are: thousands of steps on one batch end in NaN or denormals,
      // which compute at another speed.
      : optimizer_(module.parameters(), torch::optim::SGDOptions(1e-7)),
        distributed_(context, module, optimizer_, {}),
        loss_(std::move(loss)) {}

  void step() override { distributed_.step(loss_()); }
  void switch_strategy(const strategy::Strategy& s) override { distributed_.switch_strategy(s); }
  graph::Graph graph() const override { return distributed_.profiled_graph(); }

 private:
  torch::optim::SGD optimizer_;
  parallel::Distributed distributed_;
  std::function<torch::Tensor()> loss_;
};

// Parameters and buffers, put back at the end.
class Kept {
 public:
  explicit Kept(torch::nn::Module& module) : tensors_(module.parameters()) {
    for (const auto& buffer : module.buffers()) tensors_.push_back(buffer);
    for (const auto& tensor : tensors_) values_.push_back(tensor.detach().clone());
  }
  ~Kept() {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(values_[i]);
  }

 private:
  std::vector<torch::Tensor> tensors_, values_;
};

tuner::TuneOptions tuner_options(const TuneOptions& options) {
  if (!options.log.empty() && std::filesystem::exists(options.log)) {
    bad_input("`log` {}: there is such a file already; allowed: a new one", options.log.string());
  }
  if (options.trials < 1) bad_input("trials is {}; allowed: 1 or more", options.trials);
  if (options.minutes < 0) bad_input("minutes is {}; allowed: 0 or more", options.minutes);
  tuner::TuneOptions inner;
  inner.trials = options.trials;
  inner.minutes = options.minutes;
  inner.reference = kReference;
  inner.search.seed = options.seed;
  inner.search.sampler.compressors.clear();
  for (const auto& text : options.compressors) {
    inner.search.sampler.compressors.push_back(strategy::parse_compression(text));
  }
  inner.stop = options.stop;
  return inner;
}

// On rank 0, with the others following.
tuner::TuneResult search(job::Context& context, trials::StandingJob& job, const TuneOptions& options,
                         const tuner::TuneOptions& inner) {
  dataset::Domain domain;
  domain.name = dataset::domain_name("model", context.cluster.name, 0);
  domain.graph = job.graph();
  domain.cluster = context.cluster;
  domain.settings.seed = options.seed;
  dataset::TrialLog log(options.log);
  trials::StandingRunner runner(job, {});
  tuner::Guide guide;
  guide.remake = tuner::recalibrating(domain.graph, domain.cluster);
  Progress bar("trial", 0, options.progress);
  return tuner::tune(domain, runner, log, guide, inner,
                     [&](const tuner::TuneProgress& p) { bar.update(p.done, p.summary()); });
}

nlohmann::json to_json(const tuner::TuneResult& result) {
  const auto* reference = result.find(kReference);
  return {{"best", strategy::to_json(result.best)},
          {"step_s", result.best_s},
          {"ddp_s", reference == nullptr ? 0 : reference->seconds},
          {"best_builder", result.best_baseline},
          {"best_builder_s", result.baseline_s},
          {"trials", result.trials}};
}

}  // namespace

Tuned tune(Context& context, torch::nn::Module& module, const std::function<torch::Tensor()>& loss,
           const TuneOptions& options) {
  job::Context& inner = context.inner();
  inner.check_trains();
  const auto options_inside = tuner_options(options);  // what is wrong is told before anything is run
  std::string own;
  {
    const Kept kept(module);
    trials::StandingJob job(inner, std::make_unique<LossStepper>(inner, module, loss));
    if (inner.rank() != 0) {
      job.follow();
    } else {
      try {
        own = to_json(search(inner, job, options, options_inside)).dump();
      } catch (const PeerError&) {
        throw;
      } catch (const std::exception& e) {
        own = nlohmann::json{{"error", e.what()}}.dump();  // the others wait for a result
      }
    }
  }
  const auto json = nlohmann::json::parse(job::tell_workers(
      inner, own, transport::tags::kTuned, Deadline::after(inner.job.timeout_s), "what was tuned"));
  if (json.contains("error")) fail("tune: {}", json["error"].get<std::string>());
  return {Strategy::from_json(json["best"].get<std::string>()),
          json["step_s"].get<double>(),
          json["ddp_s"].get<double>(),
          json["best_builder"].get<std::string>(),
          json["best_builder_s"].get<double>(),
          json["trials"].get<int>()};
}

}  // namespace entrain
