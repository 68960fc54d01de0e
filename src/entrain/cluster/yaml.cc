#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <initializer_list>
#include <set>

#include "entrain/base/error.h"
#include "entrain/cluster/parsers.h"

namespace entrain::cluster {
namespace {

constexpr int kMaxDevices = 1024;

// One mapping of the file. Knows where it is, so that every error names file, line and field.
class Section {
 public:
  Section(const YAML::Node& node, std::string origin, const char* what,
          std::initializer_list<const char*> allowed)
      : node_(node), origin_(std::move(origin)) {
    if (!node_.IsMap()) bad_input("{}: {} must be a mapping of fields", where(node_), what);
    std::set<std::string> seen;
    for (const auto& field : node_) {
      const std::string name = field.first.IsScalar() ? field.first.Scalar() : "?";
      const bool known =
          std::any_of(allowed.begin(), allowed.end(), [&](const char* a) { return name == a; });
      if (!known) {
        bad_input("{}: unknown field \"{}\" in {}, allowed: {}", where(field.first), name, what,
                  fmt::join(allowed, ", "));
      }
      if (!seen.insert(name).second) bad_input("{}: field {} appears twice", where(field.first), name);
    }
  }

  bool has(const char* field) const { return static_cast<bool>(get(field)); }
  YAML::Node get(const char* field) const { return node_[field]; }

  std::string where(const YAML::Node& node) const {
    return node.Mark().is_null() ? origin_ : fmt::format("{}:{}", origin_, node.Mark().line + 1);
  }
  std::string where() const { return where(node_); }

  std::string text(const char* field, const std::string& otherwise) const {
    const YAML::Node value = get(field);
    if (!value) return otherwise;
    if (!value.IsScalar()) bad_input("{}: {} must be one value", where(value), field);
    return value.Scalar();
  }

  int integer(const char* field, int low, int high, int otherwise) const {
    return has(field) ? parse_int(text(field, ""), low, high, at(field)) : otherwise;
  }

  double positive(const char* field, double otherwise) const {
    return has(field) ? parse_positive(text(field, ""), at(field)) : otherwise;
  }

  // A price, a size or a latency: 0 is a value too.
  double not_negative(const char* field, double otherwise) const {
    return has(field) ? parse_not_negative(text(field, ""), at(field)) : otherwise;
  }

  bool boolean(const char* field) const {
    bool value = false;
    if (has(field) && !YAML::convert<bool>::decode(get(field), value)) {
      bad_input("{} is \"{}\", allowed: true, false", at(field), text(field, ""));
    }
    return value;
  }

  // Devices: AutoDist lists their numbers ([0, 1]); a plain count is taken too.
  int devices(const char* field) const {
    const YAML::Node value = get(field);
    if (!value || !value.IsSequence()) return integer(field, 0, kMaxDevices, 0);
    if (value.size() > kMaxDevices)
      bad_input("{} lists {} devices, allowed: up to {}", at(field), value.size(), kMaxDevices);
    for (const auto& index : value) parse_int(index.IsScalar() ? index.Scalar() : "?", 0, 1 << 20, at(field));
    return static_cast<int>(value.size());
  }

 private:
  std::string at(const char* field) const { return fmt::format("{}: {}", where(get(field)), field); }

