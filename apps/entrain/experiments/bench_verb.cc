// entrain bench optimizers: several rules on one job, side by side: communication share, errors, curves.
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/json_number.h"
#include "entrain/base/process.h"
#include "entrain/base/progress.h"
#include "entrain/report/svg.h"
#include "experiments/experiment_table.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::bench_verb {
namespace {

struct Command {
  std::string model = "cnn7";
  std::string cluster = "lab:4x1gbit";
  std::vector<std::string> rules = {"lsgd:period=64", "easgd:period=64", "downpour:period=1"};
  std::vector<std::string> train;  // flags for every run
  int seeds = 3;
  uint64_t seed = 0;
  int at_once = 1;
  std::string out = "bench-optimizers";
  bool json = false;
};

// "lsgd:period=64,lr=0.1" -> the rule, and the flags that it gets besides those of every run.
struct Contender {
  std::string name;  // as written
  std::string rule;
  std::vector<std::string> flags;
};

Contender parse_contender(const std::string& text) {
  const size_t colon = text.find(':');
  Contender contender{text, text.substr(0, colon), {}};
  if (contender.rule.empty())
    bad_input("--rules '{}': allowed: RULE or RULE:FLAG=VALUE,..., as lsgd:period=64", text);
  size_t at = colon == std::string::npos ? text.size() : colon + 1;
  while (at < text.size()) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string flag = text.substr(at, end - at);
    if (flag.find('=') == std::string::npos) {
      bad_input("--rules '{}': '{}' is not FLAG=VALUE, as in lsgd:period=64,lr=0.1", text, flag);
    }
    contender.flags.push_back("--" + flag);
    at = end + 1;
  }
  return contender;
}

struct Outcome {
  std::vector<double> share, bytes, error, loss, step;  // one per seed
  std::vector<nlohmann::json> runs;
};

// The seed's table: share of total time in communication, 4 workers.
const std::map<std::string, std::map<std::string, std::string>> kPublished = {
    {"cnn7", {{"lsgd", "1%"}, {"easgd", "2%"}, {"downpour", "20%"}}},
    {"resnet20", {{"lsgd", "1%"}, {"easgd", "2%"}, {"downpour", "21%"}}},
    {"vgg16", {{"lsgd", "2%"}, {"easgd", "3%"}, {"downpour", "34%"}}},
    {"resnet50", {{"lsgd", "1%"}, {"easgd", "2%"}, {"downpour", "17%"}}},
};

std::string published(const std::string& model, const std::string& rule) {
  const auto row = kPublished.find(model);
  if (row == kPublished.end()) return "-";
  const auto cell = row->second.find(rule);
  return cell == row->second.end() ? "-" : cell->second;
}

// Adds flags, in the place of those with the same name.
void lay_over(std::vector<std::string>& flags, const std::vector<std::string>& own) {
  const auto name = [](const std::string& flag) { return flag.substr(0, flag.find('=')); };
  std::erase_if(flags, [&](const std::string& flag) {
    return std::any_of(own.begin(), own.end(),
                       [&](const std::string& each) { return name(each) == name(flag); });
  });
  flags.insert(flags.end(), own.begin(), own.end());
}

