// entrain dataset: records of strategies and their run-times. `collect` is in collect_verb.cc.
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "collect_verb.h"
#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/units.h"
#include "entrain/dataset/autodist.h"
#include "entrain/dataset/csv.h"
#include "entrain/dataset/split.h"
#include "entrain/dataset/stats.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::dataset_verb {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Paths = std::vector<fs::path>;

void print_json(const Json& json) { fmt::print("{}\n", json.dump(2)); }

void require(const Paths& paths) {
  if (paths.empty()) bad_input("no data set given; allowed: files (.jsonl, .jsonl.gz) or folders of them");
}

// ---- stats

Json to_json(const dataset::Noise& noise) {
  return {{"trials", noise.trials},
          {"within_trial", noise.within},
          {"repeated_strategies", noise.repeated},
          {"between_repeats", noise.between},
          {"between_repeats_std", noise.between_std}};
}

Json to_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json to_json(const dataset::Stats& stats) {
  Json domains = Json::array();
  for (const auto& d : stats.domains) {
    domains.push_back({{"domain", d.name},
                       {"model", d.model},
                       {"cluster", d.cluster},
                       {"hosts", d.hosts},
                       {"workers", d.workers},
                       {"variables", d.variables},
                       {"records", d.records},
                       {"strategies", d.strategies},
                       {"statuses", d.statuses},
                       {"origins", d.origins},
                       {"step_time_min_s", to_json(d.least_s)},
                       {"step_time_median_s", to_json(d.median_s)},
                       {"step_time_max_s", to_json(d.largest_s)},
                       {"noise", to_json(d.noise)}});
  }
  return {{"records", stats.records},          {"models", stats.models.size()},
          {"clusters", stats.clusters.size()}, {"model_names", stats.models},
          {"cluster_names", stats.clusters},   {"statuses", stats.statuses},
          {"noise", to_json(stats.noise)},     {"domains", domains}};
}

std::string percent(size_t count, double share) {
  return count == 0 ? "-" : fmt::format("{:.1f}%", 100 * share);
}

std::string seconds(const std::optional<double>& value) { return value ? format_seconds(*value) : "-"; }

void print_table(const dataset::Stats& stats) {
  fmt::print("{} records of {} models on {} clusters", stats.records, stats.models.size(),
             stats.clusters.size());
  for (const auto& [status, count] : stats.statuses) fmt::print(", {} {}", count, status);
  fmt::print("\n");
  size_t width = 6;
  for (const auto& d : stats.domains) width = std::max(width, d.name.size());
  fmt::print("{:<{}} {:>7} {:>6} {:>9} {:>9} {:>9} {:>8} {:>8}\n", "domain", width, "records", "ok", "min",
             "median", "max", "within", "repeats");
  for (const auto& d : stats.domains) {
    const auto ok = d.statuses.find("ok");
    fmt::print("{:<{}} {:>7} {:>6} {:>9} {:>9} {:>9} {:>8} {:>8}\n", d.name, width, d.records,
               ok == d.statuses.end() ? 0 : ok->second, seconds(d.least_s), seconds(d.median_s),
               seconds(d.largest_s), percent(d.noise.trials, d.noise.within),
               percent(d.noise.repeated, d.noise.between));
  }
  fmt::print(
      "noise: within a trial p10 to p90 spans {} of its step time ({} trials); repeats of a strategy span {} "
      "of "
      "their mean ({} strategies); medians over them\n",
      percent(stats.noise.trials, stats.noise.within), stats.noise.trials,
      percent(stats.noise.repeated, stats.noise.between), stats.noise.repeated);
}

void add_stats(CLI::App& dataset, Action& action) {
  auto* verb = dataset.add_subcommand("stats", "Count records and show how noisy they are");
  auto paths = std::make_shared<Paths>();
  auto json = std::make_shared<bool>(false);
  verb->add_option("data", *paths, "Files (.jsonl, .jsonl.gz) or folders of them");
  add_json_option(*verb, *json);
  verb->callback([=, &action] {
    action = [=] {
      require(*paths);
      const dataset::Stats stats = dataset::stats(dataset::load(*paths));
      *json ? print_json(to_json(stats)) : print_table(stats);
      return 0;
    };
  });
}

// ---- split

struct Split {
  Paths paths;
  dataset::SplitOptions options;
  fs::path out;
  bool json = false;
};

int run(const Split& command) {
  require(command.paths);
  const dataset::Parts parts = dataset::split(dataset::load(command.paths), command.options);
  make_folders(command.out);
  Json result;
  for (const auto& [name, part] :
       {std::pair{"training", &parts.training}, {"validation", &parts.validation}, {"test", &parts.test}}) {
    const fs::path file = command.out / (std::string(name) + ".jsonl.gz");
    dataset::save(*part, file);
    result[name] = {{"records", part->records()}, {"domains", part->domains.size()}, {"file", file.string()}};
    if (!command.json) {
      fmt::print("written to {:<40} {:>7} records of {} domains\n", file.string(), part->records(),
                 part->domains.size());
    }
  }
  if (command.json) print_json(result);
  return 0;
}

