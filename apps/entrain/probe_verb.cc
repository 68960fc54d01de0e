// entrain probe: measures a cluster and writes it as cluster.yml.
#include <fmt/format.h>

#include <memory>

#include "entrain/base/files.h"
#include "entrain/base/units.h"
#include "entrain/trials/probe.h"
#include "host_flags.h"
#include "rank_verb.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::probe_verb {
namespace {

struct Command {
  std::string cluster;
  std::string out = "cluster.yml";
  double megabytes = 16;
  double timeout_s = 120;
  RemoteOptions remote;
};

void print_table(const cluster::Cluster& c) {
  fmt::print("{:<16} {:<16} {:>12} {:>10}\n", "from", "to", "Gbit/s", "latency");
  for (const auto& link : c.links) {
    fmt::print("{:<16} {:<16} {:>12.3f} {:>10}\n", c.hosts[link.from].address, c.hosts[link.to].address,
               link.gbit, format_seconds(link.latency_s));
  }
  for (const auto& host : c.hosts)
    fmt::print("{:<16} compute speed {:.2f} of the fastest\n", host.address, host.speed);
}

int run(const Command& command) {
  return run_on_ranks(command.cluster, command.timeout_s, command.remote, [&](job::Context& context) {
    trials::ProbeOptions options;
    options.bytes = static_cast<size_t>(command.megabytes * 1e6);
    const cluster::Cluster measured = trials::probe(context, options);
    if (context.rank() != 0) return 0;
    const std::string yaml = cluster::to_yaml(measured);
    write_file_atomically(command.out, yaml);
    print_table(measured);
    fmt::print("written to {}; use it with --cluster {}\n", command.out, command.out);
    return 0;
  });
}

}  // namespace

void add_probe(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("probe", "Measure a cluster's links and compute, and write cluster.yml");
  auto c = std::make_shared<Command>();
  verb->add_option("--cluster", c->cluster, "local:4, lab:4x1gbit, cluster.yml, hostfile")->required();
  verb->add_option("--out", c->out, "File to write")->capture_default_str();
  verb->add_option("--megabytes", c->megabytes, "Sent in each direction of each pair")
      ->check(positive())
      ->capture_default_str();
  verb->add_option("--timeout", c->timeout_s, "Seconds without progress after which a rank is given up")
      ->check(positive())
      ->capture_default_str();
  add_host_options(*verb, c->remote);
  verb->footer(
      "Examples:\n"
      "  entrain probe --cluster lab:1x10gbit+3x1gbit --out cluster.yml\n"
      "  entrain probe --cluster hostfile --out cluster.yml      (over ssh; written on rank 0's host)");
  verb->callback([c, &action] { action = [c] { return run(*c); }; });
}

}  // namespace entrain::app::probe_verb