// The flags of every run, with the contender's own in their place where both have one. Steps enough for two
// exchanges of the rules that are compared when none are given.
std::vector<std::string> command_line(const Command& command, const Contender& contender, uint64_t seed) {
  std::vector<std::string> flags = {"--model=" + command.model, "--cluster=" + command.cluster,
                                    "--optimizer=" + contender.rule, fmt::format("--seed={}", seed),
                                    "--steps=128"};
  lay_over(flags, command.train);
  lay_over(flags, contender.flags);
  std::vector<std::string> argv = {"/proc/self/exe", "train", "--json"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  return argv;
}

nlohmann::json run_one(const Command& command, const Contender& contender, uint64_t seed) {
  const std::string what = fmt::format("{} with seed {}", contender.name, seed);
  ProcessOptions options;
  options.argv = command_line(command, contender, seed);
  options.output = options.errors = ProcessOptions::Output::kCapture;
  Process process(options);
  const int code = process.wait(Deadline::never()).value();
  const std::string text = process.captured();  // the document, then what was logged
  if (code != 0) fail("{} {}: {}", what, describe_exit(code), text);
  const size_t end = text.rfind("\n}");
  try {
    return nlohmann::json::parse(text.substr(0, end == std::string::npos ? end : end + 2));
  } catch (const nlohmann::json::exception& e) {
    fail("{} printed no JSON document: {}", what, e.what());
  }
}

// Test error (or loss) against the seconds of training, mean and deviation over seeds. Seeds test at the same
// steps (but for the last test of a run that --seconds ends), so their k-th tests belong together.
report::LineSeries curve(const Contender& contender, const Outcome& outcome, const char* what) {
  report::LineSeries series{contender.name, {}, {}, {}};
  size_t tests = SIZE_MAX;
  for (const auto& run : outcome.runs) tests = std::min(tests, run["tests"].size());
  for (size_t k = 0; k < tests && tests != SIZE_MAX; ++k) {
    std::vector<double> wall, value;
    for (const auto& run : outcome.runs) {
      const auto& test = run["tests"][k];
      if (!test.contains(what)) return series;
      wall.push_back(test["wall_s"].get<double>());
      value.push_back(test[what].get<double>());
    }
    const auto m = simulator::mean_std(value);
    series.x.push_back(simulator::mean_std(wall).mean);
    series.mean.push_back(m.mean);
    series.std.push_back(m.std);
  }
  return series;
}

void write_pictures(const Command& command, const std::vector<Contender>& contenders,
                    const std::vector<Outcome>& outcomes) {
  for (const char* what : {"error", "loss"}) {
    report::LineChart chart{fmt::format("{} on {}", command.model, command.cluster),
                            "seconds of training",
                            fmt::format("test {}", what),
                            {},
                            {},
                            {},
                            {}};
    for (size_t i = 0; i < contenders.size(); ++i) {
      auto series = curve(contenders[i], outcomes[i], what);
      if (!series.x.empty()) chart.series.push_back(std::move(series));
    }
    if (chart.series.empty()) continue;
    const auto path = std::filesystem::path(command.out) / fmt::format("{}.svg", what);
    write_file_atomically(path, report::line_chart(chart));
  }
}

void collect(Outcome& outcome, nlohmann::json run) {
  outcome.share.push_back(100 * run["comm_share"].get<double>());
  outcome.bytes.push_back(run["bytes_sent_per_rank"].get<double>() / 1e6);
  outcome.step.push_back(1e3 * run["step_time_median_s"].get<double>());
  outcome.loss.push_back(run.contains("test_loss") ? number_of(run["test_loss"])
                                                   : number_of(run["last_loss"]));
  outcome.error.push_back(run.contains("test_error") ? 100 * number_of(run["test_error"]) : std::nan(""));
  outcome.runs.push_back(std::move(run));
}

std::string as_table(const Command& command, const std::vector<Contender>& contenders,
                     const std::vector<Outcome>& outcomes) {
  std::vector<TableRow> rows;
  for (size_t i = 0; i < contenders.size(); ++i) {
    const Outcome& o = outcomes[i];
    const auto cell = [](const std::vector<double>& values, int decimals) {
      return std::isnan(values.front()) ? "-" : shown(simulator::mean_std(values), decimals);
    };
    rows.push_back({contenders[i].name,
                    {cell(o.share, 2), published(command.model, contenders[i].rule), cell(o.bytes, 3),
                     cell(o.step, 1), cell(o.loss, 4), cell(o.error, 2)}});
  }
  return table(command.model + " on " + command.cluster,
               {"communication %", "published", "MB per step", "step ms", "loss", "test error %"}, rows);
}

nlohmann::json to_document(const Command& command, const std::vector<Contender>& contenders,
                           const std::vector<Outcome>& outcomes) {
  nlohmann::json document = {
      {"model", command.model}, {"cluster", command.cluster}, {"rules", nlohmann::json::array()}};
  for (size_t i = 0; i < contenders.size(); ++i) {
    document["rules"].push_back({{"name", contenders[i].name},
                                 {"published_comm_share", published(command.model, contenders[i].rule)},
                                 {"comm_share_percent", outcomes[i].share},
                                 {"megabytes_per_step", outcomes[i].bytes},
                                 {"loss", outcomes[i].loss},
                                 {"test_error_percent", to_json(outcomes[i].error)},
                                 {"runs", outcomes[i].runs}});
  }
  return document;
}

int run(const Command& command) {
  std::vector<Contender> contenders;
  for (const auto& text : command.rules) contenders.push_back(parse_contender(text));
  make_folders(command.out);
  const auto results =
      std::filesystem::path(command.out) / "optimizers.json";  // after each run: none is lost
  std::vector<Outcome> outcomes(contenders.size());
  const int jobs = command.seeds * static_cast<int>(contenders.size());
  auto progress = std::make_unique<Progress>("run", jobs);
  std::atomic<int> next = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;  // guards outcomes, progress and error
  std::exception_ptr error;
  int done = 0;
  // Rules take turns within a seed, so that a drift of the machine's speed affects all equally.
  const auto work = [&] {
    for (int job = next++; job < jobs && !failed; job = next++) {
      const size_t which = static_cast<size_t>(job) % contenders.size();
      try {
        auto run = run_one(command, contenders[which],
                           command.seed + static_cast<uint64_t>(job) / contenders.size());
        const std::lock_guard lock(mutex);
        collect(outcomes[which], std::move(run));
        write_file_atomically(results, to_document(command, contenders, outcomes).dump(2) + "\n");
        progress->update(++done, contenders[which].name);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < command.at_once; ++i) threads.emplace_back(work);
  for (auto& thread : threads) thread.join();
  progress.reset();  // ends its line
  const bool some =
      std::all_of(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return !o.runs.empty(); });
  if (error && !some) std::rethrow_exception(error);
  const auto document = to_document(command, contenders, outcomes);
  write_pictures(command, contenders, outcomes);
  if (command.json) {
    fmt::print("{}\n", document.dump(2));
  } else {
    fmt::print("{}\nmean ± std over {} seeds; communication: share of all workers' time\nwritten to {}\n",
               as_table(command, contenders, outcomes), command.seeds, results.string());
  }
  if (error) std::rethrow_exception(error);  // what was finished is not lost
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto* bench = app.add_subcommand("bench", "Compare on one job");
  bench->require_subcommand(1);
  auto* verb =
      bench->add_subcommand("optimizers", "Communication share and errors of distributed optimizers");
  auto c = std::make_shared<Command>();
  add_model_option(*verb, c->model, Models::kZoo);
  verb->add_option("--cluster", c->cluster, "local:4, lab:4x1gbit, ...")->capture_default_str();
  verb->add_option("--rules", c->rules,
                   "RULE or RULE:FLAG=VALUE,...: flags of `entrain train` for this rule only")
      ->capture_default_str();
  verb->add_option("--seeds", c->seeds, "Mean and deviation are over this many")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--seed", c->seed, "The first seed")->capture_default_str();
  verb->add_option("--at-once", c->at_once, "Runs side by side; timings then disturb each other")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--out", c->out, "Folder for the JSON document and the pictures")->capture_default_str();
  verb->add_option("--train", c->train,
                   "Flags of `entrain train` for every run, as --train=--steps=100 [--steps=128]");
  add_json_option(*verb, c->json);
  verb->footer(
      "Time: RULES x SEEDS runs of `entrain train`; the example takes about 6 minutes on 2 cores.\n"
      "Example:\n"
      "  entrain bench optimizers --model cnn7 --cluster lab:4x1gbit --rules lsgd:period=64 easgd:period=64 "
      "\\\n"
      "    downpour:period=1 --train=--steps=128 --train=--batch-size=16");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app::bench_verb