  YAML::Node node_;
  std::string origin_;
};

Host read_host(const YAML::Node& node, const std::string& origin) {
  const Section fields(node, origin, "a node",
                       {"address", "cpus", "gpus", "chief", "network_bandwidth", "ssh_config", "workers",
                        "role", "memory_gib", "speed", "price_per_hour"});
  Host host;
  host.address = fields.text("address", "");
  if (host.address.empty()) bad_input("{}: a node needs an address", fields.where());
  host.cpus = fields.devices("cpus");
  host.gpus = fields.devices("gpus");
  host.chief = fields.boolean("chief");
  host.bandwidth_gbit = fields.positive("network_bandwidth", 1);
  host.ssh_config = fields.text("ssh_config", "");
  host.memory_gib = fields.not_negative("memory_gib", 0);
  host.speed = fields.positive("speed", 1);
  host.price_per_hour = fields.not_negative("price_per_hour", 0);
  const std::string role = fields.text("role", "worker");
  if (role != "worker" && role != "server") {
    bad_input("{}: role is \"{}\", allowed: worker, server", fields.where(fields.get("role")), role);
  }
  const int otherwise = role == "server" ? 0 : std::max(1, host.gpus);
  host.workers = fields.integer("workers", 0, kMaxRanks, otherwise);
  if (role == "server" && host.workers > 0) {
    bad_input("{}: host {} has role server and {} workers, allowed: 0", fields.where(), host.address,
              host.workers);
  }
  return host;
}

// Rank 0 lives on the first host, and AutoDist's on the chief: they are the same host here.
void put_chief_first(std::vector<Host>& hosts, const std::string& origin) {
  const auto is_chief = [](const Host& host) { return host.chief; };
  if (std::count_if(hosts.begin(), hosts.end(), is_chief) > 1) {
    bad_input("{}: more than one node has chief: true", origin);
  }
  const auto chief = std::find_if(hosts.begin(), hosts.end(), is_chief);
  if (chief != hosts.end()) std::rotate(hosts.begin(), chief, chief + 1);
}

Link read_link(const YAML::Node& node, const Cluster& cluster, const std::string& origin) {
  const Section fields(node, origin, "a link", {"from", "to", "gbit", "latency_us"});
  const auto host = [&](const char* field) {
    const std::string address = fields.text(field, "");
    const int index = cluster.find(address);
    if (index < 0) {
      std::vector<std::string> known;
      for (const Host& h : cluster.hosts) known.push_back(h.address);
      bad_input("{}: {} is \"{}\", allowed: {}", fields.where(), field, address, fmt::join(known, ", "));
    }
    return index;
  };
  const int from = host("from"), to = host("to");
  const Cluster unmeasured{cluster.kind, cluster.name, cluster.hosts, {}};
  Link link{from, to, fields.positive("gbit", unmeasured.gbit(from, to)), unmeasured.latency_s(from, to)};
  if (fields.has("latency_us")) link.latency_s = fields.not_negative("latency_us", 0) * 1e-6;
  return link;
}

Kind read_kind(const Section& top) {
  const std::string kind = top.text("kind", "hosts");
  if (kind == "hosts") return Kind::kHosts;
  if (kind == "local") return Kind::kLocal;
  if (kind == "lab") return Kind::kLab;
  bad_input("{}: kind is \"{}\", allowed: hosts, local, lab", top.where(top.get("kind")), kind);
}

YAML::Node sequence(const Section& top, const char* field) {
  const YAML::Node list = top.get(field);
  if (list && !list.IsSequence()) bad_input("{}: {} must be a list", top.where(list), field);
  return list;
}

// AutoDist's python_venv is read over: what runs here is a program, not a script.
SshConfig read_ssh(const YAML::Node& node, const std::string& origin) {
  SshConfig config;
  if (node.IsNull()) return config;
  const Section fields(node, origin, "an ssh configuration",
                       {"username", "port", "key_file", "python_venv", "shared_envs"});
  config.username = fields.text("username", "");
  if (config.username.starts_with('-')) {  // would read as an option of ssh
    bad_input("{}: username is \"{}\", allowed: a user's name", fields.where(fields.get("username")),
              config.username);
  }
  config.port = fields.integer("port", 1, 65535, 0);
  config.key_file = fields.text("key_file", "");
  const YAML::Node variables = fields.get("shared_envs");
  if (variables && !variables.IsNull()) {
    if (!variables.IsMap()) bad_input("{}: shared_envs must be a mapping", fields.where(variables));
    for (const auto& each : variables) {
      if (!each.first.IsScalar() || !each.second.IsScalar()) {
        bad_input("{}: shared_envs: each variable must have one value", fields.where(each.first));
      }
      config.shared_envs[each.first.Scalar()] = each.second.Scalar();
    }
  }
  return config;
}

Cluster read_cluster(const YAML::Node& document, const std::string& origin) {
  const Section top(document, origin, "cluster.yml", {"name", "kind", "nodes", "links", "ssh"});
  Cluster cluster;
  cluster.kind = read_kind(top);
  cluster.name = top.text("name", origin);
  const YAML::Node nodes = sequence(top, "nodes");
  if (!nodes || nodes.size() == 0) bad_input("{}: nodes is missing or empty; at least one is needed", origin);
  for (const auto& node : nodes) cluster.hosts.push_back(read_host(node, origin));
  put_chief_first(cluster.hosts, origin);
  check(cluster, origin);
  if (const YAML::Node ssh = top.get("ssh"); ssh && !ssh.IsNull()) {
    if (!ssh.IsMap()) bad_input("{}: ssh must be a mapping of names", top.where(ssh));
    for (const auto& each : ssh) {
      if (!each.first.IsScalar()) bad_input("{}: a name in ssh must be one value", top.where(ssh));
      cluster.ssh[each.first.Scalar()] = read_ssh(each.second, origin);
    }
  }
  if (const YAML::Node links = sequence(top, "links")) {
    for (const auto& link : links) cluster.links.push_back(read_link(link, cluster, origin));
  }
  return cluster;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// The shortest text that reads back as the same number.
std::string number(double value) { return fmt::format("{}", value); }

void write_host(YAML::Emitter& out, const Host& host) {
  out << YAML::BeginMap << YAML::Key << "address" << YAML::Value << host.address;
  if (host.chief) out << YAML::Key << "chief" << YAML::Value << true;
  if (host.cpus > 0) out << YAML::Key << "cpus" << YAML::Value << host.cpus;
  if (host.gpus > 0) out << YAML::Key << "gpus" << YAML::Value << host.gpus;
  if (host.server_only()) {
    out << YAML::Key << "role" << YAML::Value << "server";
  } else {
    out << YAML::Key << "workers" << YAML::Value << host.workers;
  }
  out << YAML::Key << "network_bandwidth" << YAML::Value << number(host.bandwidth_gbit);
  out << YAML::Key << "speed" << YAML::Value << number(host.speed);
  if (host.memory_gib > 0) out << YAML::Key << "memory_gib" << YAML::Value << number(host.memory_gib);
  if (host.price_per_hour > 0)
    out << YAML::Key << "price_per_hour" << YAML::Value << number(host.price_per_hour);
  if (!host.ssh_config.empty()) out << YAML::Key << "ssh_config" << YAML::Value << host.ssh_config;
  out << YAML::EndMap;
}

void write_ssh(YAML::Emitter& out, const std::map<std::string, SshConfig>& configs) {
  out << YAML::Key << "ssh" << YAML::Value << YAML::BeginMap;
  for (const auto& [name, config] : configs) {
    out << YAML::Key << name << YAML::Value << YAML::BeginMap;
    if (!config.username.empty()) out << YAML::Key << "username" << YAML::Value << config.username;
    if (config.port > 0) out << YAML::Key << "port" << YAML::Value << config.port;
    if (!config.key_file.empty()) out << YAML::Key << "key_file" << YAML::Value << config.key_file;
    if (!config.shared_envs.empty()) {
      out << YAML::Key << "shared_envs" << YAML::Value << YAML::BeginMap;
      for (const auto& [variable, value] : config.shared_envs) {
        out << YAML::Key << variable << YAML::Value << YAML::DoubleQuoted << value;
      }
      out << YAML::EndMap;
    }
    out << YAML::EndMap;
  }
  out << YAML::EndMap;
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kLocal:
      return "local";
    case Kind::kLab:
      return "lab";
    case Kind::kHosts:
      break;
  }
  return "hosts";
}

}  // namespace

Cluster cluster_from_yaml(const std::string& yaml, const std::string& origin) {
  check_length(yaml, origin);
  try {
    return read_cluster(YAML::Load(yaml), origin);
  } catch (const YAML::Exception& error) {
    bad_input("{}:{}:{}: malformed YAML: {}", origin, error.mark.line + 1, error.mark.column + 1,
              one_line(error.msg));
  }
}

std::string to_yaml(const Cluster& cluster) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  out << YAML::Key << "name" << YAML::Value << YAML::DoubleQuoted << cluster.name;
  out << YAML::Key << "kind" << YAML::Value << name_of(cluster.kind);
  out << YAML::Key << "nodes" << YAML::Value << YAML::BeginSeq;
  for (const Host& host : cluster.hosts) write_host(out, host);
  out << YAML::EndSeq;
  if (!cluster.links.empty()) {
    out << YAML::Key << "links" << YAML::Value << YAML::BeginSeq;
    for (const Link& link : cluster.links) {
      out << YAML::Flow << YAML::BeginMap;
      out << YAML::Key << "from" << YAML::Value << cluster.hosts.at(link.from).address;
      out << YAML::Key << "to" << YAML::Value << cluster.hosts.at(link.to).address;
      out << YAML::Key << "gbit" << YAML::Value << number(link.gbit);
      out << YAML::Key << "latency_us" << YAML::Value << number(link.latency_s * 1e6);
      out << YAML::EndMap;
    }
    out << YAML::EndSeq;
  }
  if (!cluster.ssh.empty()) write_ssh(out, cluster.ssh);
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace entrain::cluster
