#include "launcher/remote.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "entrain/base/error.h"
#include "launcher/shell.h"
#include "launcher/transcript.h"

namespace entrain::app {
namespace {

namespace fs = std::filesystem;

// Reads by bytes, so the watcher finds the lines that follow. Newlines of the script travel as \036. In
// single quotes, without a newline or an exclamation mark: whichever shell the user logs in with hands it on.
constexpr const char* kBootstrap =
    R"sh(exec /bin/sh -c 'IFS= read -r s; eval "$(printf "%s\n" "$s" | tr "\036" "\n")"')sh";

// The shell says nothing itself (2 is /dev/null): what is missing is told by fail, what was killed by the
// exit code. HUP, INT and TERM are the program's: the shell waits for its end. `kill 0` is the process group,
// which sshd has made for this shell.
constexpr const char* kWatch = R"(exec 4>&2 2>/dev/null
trap : HUP INT TERM
(
  trap '' HUP INT TERM
  exec >/dev/null 4>&-
  while IFS= read -r number; do kill -"$number" 0; done <&3
  kill -KILL 0
) &
exec 3<&-
)";
// What the program has left running is told to end, and killed by the watcher when ssh closes, or here.
constexpr const char* kEnd = R"(code=$?
trap '' TERM
(exec >/dev/null 4>&-; sleep 1; kill -KILL 0) &
kill -TERM 0
exit $code
)";

// No terminal, no forwarding, no question that nobody would answer; a host that is gone is noticed within 2
// minutes.
// clang-format off
constexpr std::array kQuiet = {
    "-T", "-x", "-a", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "LogLevel=ERROR",
    "-o", "ControlMaster=no", "-o", "ServerAliveInterval=30", "-o", "ServerAliveCountMax=4"};
// clang-format on

constexpr std::array kNotPassed = {"ENTRAIN_STARTED", "ENTRAIN_SSH", "ENTRAIN_LAB", "ENTRAIN_LAB_INSIDE",
                                   "ENTRAIN_TOKEN"};

bool is_ssh(const std::string& program) { return fs::path(program).filename() == "ssh"; }

std::string ssh_of(const RemoteOptions& options) {
  if (!options.ssh.empty()) return options.ssh;
  const char* given = std::getenv("ENTRAIN_SSH");
  return given && *given ? given : "ssh";
}

// Parts of the script, whole lines.

std::string fail_there(const RemoteRank& rank, int code, const std::string& text) {
  const std::string line = fmt::format("entrain: host {} {}", rank.address, text);
  return fmt::format("{{ printf '%s\\n' {} >&2; exit {}; }}", quote(line), code);
}

std::string exports(const RemoteRank& rank) {
  std::string lines;
  for (const std::string& variable : rank.environment) {
    const size_t equals = variable.find('=');
    const std::string name = variable.substr(0, equals);
    if (!is_variable_name(name)) {
      bad_input("host {}: \"{}\" is not a name for a variable, allowed: letters, digits and underscores",
                rank.address, name);
    }
    lines += fmt::format("export {}={}\n", name, quote(variable.substr(equals + 1)));
  }
  if (rank.ranks_on_host == 1) return lines;
  // Without a limit each of them would take every core.
  lines += fmt::format("n=$(( $(nproc) / {} )); [ \"$n\" -gt 0 ] || n=1\n", rank.ranks_on_host);
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    lines += fmt::format("export {}=\"${{{}:-$n}}\"\n", name, name);
  }
  return lines;
}

std::string find_program(const RemoteRank& rank) {
  const std::string& name = rank.argv.front();
  const std::string word = quote(name);
  if (name.find('/') == std::string::npos) {
    const std::string text = fmt::format("has no program {} in its PATH; --env PATH passes yours on", name);
    return fmt::format("command -v {} >/dev/null || {}\n", word, fail_there(rank, 127, text));
  }
  const std::string text = fmt::format("has no program {}; it must be at the same path on all hosts", name);
  return fmt::format("[ -f {} ] || {}\n", word, fail_there(rank, 127, text)) +
         fmt::format("[ -x {} ] || {}\n", word, fail_there(rank, 126, fmt::format("may not run {}", name)));
}

}  // namespace

std::vector<std::string> passed_variables(const RemoteOptions& options) {
  std::vector<std::string> passed;
  for (const std::string& text : options.variables) {
    const std::string name = text.substr(0, text.find('='));
    if (!is_variable_name(name)) {
      bad_input("--env {}: allowed are NAME and NAME=value, NAME of letters, digits and underscores", text);
    }
    const char* value = std::getenv(name.c_str());
    const bool given = name.size() < text.size();
    if (!given && !value) bad_input("--env {}: it is not set here; allowed: --env {}=value", name, name);
    passed.push_back(given ? text : fmt::format("{}={}", name, value));
  }
  for (char** each = environ; *each; ++each) {
    const std::string text = *each;
    const std::string name = text.substr(0, text.find('='));
    const bool threads = name == "OMP_NUM_THREADS" || name == "OPENBLAS_NUM_THREADS";
    if (!threads && (!name.starts_with("ENTRAIN_") || !is_variable_name(name))) continue;
    if (std::ranges::find(kNotPassed, name) == kNotPassed.end()) passed.push_back(text);
  }
  return passed;
}

