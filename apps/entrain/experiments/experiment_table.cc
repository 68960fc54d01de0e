#include "experiments/experiment_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace entrain::app {
namespace {

// In characters: "±" is one.
size_t length(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string padding(size_t width, const std::string& text) {
  return std::string(width - std::min(width, length(text)), ' ');
}

}  // namespace

void SeedMeans::add(const std::vector<double>& by_seed) {
  seeds_.resize(std::max(seeds_.size(), by_seed.size()));
  for (size_t s = 0; s < by_seed.size(); ++s) {
    if (std::isfinite(by_seed[s])) seeds_[s].push_back(by_seed[s]);
  }
}

bool SeedMeans::empty() const {
  return std::all_of(seeds_.begin(), seeds_.end(), [](const auto& values) { return values.empty(); });
}

simulator::MeanStd SeedMeans::summary() const {
  std::vector<double> means;
  for (const auto& values : seeds_) {
    if (!values.empty()) means.push_back(simulator::mean_std(values).mean);
  }
  return means.empty() ? simulator::MeanStd{NAN, NAN} : simulator::mean_std(means);
}

std::string shown(const simulator::MeanStd& value, int decimals) {
  if (!std::isfinite(value.mean)) return "-";
  return fmt::format("{:.{}f} ± {:.{}f}", value.mean, decimals, value.std, decimals);
}

nlohmann::ordered_json to_json(const simulator::MeanStd& value) {
  // nlohmann writes nan as null.
  return {{"mean", value.mean}, {"std", value.std}};
}

nlohmann::ordered_json to_json(const std::vector<double>& values) { return values; }

std::string table(const std::string& corner, const std::vector<std::string>& columns,
                  const std::vector<TableRow>& rows) {
  size_t first = length(corner);
  std::vector<size_t> widths;
  for (const auto& column : columns) widths.push_back(length(column));
  for (const TableRow& row : rows) {
    first = std::max(first, length(row.name));
    for (size_t c = 0; c < row.cells.size(); ++c) widths[c] = std::max(widths[c], length(row.cells[c]));
  }
  std::string text = corner + padding(first, corner);
  for (size_t c = 0; c < columns.size(); ++c) text += "  " + padding(widths[c], columns[c]) + columns[c];
  text += '\n';
  for (const TableRow& row : rows) {
    text += row.name + padding(first, row.name);
    for (size_t c = 0; c < row.cells.size(); ++c)
      text += "  " + padding(widths[c], row.cells[c]) + row.cells[c];
    text += '\n';
  }
  return text;
}

std::string file_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name;
}

std::vector<std::string> distinct(const std::vector<std::string>& names) {
  std::vector<std::string> result;
  for (const auto& name : names) {
    if (std::find(result.begin(), result.end(), name) == result.end()) result.push_back(name);
  }
  return result;
}

const std::string& model_of(const dataset::Domain& domain) { return domain.graph.model; }
const std::string& cluster_of(const dataset::Domain& domain) { return domain.cluster.name; }

std::vector<std::string> groups(const dataset::Dataset& data, GroupOf group_of) {
  std::vector<std::string> all;
  for (const auto& domain : data.domains) all.push_back(group_of(domain));
  return distinct(all);
}

std::map<std::string, std::string> group_by_domain(const dataset::Dataset& data, GroupOf group_of) {
  std::map<std::string, std::string> result;
  for (const auto& domain : data.domains) result[domain.name] = group_of(domain);
  return result;
}

}  // namespace entrain::app
