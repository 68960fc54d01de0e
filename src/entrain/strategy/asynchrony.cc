#include "entrain/strategy/asynchrony.h"

#include "entrain/base/error.h"
#include "entrain/strategy/compression.h"

namespace entrain::strategy {
namespace {

std::optional<int64_t> staleness_of(const Synchronizer& synchronizer, const std::string& variable) {
  const auto* ps = std::get_if<ParameterServer>(&synchronizer);
  if (!ps || (ps->sync && ps->staleness == 0)) return std::nullopt;
  if (ps->staleness < 0) {
    bad_input("variable {}: staleness is {}, allowed: 0 or more", variable, ps->staleness);
  }
  if (!ps->sync && ps->staleness > 0) {
    bad_input(
        "variable {}: sync is false and staleness {}, allowed: sync true with a staleness (a bound), or sync "
        "false with staleness 0 (none)",
        variable, ps->staleness);
  }
  if (ps->compressor != Compressor::kNone) {
    bad_input("variable {}: compressor is {} and its PSSynchronizer asynchronous, allowed: none", variable,
              name_of(ps->compressor));
  }
  return ps->sync ? ps->staleness : -1;
}

std::string describe(const std::optional<int64_t>& staleness) {
  if (!staleness) return "synchronous";
  return *staleness < 0 ? "asynchronous (sync false or absent)" : fmt::format("{} steps stale", *staleness);
}

}  // namespace

std::optional<int64_t> staleness_of(const Strategy& strategy) {
  std::optional<int64_t> staleness;
  const std::string* first = nullptr;
  for (const VariableConfig& config : strategy.variables) {
    for (const Part& part : config.parts) {
      const auto own = staleness_of(part.synchronizer, config.name);
      if (first && own != staleness) {
        bad_input(
            "variable {} is {} and variable {} {}; allowed: PSSynchronizers with the same sync and staleness "
            "for all variables, or sync true and staleness 0 for all that have one",
            *first, describe(staleness), config.name, describe(own));
      }
      staleness = own;
      first = &config.name;
    }
  }
  return staleness;
}

}  // namespace entrain::strategy
