#include "entrain/simulator/schema.h"

#include <nlohmann/json.hpp>

#include "entrain/base/error.h"

namespace entrain::simulator {
namespace {

constexpr const char* kFormat = "entrain-ranker";

// The first feature that one side has and the other lacks or has elsewhere.
std::string difference(const Schema& found, const Schema& wanted) {
  if (found.kind != wanted.kind)
    return fmt::format("features of a {}, wanted of a {}", found.kind, wanted.kind);
  if (found.version != wanted.version) {
    return fmt::format("feature version {}, wanted {}", found.version, wanted.version);
  }
  for (size_t i = 0; i < std::max(found.features.size(), wanted.features.size()); ++i) {
    const std::string a = i < found.features.size() ? found.features[i] : "nothing";
    const std::string b = i < wanted.features.size() ? wanted.features[i] : "nothing";
    if (a != b) return fmt::format("feature {} is {}, wanted {}", i, a, b);
  }
  return "";
}

}  // namespace

nlohmann::json to_json(const Schema& schema) {
  return {{"kind", schema.kind}, {"version", schema.version}, {"features", schema.features}};
}

nlohmann::json make_header(const std::string& ranker, const Schema& schema) {
  return {{"format", kFormat}, {"ranker", ranker}, {"schema", to_json(schema)}};
}

void require_schema(const nlohmann::json& header, const Schema& wanted, const std::filesystem::path& path) {
  Schema found;
  try {
    const auto& stored = header.at("schema");
    found = {stored.at("kind").get<std::string>(), stored.at("version").get<int>(),
             stored.at("features").get<std::vector<std::string>>()};
  } catch (const nlohmann::json::exception& e) {
    bad_input("{}: ranker has no feature schema ({})", path.string(), e.what());
  }
  const std::string differs = difference(found, wanted);
  if (!differs.empty()) {
    bad_input("{}: ranker was trained on other features: {}; train it again with `entrain simulator train`",
              path.string(), differs);
  }
}

nlohmann::json read_header(const std::string& content, const std::filesystem::path& path) {
  auto header = nlohmann::json::parse(content.substr(0, content.find('\n')), nullptr, false);
  if (!header.is_object() || header.value("format", "") != kFormat || !header.contains("ranker") ||
      !header["ranker"].is_string()) {
    bad_input("{}: not a ranker file (its first line is not an {} header)", path.string(), kFormat);
  }
  return header;
}

}  // namespace entrain::simulator
