// What a saved ranker was trained on: it can be asked only with the same features in the same order.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace entrain::simulator {

struct Schema {
  std::string kind;  // "strategy", "part"
  int version = 1;   // raised when a feature keeps its name and changes its meaning
  std::vector<std::string> features;
  friend bool operator==(const Schema&, const Schema&) = default;
};

nlohmann::json to_json(const Schema& schema);

// Throws InputError, one line saying what differs, unless the file's schema is `wanted`.
void require_schema(const nlohmann::json& header, const Schema& wanted, const std::filesystem::path& path);

// The header of a ranker file: its first line. Throws InputError unless it is one of entrain's.
nlohmann::json read_header(const std::string& content, const std::filesystem::path& path);
nlohmann::json make_header(const std::string& ranker, const Schema& schema);

}  // namespace entrain::simulator
