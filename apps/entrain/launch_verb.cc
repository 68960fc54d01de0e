// entrain launch: runs any program once per rank.
#include <memory>

#include "entrain/base/error.h"
#include "entrain/rendezvous/launch_environment.h"
#include "entrain/transport/mpi/mpi_transport.h"
#include "host_flags.h"
#include "launcher/capacity.h"
#include "launcher/job.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::launch_verb {
namespace {

struct Options {
  int ranks = 0;
  std::string cluster;
  std::vector<std::string> command;
  JobOptions job;
};

int launch(const Options& options) {
  if ((options.ranks > 0) == !options.cluster.empty()) bad_input("launch: give one of -n N and --cluster");
  if (options.command.empty())
    bad_input("launch: no command given; for example: entrain launch -n 4 -- ./train");
  const std::string name = options.cluster.empty() ? fmt::format("local:{}", options.ranks) : options.cluster;
  const cluster::Cluster cluster = cluster::parse(name);
  const auto already = rendezvous::launch_environment(transport::mpi_available);
  if (cluster.kind == cluster::Kind::kHosts && already.is_rank()) {
    bad_input(
        "launch: this process is already rank {} of a job of {}; ranks on {} can be started only from "
        "outside a job",
        already.job.rank, rendezvous::name_of(already.launcher), name);
  }
  warn_of_capacity(cluster);
  return run_job(cluster, options.command, options.job);
}

}  // namespace

void add_launch(CLI::App& app, Action& action) {
  auto* verb =
      app.add_subcommand("launch", "Run a program once per rank: here, in a lab, or on hosts over ssh");
  auto options = std::make_shared<Options>();
  options->job.own_program = false;
  verb->add_option("-n,--ranks", options->ranks, "Ranks on this machine")->check(CLI::Range(1, 1024));
  verb->add_option("--cluster", options->cluster,
                   "local:4, lab:4x1gbit, lab:1x10gbit+3x1gbit, ..., or a cluster.yml or hostfile: over ssh");
  verb->add_option("--timeout", options->job.timeout_s, "Seconds that one operation of a rank may take")
      ->check(positive());
  verb->add_option(
          "--restarts", options->job.restarts,
          "Times that the program is started again when a rank is lost; it finds ENTRAIN_RESTART=1, 2, "
          "... and resumes by itself")
      ->check(not_negative())
      ->capture_default_str();
  add_host_options(*verb, options->job.remote);
  verb->add_option("command", options->command, "The command, after --");
  verb->footer(
      "Examples:\n"
      "  entrain launch -n 4 -- ./train --epochs 3\n"
      "  entrain launch --cluster lab:4x1gbit -- python3 ddp.py\n"
      "  entrain launch --cluster cluster.yml --env LD_LIBRARY_PATH -- ./train\n"
      "A rank finds its job in ENTRAIN_RANK, ENTRAIN_WORLD, ... and in PyTorch's RANK, WORLD_SIZE,\n"
      "LOCAL_RANK, MASTER_ADDR, MASTER_PORT. When one rank fails, the others are ended.\n"
      "On other hosts the program must be at the same path, in the same folder; ssh must log in without a\n"
      "password. Rank 0's stdout is the job's; lines of other ranks have a prefix.");
  verb->callback([options, &action] { action = [options] { return launch(*options); }; });
}

}  // namespace entrain::app::launch_verb
