// What the reports of experiments share: means over seeds, tables, names of files.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "entrain/dataset/dataset.h"
#include "entrain/simulator/ranking.h"

namespace entrain::app {

// Values by seed of several things (domains, pairs of domains) that are summed up together.
class SeedMeans {
 public:
  void add(const std::vector<double>& by_seed);  // nan: not known
  bool empty() const;
  // Of the means over the things, one per seed. nan when nothing is known.
  simulator::MeanStd summary() const;

 private:
  std::vector<std::vector<double>> seeds_;
};

std::string shown(const simulator::MeanStd& value, int decimals = 3);  // "0.912 ± 0.004", or "-"
nlohmann::ordered_json to_json(const simulator::MeanStd& value);
nlohmann::ordered_json to_json(const std::vector<double>& values);  // nan becomes null

struct TableRow {
  std::string name;
  std::vector<std::string> cells;
};
// The first column as wide as its longest name, the others right-justified.
std::string table(const std::string& corner, const std::vector<std::string>& columns,
                  const std::vector<TableRow>& rows);

// Letters, digits and single dashes only.
std::string file_name(const std::string& text);

// Without repeats, in the order of their first.
std::vector<std::string> distinct(const std::vector<std::string>& names);

// What domains are grouped by.
using GroupOf = const std::string& (*)(const dataset::Domain&);
const std::string& model_of(const dataset::Domain& domain);
const std::string& cluster_of(const dataset::Domain& domain);
std::vector<std::string> groups(const dataset::Dataset& data, GroupOf group_of);
// Domain's name -> its group.
std::map<std::string, std::string> group_by_domain(const dataset::Dataset& data, GroupOf group_of);

}  // namespace entrain::app
