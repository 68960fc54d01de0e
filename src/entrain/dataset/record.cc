#include "entrain/dataset/record.h"

#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/base/json_depth.h"
#include "entrain/base/limits.h"
#include "entrain/strategy/stored.h"
#include "entrain/strategy/strategy.pb.h"

namespace entrain::dataset {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<Status, std::string_view> kStatuses[] = {
    {Status::kOk, "ok"}, {Status::kFailed, "failed"}, {Status::kDeadline, "deadline"}};

// protobuf's mapping without white space and defaults; a part's name ("w/part_0") says nothing that its
// place does not. 100 parts take about 7 KB.
std::string compact(const strategy::Strategy& strategy) {
  strategy::pb::Strategy stored;
  if (!stored.ParseFromString(strategy::to_binary(strategy))) fail("strategy {}: not stored", strategy.id);
  for (auto& node : *stored.mutable_node_config()) {
    for (auto& part : *node.mutable_part_config()) part.clear_var_name();
  }
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(stored, &text, options);
  if (!status.ok())
    fail("strategy {}: cannot be written as JSON: {}", strategy.id, std::string(status.message()));
  return text;
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// ---- reading

template <typename T>
T get(const Json& json, const char* field, const char* allowed) {
  const auto at = json.find(field);
  if (at == json.end()) bad_input("field \"{}\" is missing, allowed: {}", field, allowed);
  try {
    return at->get<T>();
  } catch (const Json::exception&) {
    bad_input("field \"{}\" is {}, allowed: {}", field, dump(*at).substr(0, 60), allowed);
  }
}

template <typename T>
T get_or(const Json& json, const char* field, T otherwise, const char* allowed) {
  return json.contains(field) ? get<T>(json, field, allowed) : otherwise;
}

const Json& object(const Json& json, const char* field) {
  const auto at = json.find(field);
  if (at == json.end() || !at->is_object()) bad_input("field \"{}\" is missing or no object", field);
  return *at;
}

// nlohmann would cut a number that is too large, or not whole, to the type.
template <typename T>
T whole_number(const Json& json, const char* field, T low, const char* allowed) {
  const Json& value = json.at(field);
  const auto high = static_cast<uint64_t>(std::numeric_limits<T>::max());
  const bool fits = value.is_number_unsigned() && value.get<uint64_t>() <= high &&
                    value.get<uint64_t>() >= static_cast<uint64_t>(low);
  if (!fits) bad_input("field \"{}\" is {}, allowed: {}", field, dump(value).substr(0, 60), allowed);
  return value.get<T>();
}

template <typename T>
T whole_number_or(const Json& json, const char* field, T otherwise, T low, const char* allowed) {
  return json.contains(field) ? whole_number<T>(json, field, low, allowed) : otherwise;
}

Status read_status(const Json& json) {
  const auto text = get_or<std::string>(json, "status", "ok", "ok, failed, deadline");
  for (const auto& [status, name] : kStatuses) {
    if (name == text) return status;
  }
  bad_input("field \"status\" is \"{}\", allowed: ok, failed, deadline", text);
}

Domain read_domain(const Json& json) {
  Domain domain;
  domain.name = get<std::string>(json, "domain", "a name");
  if (domain.name.empty()) bad_input("field \"domain\" is empty, allowed: a name");
  domain.graph = graph::graph_from_json(dump(object(json, "graph")));
  domain.cluster =
      cluster::cluster_from_yaml(get<std::string>(json, "cluster", "cluster.yml as text"), "cluster");
  const Json settings = json.contains("settings") ? object(json, "settings") : Json::object();
  domain.settings.batch_size = whole_number_or<int64_t>(settings, "batch_size", 0, 0, "0 or more");
  domain.settings.compute = get_or<std::string>(settings, "compute", "real", "real, replay");
  domain.settings.machine = get_or<std::string>(settings, "machine", "", "text");
  domain.settings.seed = whole_number_or<uint64_t>(settings, "seed", 0, 0, "0 or more");
  domain.settings.least_segment_bytes =
      whole_number_or<int64_t>(settings, "least_segment_bytes", 512 << 10, 1, "a number of bytes");
  return domain;
}

TrialLine read_trial(const Json& json) {
  TrialLine line;
  line.domain = get<std::string>(json, "of", "a domain's name");
  Trial& trial = line.trial;
  trial.number = whole_number<int>(json, "trial", 0, "0, 1, ...");
  trial.strategy = strategy::from_json(dump(object(json, "strategy")));
  trial.seconds = get_or<std::vector<double>>(json, "seconds", {}, "a list of seconds");
  for (const double s : trial.seconds) {
    if (!(s > 0) || !std::isfinite(s)) bad_input("field \"seconds\" has {}, allowed: above 0", s);
  }
  trial.status = read_status(json);
  trial.origin = get_or<std::string>(json, "origin", "", "text");
  trial.error = get_or<std::string>(json, "error", "", "text");
  return line;
}

}  // namespace

std::string_view name_of(Status status) {
  for (const auto& [value, name] : kStatuses) {
    if (value == status) return name;
  }
  fail("status {} has no name", static_cast<int>(status));
}

std::string line_of(const Domain& domain) {
  Json json;
  json["domain"] = domain.name;
  json["graph"] = Json::parse(graph::to_json(domain.graph));
  json["cluster"] = cluster::to_yaml(domain.cluster);
  json["settings"] = {{"batch_size", domain.settings.batch_size},
                      {"compute", domain.settings.compute},
                      {"machine", domain.settings.machine},
                      {"seed", domain.settings.seed},
                      {"least_segment_bytes", domain.settings.least_segment_bytes}};
  return dump(json);
}

// The strategy's text is put in as it is: it is nine tenths of the line.
std::string line_of(const std::string& domain, const Trial& trial) {
  Json head;
  head["trial"] = trial.number;
  head["of"] = domain;
  head["status"] = name_of(trial.status);
  head["seconds"] = trial.seconds;
  if (!trial.origin.empty()) head["origin"] = trial.origin;
  if (!trial.error.empty()) head["error"] = trial.error;
  std::string line = dump(head);
  line.pop_back();
  return line + ",\"strategy\":" + compact(trial.strategy) + "}";
}

Record parse_line(std::string_view line) {
  if (line.size() > kMaxDocument) bad_input("{} bytes, allowed: up to {}", line.size(), kMaxDocument);
  check_json_depth(line);
  Json json;
  try {
    json = Json::parse(line);
  } catch (const Json::exception& error) {
    bad_input("not JSON: {}", error.what());
  }
  if (!json.is_object()) bad_input("not a JSON object");
  if (json.contains("domain")) return read_domain(json);
  if (json.contains("trial")) return read_trial(json);
  bad_input("neither a domain nor a trial: field \"domain\" or \"trial\" is missing");
}

bool is_whole(std::string_view line) { return Json::accept(line); }  // goes down no calls

}  // namespace entrain::dataset
