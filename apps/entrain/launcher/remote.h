// Ranks on other hosts: what ssh is told to do there, and what its failures mean.
//
//   launcher                                             host
//   ssh ... HOST 'exec /bin/sh -c "read a line, run it"' ─▶ sshd ─▶ shell ─┬─▶ watcher: reads stdin
//     │ stdin: one line, the script (environment, token, cluster, program)  └─▶ the rank
//     │        then a line per signal: its number
//     └ stdin ends when the launcher ends, by whatever means ─▶ the watcher kills the process group
//
// So no command line on either host shows the token or a variable, signals arrive though ssh has no terminal,
// and nothing stays behind, not even after kill -9 of the launcher.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "entrain/cluster/cluster.h"

namespace entrain::app {

// Flags for jobs on hosts (host_flags.h).
struct RemoteOptions {
  std::string ssh;                     // command to use in place of ssh; empty: ENTRAIN_SSH, else "ssh"
  int ssh_port = 0;                    // 0: as cluster.yml or ssh itself says
  std::string workdir;                 // folder in which ranks run; empty: the current one
  std::vector<std::string> variables;  // "NAME" (of our environment) or "NAME=value"
  int port = 0;                        // of the rendezvous; 0: chosen for the job
};

// The user's variables for ranks, as "NAME=value": those of --env, and ours that begin with ENTRAIN_ (but for
// those that tell only this process something). Throws InputError for a name that is not set or malformed.
std::vector<std::string> passed_variables(const RemoteOptions& options);

// The folder that ranks run in, and a program in it: absolute, but a plain name (python3) is left to each
// host's PATH.
std::string work_folder(const RemoteOptions& options);
std::string program_path(const std::string& program, const std::string& folder);

// The command that starts a shell on `host`, which reads a script from stdin. Options that an --ssh command
// holds itself come first, and so win. A command that is not some ssh gets the address and the shell's
// command only. Throws InputError for an ssh_config that the cluster lacks.
std::vector<std::string> ssh_command(const cluster::Cluster& cluster, int host, const RemoteOptions& options);

struct RemoteRank {
  std::string address;  // of its host, for messages
  std::string folder;   // to run in
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"
  int ranks_on_host = 1;                 // they share its cores
};
// What that shell reads: one line.
std::string remote_script(const RemoteRank& rank);

// Why a rank was not reached, for a user who may not know ssh well, from what ssh said.
std::string explain_ssh(const std::string& address, const std::vector<std::string>& command,
                        const std::string& said);

}  // namespace entrain::app
