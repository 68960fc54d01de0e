// local:N
// lab:GROUP(+GROUP)*   GROUP = COUNTxRATE[/server][/ranks=R][/speed=F][/cpus=C]   RATE = 10gbit,
// 300mbit, 2.5gbit
#include <fmt/format.h>

#include "entrain/base/error.h"
#include "entrain/cluster/parsers.h"

namespace entrain::cluster {
namespace {

constexpr double kLocalGbit = 40;  // loopback, nominal

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> pieces(1);
  for (const char c : text) {
    if (c == by) {
      pieces.emplace_back();
    } else {
      pieces.back() += c;
    }
  }
  return pieces;
}

double parse_rate(const std::string& text, const std::string& origin) {
  for (const auto& [unit, factor] : {std::pair{"gbit", 1.0}, std::pair{"mbit", 1e-3}}) {
    if (text.size() > 4 && text.ends_with(unit)) {
      return parse_positive(text.substr(0, text.size() - 4), origin + ": rate") * factor;
    }
  }
  bad_input("{}: rate is \"{}\", allowed: for instance 10gbit, 2.5gbit, 300mbit", origin, text);
}

// 198.18.0.0/15 is kept for benchmarks (RFC 2544), so a lab never shadows a real network.
std::string lab_address(size_t i) { return fmt::format("198.18.{}.{}", i / 250, i % 250 + 1); }

void add_group(Cluster& cluster, const std::string& group) {
  const std::string& origin = cluster.name;
  const std::vector<std::string> words = split(group, '/');
  const size_t x = words[0].find('x');
  if (x == std::string::npos) {
    bad_input("{}: group is \"{}\", allowed: COUNTxRATE[/server][/ranks=R][/speed=F][/cpus=C]", origin,
              group);
  }
  const int count = parse_int(words[0].substr(0, x), 1, kMaxRanks, origin + ": host count");
  Host host;
  host.bandwidth_gbit = parse_rate(words[0].substr(x + 1), origin);
  bool server = false, ranks = false;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "server") {
      server = true;
    } else if (word.starts_with("ranks=")) {
      ranks = true;
      host.workers = parse_int(word.substr(6), 1, kMaxRanks, origin + ": ranks");
    } else if (word.starts_with("speed=")) {
      host.speed = parse_positive(word.substr(6), origin + ": speed");
    } else if (word.starts_with("cpus=")) {
      host.cpus = parse_int(word.substr(5), 1, 1 << 16, origin + ": cpus");
    } else {
      bad_input("{}: option is \"/{}\", allowed: /server, /ranks=R, /speed=F, /cpus=C", origin, word);
    }
  }
  if (server && ranks)
    bad_input("{}: /server and /ranks exclude each other: a server does not train", origin);
  if (server) host.workers = 0;
  for (int i = 0; i < count && cluster.hosts.size() <= kMaxRanks; ++i) {
    host.address = lab_address(cluster.hosts.size());
    host.chief = cluster.hosts.empty();
    cluster.hosts.push_back(host);
  }
}

}  // namespace

bool is_shorthand(std::string_view text) { return text.starts_with("local:") || text.starts_with("lab:"); }

Cluster cluster_from_shorthand(const std::string& text) {
  Cluster cluster;
  cluster.name = text;
  if (text.starts_with("local:")) {
    cluster.kind = Kind::kLocal;
    Host host;
    host.address = "127.0.0.1";
    host.chief = true;
    host.bandwidth_gbit = kLocalGbit;
    host.workers = parse_int(text.substr(6), 1, kMaxRanks, text + ": rank count");
    cluster.hosts.push_back(host);
  } else {
    cluster.kind = Kind::kLab;
    for (const std::string& group : split(text.substr(4), '+')) add_group(cluster, group);
  }
  check(cluster, text);
  return cluster;
}

}  // namespace entrain::cluster
