// entrain pipeline partition: costs into cells, by any of the partitioners.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/pipeline/plan/partition.h"
#include "pipelines/pipeline_verb.h"
#include "usage.h"

namespace entrain::app::pipeline_partition {
namespace {

struct Command {
  std::string costs;
  int cells = 1;
  std::string by = "min-max";
  std::vector<double> speeds;
  bool json = false;
};

// "1,2,3", or a file with such numbers, on one line or several.
std::vector<double> parse_costs(const std::string& text) {
  std::string list = std::filesystem::is_regular_file(text) ? read_file(text) : text;
  std::replace(list.begin(), list.end(), ',', ' ');
  std::istringstream words(list);
  std::vector<double> costs;
  for (std::string word; words >> word;) {
    size_t used = 0;
    try {
      costs.push_back(std::stod(word, &used));
    } catch (const std::exception&) {
      used = 0;
    }
    if (used != word.size())
      bad_input("--costs: '{}' is not a number; allowed: 1,2,3, or a file of numbers", word);
  }
  return costs;
}

int run(const Command& command) {
  const std::vector<double> costs = parse_costs(command.costs);
  if (!command.speeds.empty() && command.by != "min-max") bad_input("--speeds: only --by min-max knows them");
  if (!command.speeds.empty() && command.speeds.size() != static_cast<size_t>(command.cells)) {
    bad_input("--speeds {}: wanted are {}, one per cell", fmt::join(command.speeds, ","), command.cells);
  }
  pipeline::check_costs(costs, command.cells);
  std::vector<int> balance;
  if (command.by == "min-max") {
    pipeline::MinMaxOptions options;
    options.speed = command.speeds;
    balance = pipeline::min_max(costs, command.cells, options).balance;
  } else {
    balance = command.by == "block" ? pipeline::block_partition(costs, command.cells)
                                    : pipeline::min_variance(costs, command.cells);
  }
  std::vector<double> times = pipeline::cell_costs(costs, balance);
  for (size_t c = 0; c < command.speeds.size(); ++c) times[c] /= command.speeds[c];
  const double most = *std::max_element(times.begin(), times.end());
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  const double imbalance = most > 0 ? 1 - mean / most : 0;
  if (command.json) {
    fmt::print(
        "{}\n",
        nlohmann::json{{"balance", balance}, {"cell_costs", times}, {"max", most}, {"imbalance", imbalance}}
            .dump(2));
  } else {
    fmt::print("balance {}: cells of {}; the largest {}, imbalance {:.1f}%\n", fmt::join(balance, ","),
               fmt::join(times, ", "), most, 100 * imbalance);
  }
  return 0;
}

}  // namespace

void add_pipeline_partition(CLI::App& parent, Action& action) {
  auto* verb = parent.add_subcommand("partition", "Cut a list of costs into cells");
  auto c = std::make_shared<Command>();
  verb->add_option("--costs", c->costs, "1,2,3, or a file of numbers")->required();
  verb->add_option("--cells", c->cells, "Cells (K)")->required()->check(positive());
  verb->add_option("--by", c->by, "min-max, min-variance, block")
      ->check(CLI::IsMember({"min-max", "min-variance", "block"}))
      ->capture_default_str();
  verb->add_option("--speeds", c->speeds, "Of the cells' devices, for min-max")
      ->delimiter(',')
      ->check(positive());
  add_json_option(*verb, c->json);
  verb->footer("Example:\n  entrain pipeline partition --costs 4,1,1,1,3,2 --cells 3");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app::pipeline_partition