std::string work_folder(const RemoteOptions& options) {
  return fs::absolute(options.workdir.empty() ? "." : options.workdir).lexically_normal().string();
}

std::string program_path(const std::string& program, const std::string& folder) {
  if (program.find('/') == std::string::npos) return program;
  return (fs::path(folder) / program).lexically_normal().string();
}

std::vector<std::string> ssh_command(const cluster::Cluster& cluster, int host,
                                     const RemoteOptions& options) {
  const cluster::Host& target = cluster.hosts.at(host);
  cluster::SshConfig config;
  if (!target.ssh_config.empty()) {
    const auto found = cluster.ssh.find(target.ssh_config);
    if (found == cluster.ssh.end()) {
      bad_input("cluster {}: host {} has ssh_config \"{}\", which its section ssh lacks", cluster.name,
                target.address, target.ssh_config);
    }
    config = found->second;
  }
  std::vector<std::string> command =
      split_words(ssh_of(options), options.ssh.empty() ? "ENTRAIN_SSH" : "--ssh");
  const auto add = [&](std::initializer_list<std::string> words) {
    command.insert(command.end(), words.begin(), words.end());
  };
  if (is_ssh(command.front())) {
    command.insert(command.end(), kQuiet.begin(), kQuiet.end());
    const int port = options.ssh_port > 0 ? options.ssh_port : config.port;
    if (port > 0) add({"-p", fmt::format("{}", port)});
    if (!config.username.empty()) add({"-l", config.username});
    if (!config.key_file.empty()) add({"-i", config.key_file});
  }
  add({target.address, kBootstrap});
  return command;
}

std::string remote_script(const RemoteRank& rank) {
  std::string script = "exec 3<&0 </dev/null\n";
  script += fmt::format("echo {}; echo {} >&2\n", kReached, kReached);
  script += fmt::format(
      "cd {} 2>/dev/null || {}\n", quote(rank.folder),
      fail_there(rank, 127,
                 fmt::format("has no folder {}; ranks run in the launcher's folder, or in --workdir FOLDER",
                             rank.folder)));
  script += exports(rank);
  script += find_program(rank);
  script += kWatch;
  std::vector<std::string> words;
  for (const std::string& word : rank.argv) words.push_back(quote(word));
  script += fmt::format("(exec {} 2>&4 4>&-)\n", fmt::join(words, " "));
  script += kEnd;
  if (script.find('\036') != std::string::npos) {
    bad_input("{}: the command or its environment holds the character \\036, which cannot be sent there",
              rank.address);
  }
  script.pop_back();
  std::ranges::replace(script, '\n', '\036');
  return script + "\n";
}

std::string explain_ssh(const std::string& address, const std::vector<std::string>& command,
                        const std::string& said) {
  std::string text = said;
  while (!text.empty() && std::string_view("\r\n.").find(text.back()) != std::string_view::npos)
    text.pop_back();
  for (char& c : text) c = c == '\n' || c == '\r' ? ' ' : c;
  const auto has = [&](const char* words) { return text.find(words) != std::string::npos; };
  // The command that a user can try: without what is run there, and with questions.
  std::vector<std::string> words(command.begin(), command.end() - 1);
  const auto quiet = std::search(words.begin(), words.end(), kQuiet.begin(), kQuiet.end());
  if (quiet != words.end()) words.erase(quiet, quiet + kQuiet.size());
  for (std::string& word : words) word = quote(word);
  const std::string by_hand = fmt::format("{}", fmt::join(words, " "));
  std::string advice = fmt::format("See whether `{}` works without a question", by_hand);
  if (has("Host key verification failed")) {
    advice = fmt::format(
        "Its host key is not known here: log in once with `{}` and accept it, or add it to known_hosts",
        by_hand);
  } else if (has("Permission denied")) {
    advice = fmt::format(
        "ssh must log in without a password: copy your key there with ssh-copy-id, or name user and key in "
        "the section "
        "ssh of cluster.yml, until `{}` works without a question",
        by_hand);
  } else if (has("Connection refused") || has("timed out") || has("No route to host")) {
    advice = "Is sshd running there, at this port (--ssh-port, or port in cluster.yml)?";
  } else if (has("Could not resolve")) {
    advice = "Use an address, or a name that ssh knows";
  }
  return fmt::format("cannot start a rank on {} over ssh: {}. {}", address,
                     text.empty() ? "ssh failed" : text, advice);
}

}  // namespace entrain::app
