#include "host_flags.h"

namespace entrain::app {

void add_host_options(CLI::App& verb, RemoteOptions& options) {
  const char* group = "Hosts of a cluster.yml or hostfile";
  verb.add_option("--ssh", options.ssh,
                  "Command in place of ssh, as in \"ssh -p 2222 -i key\" (default: ENTRAIN_SSH, else ssh)")
      ->group(group);
  verb.add_option("--ssh-port", options.ssh_port, "Port of ssh; default: of cluster.yml, else as ssh decides")
      ->check(CLI::Range(1, 65535))
      ->group(group);
  verb.add_option("--workdir", options.workdir,
                  "Folder of the ranks on every host; default: the current folder")
      ->group(group);
  verb.add_option(
          "--env", options.variables,
          "NAME or NAME=VALUE: a variable for the ranks on other hosts (may be repeated); ENTRAIN_* are "
          "passed on anyway")
      ->allow_extra_args(false)
      ->group(group);
  verb.add_option("--port", options.port,
                  "Port at which the ranks meet on rank 0's host; default: a free one")
      ->check(CLI::Range(1, 65535))
      ->group(group);
}

}  // namespace entrain::app
