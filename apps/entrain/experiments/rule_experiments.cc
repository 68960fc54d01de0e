// entrain experiment symmetry|convex: what the theory of Leader SGD says, on problems with known answers.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "entrain/base/files.h"
#include "entrain/optim/problems.h"
#include "entrain/report/svg.h"
#include "experiments/experiment_table.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::rule_experiments_verb {
namespace {

using strategy::Optimizer;

struct Command {
  int workers = 4;
  int64_t steps = 2000;
  int seeds = 3;
  uint64_t seed = 0;
  std::string out = "results";
  bool json = false;
};

// One curve: a rule on the problem of each seed.
struct Curve {
  std::string rule;
  std::vector<int64_t> steps;
  std::vector<std::vector<double>> by_seed;  // objective of the averaged model
};

using MakeProblem = std::function<optim::Problem(uint64_t seed)>;

Curve run_rule(const Command& command, const MakeProblem& problem, const Optimizer& settings,
               const optim::RunSettings& run) {
  Curve curve{settings.rule, {}, {}};
  for (int s = 0; s < command.seeds; ++s) {
    const uint64_t seed = command.seed + static_cast<uint64_t>(s);
    const auto trace = optim::run_rule_on(problem(seed), settings, command.workers, command.steps, run);
    curve.steps = trace.steps;
    curve.by_seed.push_back(trace.objective);
  }
  return curve;
}

simulator::MeanStd at(const Curve& curve, size_t record) {
  std::vector<double> values;
  for (const auto& objective : curve.by_seed) values.push_back(objective[record]);
  return simulator::mean_std(values);
}

// log10 of the objective against steps (or log10 of steps), mean and deviation of the logarithms.
report::LineSeries series_of(const Curve& curve, bool log_steps) {
  report::LineSeries series{curve.rule, {}, {}, {}};
  for (size_t k = 1; k < curve.steps.size(); ++k) {
    std::vector<double> values;
    for (const auto& objective : curve.by_seed) values.push_back(std::log10(std::max(objective[k], 1e-16)));
    const auto m = simulator::mean_std(values);
    const auto step = static_cast<double>(curve.steps[k]);
    series.x.push_back(log_steps ? std::log10(step) : step);
    series.mean.push_back(m.mean);
    series.std.push_back(m.std);
  }
  return series;
}

// Least-squares slope of log f over log k, in the second half of the steps (in logarithms).
double slope(const std::vector<int64_t>& steps, const std::vector<double>& objective) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (size_t k = 1; k < steps.size(); ++k) {
    if (steps[k] * steps[k] < steps.back()) continue;
    const double x = std::log(static_cast<double>(steps[k])), y = std::log(objective[k]);
    n += 1, sx += x, sy += y, sxx += x * x, sxy += x * y;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

void show(const Command& command, const std::string& name, const std::string& title, bool log_steps,
          const std::vector<Curve>& curves) {
  nlohmann::json document = {
      {"experiment", name}, {"workers", command.workers}, {"rules", nlohmann::json::array()}};
  report::LineChart chart{
      title, log_steps ? "log10 of steps" : "steps", "log10 of the objective, averaged model", {}, {}, {},
      {}};
  std::vector<TableRow> rows;
  for (const Curve& curve : curves) {
    std::vector<double> slopes;
    for (const auto& objective : curve.by_seed) slopes.push_back(slope(curve.steps, objective));
    const auto last = at(curve, curve.steps.size() - 1);
    rows.push_back(
        {curve.rule,
         {fmt::format("{:.3g}", at(curve, 0).mean), fmt::format("{:.3g} ± {:.1g}", last.mean, last.std),
          shown(simulator::mean_std(slopes), 2)}});
    document["rules"].push_back(
        {{"rule", curve.rule}, {"steps", curve.steps}, {"objective", curve.by_seed}, {"slope", slopes}});
    chart.series.push_back(series_of(curve, log_steps));
  }
  make_folders(command.out);
  const auto base = std::filesystem::path(command.out) / name;
  write_file_atomically(base.string() + ".json", document.dump(1) + "\n");
  write_file_atomically(base.string() + ".svg", report::line_chart(chart));
  if (command.json) {
    fmt::print("{}\n", document.dump(1));
  } else {
    fmt::print(
        "{}\n{}mean ± std over {} seeds; slope: of log f over log k at the end\nwritten to {}.json and "
        "{}.svg\n",
        title, table("rule", {"f at first", "f at last", "slope"}, rows), command.seeds, base.string(),
        base.string());
  }
}

Optimizer settings_of(const std::string& rule, double rate, double pull, int64_t period) {
  Optimizer settings;
  settings.rule = rule;
  settings.learning_rate = rate;
  settings.pull = pull;
  settings.period = period;
  settings.proximal = 0;
  return settings;
}

int symmetry(const Command& command) {
  const MakeProblem problem = [](uint64_t seed) { return optim::matrix_completion(12, 2, 0.7, seed); };
  optim::RunSettings run;
  run.record_every = std::max<int64_t>(1, command.steps / 100);
  std::vector<Curve> curves;
  for (const char* rule : {"lsgd", "easgd", "local-sgd"}) {
    curves.push_back(run_rule(command, problem, settings_of(rule, 0.1, 0.4, 1), run));
  }
  show(command, "symmetry", "Symmetric matrix completion: half of the workers start at -X", false, curves);
  return 0;
}

int convex(const Command& command) {
  const MakeProblem problem = [](uint64_t seed) { return optim::noisy_quadratic(10, 5, 1, seed); };
  optim::RunSettings run;
  run.record_every = std::max<int64_t>(1, command.steps / 200);
  run.rate = [](int64_t k) { return 2.0 / (static_cast<double>(k) + 20); };
  std::vector<Curve> curves;
  for (const char* rule : {"lsgd", "easgd", "local-sgd"}) {
    curves.push_back(run_rule(command, problem, settings_of(rule, 0.1, 0.1, 4), run));
  }
  Command alone = command;
  alone.workers = 1;
  curves.push_back(run_rule(alone, problem, settings_of("lsgd", 0.1, 0.1, 4), run));
  curves.back().rule = "one worker";
  show(command, "convex", "Noisy quadratic, step size 1/k", true, curves);
  return 0;
}

void add_one(CLI::App& parent, Action& action, const std::string& name, const std::string& help,
             int (*run)(const Command&)) {
  auto* verb = parent.add_subcommand(name, help);
  auto c = std::make_shared<Command>();
  verb->add_option("--workers", c->workers, "Threads of this process")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  verb->add_option("--steps", c->steps, "Of each worker")
      ->check(CLI::Range(200, 1'000'000))
      ->capture_default_str();
  verb->add_option("--seeds", c->seeds, "Mean and deviation are over this many")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--seed", c->seed, "The first seed")->capture_default_str();
  verb->add_option("--out", c->out, "Folder for the JSON document and the picture")->capture_default_str();
  add_json_option(*verb, c->json);
  verb->callback([c, run, &action] { action = [c, run] { return run(*c); }; });
}

}  // namespace

// Subcommands of `experiment`; here, because rules need torch and the tables of trials do not.
void add_rule_experiments(CLI::App& app, Action& action) {
  CLI::App& experiment = *app.get_subcommand("experiment");
  add_one(experiment, action, "symmetry", "Leader SGD where averaging stalls: symmetric matrix completion",
          symmetry);
  add_one(experiment, action, "convex", "Leader SGD's rate on a noisy convex quadratic", convex);
}

}  // namespace entrain::app::rule_experiments_verb
