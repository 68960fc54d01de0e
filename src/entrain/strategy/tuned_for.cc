#include "entrain/strategy/tuned_for.h"

#include <google/protobuf/util/json_util.h>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/strategy/stored.h"
#include "entrain/strategy/strategy.pb.h"

namespace entrain::strategy {
namespace {

// As a lab writes it, without the count: "1gbit/ranks=2".
std::string group_of(const cluster::Host& host) {
  std::string text = host.bandwidth_gbit < 1 ? fmt::format("{:g}mbit", host.bandwidth_gbit * 1000)
                                             : fmt::format("{:g}gbit", host.bandwidth_gbit);
  if (host.server_only()) text += "/server";
  if (host.workers > 1) text += fmt::format("/ranks={}", host.workers);
  if (host.speed != 1) text += fmt::format("/speed={:g}", host.speed);
  return text;
}

std::string hosts_of(const cluster::Cluster& cluster) {
  std::string text;
  for (size_t i = 0; i < cluster.hosts.size();) {
    const std::string group = group_of(cluster.hosts[i]);
    size_t end = i;
    while (end < cluster.hosts.size() && group_of(cluster.hosts[end]) == group) ++end;
    text += fmt::format("{}{}x{}", text.empty() ? "" : "+", end - i, group);
    i = end;
  }
  return text;
}

std::string file_name(const std::string& model) { return std::filesystem::path(model).filename().string(); }

bool is_json(const std::filesystem::path& path) { return path.extension() == ".json"; }

}  // namespace

TunedFor tuned_for(const std::string& model, int64_t batch_size, const cluster::Cluster& cluster) {
  return {model, batch_size, cluster.name, hosts_of(cluster)};
}

void save_tuned(const Strategy& strategy, const TunedFor& tuned, const std::filesystem::path& path) {
  pb::Strategy stored;
  stored.ParseFromString(to_binary(strategy));
  pb::TunedFor& note = *stored.mutable_tuned_for();
  note.set_model(tuned.model);
  note.set_batch_size(static_cast<int32_t>(tuned.batch_size));
  note.set_cluster(tuned.cluster);
  note.set_hosts(tuned.hosts);
  std::string text = stored.SerializeAsString();
  if (is_json(path)) {
    google::protobuf::util::JsonPrintOptions options;  // as to_json()
    options.add_whitespace = true;
    options.preserve_proto_field_names = true;
    options.always_print_primitive_fields = true;
    text.clear();
    const auto status = google::protobuf::util::MessageToJsonString(stored, &text, options);
    if (!status.ok()) fail("{}: cannot be written as JSON: {}", path.string(), std::string(status.message()));
  }
  write_file_atomically(path, text);
}

std::optional<TunedFor> load_tuned_for(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  pb::Strategy stored;
  const bool read = is_json(path) ? google::protobuf::util::JsonStringToMessage(content, &stored).ok()
                                  : stored.ParseFromString(content);
  if (!read) bad_input("{}: not a strategy", path.string());
  if (!stored.has_tuned_for()) return std::nullopt;
  const pb::TunedFor& note = stored.tuned_for();
  return TunedFor{note.model(), note.batch_size(), note.cluster(), note.hosts()};
}

std::vector<std::string> differences(const TunedFor& tuned, const TunedFor& job) {
  std::vector<std::string> found;
  if (file_name(tuned.model) != file_name(job.model)) {
    found.push_back(fmt::format("model {}, here {}", tuned.model, job.model));
  }
  if (tuned.batch_size != job.batch_size) {
    found.push_back(fmt::format("batch size {}, here {}", tuned.batch_size, job.batch_size));
  }
  if (tuned.hosts != job.hosts) {
    found.push_back(fmt::format("cluster {}, here {}", tuned.cluster, job.cluster));
  }
  return found;
}

}  // namespace entrain::strategy
