#include "entrain/dataset/csv.h"

#include <fmt/format.h>

#include "entrain/dataset/record.h"

namespace entrain::dataset {
namespace {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string to_csv(const Dataset& dataset) {
  std::string text = "domain,trial,id,origin,status,seconds\n";
  for (const Domain& domain : dataset.domains) {
    for (const Trial& trial : domain.trials) {
      const std::string seconds = trial.ok() ? fmt::format("{}", trial.step_s()) : "";
      text +=
          fmt::format("{},{},{},{},{},{}\n", csv_field(domain.name), trial.number,
                      csv_field(trial.strategy.id), csv_field(trial.origin), name_of(trial.status), seconds);
    }
  }
  return text;
}

}  // namespace entrain::dataset
