#include "entrain/strategy/compression.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "entrain/base/error.h"

namespace entrain::strategy {
namespace {

constexpr std::pair<Compressor, std::string_view> kNames[] = {
    {Compressor::kNone, "none"}, {Compressor::kHorovod, "fp16"},      {Compressor::kHorovodEF, "fp16-ef"},
    {Compressor::kBf16, "bf16"}, {Compressor::kPowerSgd, "powersgd"}, {Compressor::kTopK, "topk"},
};
constexpr std::string_view kAllowed = "none, fp16, fp16-ef, bf16, powersgd[:RANK], topk[:SHARE]";

template <typename Number>
Number parse_number(const std::string& text, std::string_view digits) {
  Number number{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    bad_input("compressor '{}': '{}' is not a number; allowed: {}", text, digits, kAllowed);
  }
  return number;
}

void set(ParameterServer& server, const Compression& compression) {
  if (compression.compressor == Compressor::kNone || is_cast(compression.compressor)) {
    server.compressor = compression.compressor;
  }
}

void set(AllReduce& all_reduce, const Compression& compression) {
  all_reduce.compressor = compression.compressor;
  all_reduce.rank = compression.rank;
  all_reduce.share = compression.share;
}

void set(AllGather&, const Compression&) {}  // sparse

}  // namespace

std::string_view name_of(Compressor compressor) {
  for (const auto& [value, name] : kNames) {
    if (value == compressor) return name;
  }
  fail("compressor {} has no name", static_cast<int>(compressor));
}

bool is_cast(Compressor compressor) {
  return compressor == Compressor::kHorovod || compressor == Compressor::kHorovodEF ||
         compressor == Compressor::kBf16;
}

bool has_error_feedback(Compressor compressor) {
  return compressor == Compressor::kHorovodEF || compressor == Compressor::kPowerSgd ||
         compressor == Compressor::kTopK;
}

bool is_compressor(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](const auto& pair) { return pair.second == name; });
}

Compression parse_compression(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string_view name = std::string_view(text).substr(0, colon);
  const auto found = std::find_if(std::begin(kNames), std::end(kNames),
                                  [&](const auto& pair) { return pair.second == name; });
  if (found == std::end(kNames)) bad_input("compressor is '{}'; allowed: {}", text, kAllowed);
  Compression compression;
  compression.compressor = found->first;
  if (colon == std::string::npos) return compression;
  const std::string_view setting = std::string_view(text).substr(colon + 1);
  if (found->first == Compressor::kPowerSgd) {
    compression.rank = parse_number<int>(text, setting);
    if (compression.rank < 1)
      bad_input("compressor '{}': rank {}; allowed: 1 or more", text, compression.rank);
  } else if (found->first == Compressor::kTopK) {
    compression.share = parse_number<double>(text, setting);
    if (!(compression.share > 0 && compression.share <= 1)) {
      bad_input("compressor '{}': share {}; allowed: above 0, at most 1", text, compression.share);
    }
  } else {
    bad_input("compressor '{}': {} has no setting; allowed: {}", text, name, kAllowed);
  }
  return compression;
}

Compression compression_of(const AllReduce& all_reduce) {
  return {all_reduce.compressor, all_reduce.rank, all_reduce.share};
}

void set_compression(Synchronizer& synchronizer, const Compression& compression) {
  std::visit([&](auto& s) { set(s, compression); }, synchronizer);
}

Strategy compressed(Strategy strategy, const graph::Graph& graph, const Compression& compression) {
  std::unordered_map<std::string_view, const graph::Variable*> variables;
  for (const auto& v : graph.variables) variables[v.name] = &v;
  for (VariableConfig& config : strategy.variables) {
    const auto found = variables.find(config.name);
    if (found == variables.end() || found->second->sparse || found->second->dtype != "float32") continue;
    for (Part& part : config.parts) set_compression(part.synchronizer, compression);
  }
  return strategy;
}

int64_t low_rank_elements(int64_t n, int64_t m, int rank) {
  return std::min(n * m, std::min<int64_t>({rank, n, m}) * (n + m));
}

}  // namespace entrain::strategy