void add_split(CLI::App& dataset, Action& action) {
  auto* verb = dataset.add_subcommand("split", "Cut into training, validation and test files");
  auto c = std::make_shared<Split>();
  verb->add_option("data", c->paths, "Files (.jsonl, .jsonl.gz) or folders of them");
  verb->add_option("--out", c->out, "Folder for training, validation and test.jsonl.gz")->required();
  verb->add_option("--seed", c->options.seed, "Same seed, same parts")->capture_default_str();
  verb->add_option("--training", c->options.training, "Share for training")->capture_default_str();
  verb->add_option("--validation", c->options.validation, "Share for validation; the rest is for testing")
      ->capture_default_str();
  verb->add_option("--hold-out-model", c->options.hold_out_models,
                   "Test on this model only; may be repeated");
  verb->add_option("--hold-out-cluster", c->options.hold_out_clusters,
                   "Test on this cluster only; may be repeated");
  verb->add_option("--hold-out-domain", c->options.hold_out_domains,
                   "Test on this domain only; may be repeated");
  add_json_option(*verb, c->json);
  verb->footer("Trials that repeat a strategy stay in one part.");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

// ---- import, export

struct Conversion {
  Paths paths;
  fs::path autodist, out;
  dataset::ImportOptions options;
  bool json = false;
};

void report(const Conversion& command, const dataset::Dataset& data, const fs::path& where) {
  if (command.json) {
    print_json({{"records", data.records()}, {"domains", data.domains.size()}, {"out", where.string()}});
  } else {
    fmt::print("written to {}: {} records of {} domains\n", where.string(), data.records(),
               data.domains.size());
  }
}

void write(const dataset::Dataset& data, const fs::path& out) {
  const std::string name = out.filename().string();
  if (name.ends_with(".csv")) {
    write_file_atomically(out, dataset::to_csv(data));
  } else if (name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")) {
    dataset::save(data, out);
  } else {
    bad_input("--out is {}, allowed: a name that ends in .jsonl, .jsonl.gz or .csv", out.string());
  }
}

int run_import(const Conversion& command) {
  dataset::Dataset data = dataset::import_autodist(command.autodist, command.options);
  if (!command.paths.empty()) {
    for (const auto& domain : dataset::load(command.paths).domains) {
      if (data.find(domain.name) != nullptr)
        bad_input("domain {} is in both; import into another file", domain.name);
      data.domains.push_back(domain);
    }
  }
  write(data, command.out);
  report(command, data, command.out);
  return 0;
}

int run_export(const Conversion& command) {
  require(command.paths);
  if (command.autodist.empty() == command.out.empty()) {
    bad_input("give either --out FILE (.jsonl, .jsonl.gz, .csv) or --autodist FOLDER");
  }
  const dataset::Dataset data = dataset::load(command.paths);
  if (command.out.empty()) {
    dataset::export_autodist(data, command.autodist);
    report(command, data, command.autodist);
  } else {
    write(data, command.out);
    report(command, data, command.out);
  }
  return 0;
}

void add_import(CLI::App& dataset, Action& action) {
  auto* verb = dataset.add_subcommand("import", "Read AutoDist's published layout");
  auto c = std::make_shared<Conversion>();
  verb->add_option("--autodist", c->autodist,
                   "Folder: MODEL/graph_item, MODEL/CLUSTER/{resource_spec,runtime,strategies}")
      ->required();
  verb->add_option("data", c->paths, "Further data sets to put into the same file");
  verb->add_option("--out", c->out, "File to write (.jsonl, .jsonl.gz)")->required();
  verb->add_option("--batch-size", c->options.batch_size, "Examples per device; not in the files")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--sequence", c->options.sequence, "Rows of a sparse variable that an example touches")
      ->check(positive())
      ->capture_default_str();
  add_json_option(*verb, c->json);
  verb->callback([c, &action] { action = [c] { return run_import(*c); }; });
}

void add_export(CLI::App& dataset, Action& action) {
  auto* verb = dataset.add_subcommand("export", "Join files into one, or write a table or AutoDist's layout");
  auto c = std::make_shared<Conversion>();
  verb->add_option("data", c->paths, "Files (.jsonl, .jsonl.gz) or folders of them");
  verb->add_option("--out", c->out, "File to write: .jsonl, .jsonl.gz, or .csv (domain, trial, id, seconds)");
  verb->add_option("--autodist", c->autodist, "New folder for AutoDist's layout");
  add_json_option(*verb, c->json);
  verb->footer("Example:\n  entrain dataset export trials/*.jsonl --out data.jsonl.gz");
  verb->callback([c, &action] { action = [c] { return run_export(*c); }; });
}

}  // namespace

void add_dataset(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("dataset",
                                  "(model, cluster, strategy, run-times) records: collect, inspect, convert");
  verb->require_subcommand(1);
  collect_verb::add_dataset_collect(*verb, action);
  add_stats(*verb, action);
  add_split(*verb, action);
  add_import(*verb, action);
  add_export(*verb, action);
}

}  // namespace entrain::app::dataset_verb
