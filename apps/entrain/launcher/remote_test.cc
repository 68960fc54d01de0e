#include "launcher/remote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/process.h"
#include "launcher/job.h"
#include "launcher/local_address.h"
#include "launcher/transcript.h"

namespace entrain::app {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

TEST(LocalAddress, KnowsThisMachine) {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  EXPECT_TRUE(is_local("127.0.0.1"));
  EXPECT_TRUE(is_local("127.0.3.7"));
  EXPECT_TRUE(is_local("localhost"));
  EXPECT_TRUE(is_local(name));
  EXPECT_FALSE(is_local("198.51.100.7"));  // kept for documentation: nobody's
  EXPECT_FALSE(is_local("no-such-host.invalid"));
  EXPECT_THAT(resolve("198.51.100.7"), ElementsAre("198.51.100.7"));
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
}

cluster::Cluster two_hosts() {
  return cluster::cluster_from_yaml(R"(
nodes:
  - {address: 198.51.100.1}
  - {address: 198.51.100.2, ssh_config: conf, workers: 2}
ssh:
  conf: {username: me, port: 2222, key_file: "/keys/my key", shared_envs: {GREETING: from the cluster}}
)",
                                    "c.yml");
}

TEST(SshCommand, TakesWhatTheClusterAndTheFlagsSay) {
  RemoteOptions options;
  auto command = ssh_command(two_hosts(), 0, options);
  EXPECT_EQ(command.front(), "ssh");
  EXPECT_THAT(command, AllOf(Contains("BatchMode=yes"), Not(Contains("-p")), Not(Contains("-l"))));
  EXPECT_EQ(command[command.size() - 2], "198.51.100.1");

  command = ssh_command(two_hosts(), 1, options);
  const std::vector<std::string> tail(command.end() - 8, command.end() - 1);
  EXPECT_THAT(tail, ElementsAre("-p", "2222", "-l", "me", "-i", "/keys/my key", "198.51.100.2"));

  options.ssh = "/usr/bin/ssh -o ConnectTimeout=99";
  options.ssh_port = 22;
  command = ssh_command(two_hosts(), 1, options);
  EXPECT_EQ(command[2], "ConnectTimeout=99");  // ssh takes the first
  EXPECT_THAT(command, AllOf(Contains("22"), Not(Contains("2222"))));

  options.ssh = "'/a b/agent' -x";
  command = ssh_command(two_hosts(), 1, options);
  command.pop_back();
  EXPECT_THAT(command, ElementsAre("/a b/agent", "-x", "198.51.100.2"));
}

TEST(SshCommand, AnUnknownConfigurationIsNamed) {
  auto cluster = two_hosts();
  cluster.ssh.clear();
  EXPECT_THROW(ssh_command(cluster, 1, {}), InputError);
}

TEST(PassedVariables, AreOursOfEntrainAndThoseAskedFor) {
  setenv("ENTRAIN_LOG", "debug", 1);
  setenv("ENTRAIN_STARTED", "1", 1);
  setenv("OTHER_VARIABLE", "a $b 'c'", 1);
  RemoteOptions options;
  options.variables = {"OTHER_VARIABLE", "NEW=x=y"};
  const auto passed = passed_variables(options);
  unsetenv("ENTRAIN_LOG");
  unsetenv("ENTRAIN_STARTED");
  EXPECT_THAT(passed, AllOf(Contains("ENTRAIN_LOG=debug"), Contains("OTHER_VARIABLE=a $b 'c'"),
                            Contains("NEW=x=y"), Not(Contains("ENTRAIN_STARTED=1"))));
  options.variables = {"NOT_SET_ANYWHERE"};
  EXPECT_THROW(passed_variables(options), InputError);
  options.variables = {"BAD-NAME=1"};
  EXPECT_THROW(passed_variables(options), InputError);
}

TEST(ProgramPath, IsAbsoluteUnlessAHostHasToLookItUp) {
  EXPECT_EQ(program_path("python3", "/work"), "python3");
  EXPECT_EQ(program_path("./train", "/work"), "/work/train");
  EXPECT_EQ(program_path("../bin/train", "/work/x"), "/work/bin/train");
  EXPECT_EQ(program_path("/opt/train", "/work"), "/opt/train");
}

// The script, run as the other host would.
class Script : public testing::Test {
 protected:
  Script() : folder_(fs::temp_directory_path() / fmt::format("entrain script-{}", getpid())) {
    fs::create_directories(folder_);
  }
  ~Script() override { fs::remove_all(folder_); }

  std::unique_ptr<Process> start(const std::vector<std::string>& argv,
                                 const std::vector<std::string>& environment = {},
                                 const std::string& folder = "") const {
    ProcessOptions options;
    options.argv = {"sh", "-c", ssh_command(two_hosts(), 0, {}).back()};
    options.input =
        remote_script({"198.51.100.1", folder.empty() ? folder_.string() : folder, argv, environment, 1});
    options.signals_by_input = true;
    options.output = options.errors = ProcessOptions::Output::kCapture;
    return std::make_unique<Process>(options);
  }
  // Exit code, and what came after kReached on stdout and stderr together.
  std::pair<int, std::string> run(const std::vector<std::string>& argv,
                                  const std::vector<std::string>& environment = {},
                                  const std::string& folder = "") const {
    const auto process = start(argv, environment, folder);
    const auto code = process->wait(Deadline::after(20.0));
    std::string text = process->captured();
    const std::string mark = std::string(kReached) + "\n";
    for (size_t at; (at = text.find(mark)) != std::string::npos;) text.erase(at, mark.size());
    return {code.value_or(-1), text};
  }
  bool exists_soon(const std::string& name) const {
    const Deadline deadline = Deadline::after(20.0);
    while (!fs::exists(folder_ / name) && !deadline.passed())
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return fs::exists(folder_ / name);
  }

  fs::path folder_;
};

TEST_F(Script, RunsTheProgramInTheFolderWithItsArgumentsAndVariables) {
  const std::string odd = "it's $HOME `id` \"x\" \\ * ; & two\nlines";
  const auto [code, text] =
      run({"sh", "-c", "pwd; printf '%s|' \"$1\" \"$ODD\"; exit 3", "sh", odd}, {"ODD=" + odd});
  EXPECT_EQ(code, 3);
  EXPECT_EQ(text, folder_.string() + "\n" + odd + "|" + odd + "|");
}

TEST_F(Script, NamesOfVariablesAreNoCommands) { EXPECT_THROW(start({"true"}, {"A;id=1"}), InputError); }

TEST_F(Script, TheProgramHasNoInput) { EXPECT_EQ(run({"sh", "-c", "read x || echo none"}).second, "none\n"); }

TEST_F(Script, SaysWhatTheHostLacks) {
  auto [code, text] = run({"true"}, {}, "/no/such folder");
  EXPECT_EQ(code, 127);
  EXPECT_THAT(text, AllOf(HasSubstr("entrain: host 198.51.100.1 has no folder /no/such folder"),
                          HasSubstr("--workdir")));
  std::tie(code, text) = run({"/no/such/program"});
  EXPECT_EQ(code, 127);
  EXPECT_THAT(text, HasSubstr("has no program /no/such/program; it must be at the same path"));
  std::tie(code, text) = run({"no-such-program"});
  EXPECT_EQ(code, 127);
  EXPECT_THAT(text, HasSubstr("has no program no-such-program in its PATH"));
  std::ofstream(folder_ / "data") << "x";
  std::tie(code, text) = run({(folder_ / "data").string()});
  EXPECT_EQ(code, 126);
  EXPECT_THAT(text, HasSubstr("may not run"));
}

TEST_F(Script, ASignalReachesTheProgram) {
  const auto process =
      start({"sh", "-c", "trap 'echo told; exit 7' INT; touch ready; while :; do sleep 0.05; done"});
  ASSERT_TRUE(exists_soon("ready"));
  process->signal(SIGINT);
  EXPECT_EQ(process->wait(Deadline::after(20.0)), 7);
  EXPECT_THAT(process->captured(), HasSubstr("told"));
}

TEST_F(Script, AProgramThatIsKilledEndsWithThatSignal) {
  const auto [code, text] = run({"sh", "-c", "kill -9 $$"});
  EXPECT_EQ(code, 128 + SIGKILL);
  EXPECT_EQ(text, "");
}

TEST_F(Script, TheEndOfInputKillsEvenWhoIsDeaf) {
  pid_t pid = 0;
  {
    auto process =
        start({"sh", "-c", "trap '' HUP INT TERM; echo $$ > pid.tmp; mv pid.tmp pid; sleep 100; sleep 100"});
    ASSERT_TRUE(exists_soon("pid"));
    pid = std::stoi(read_file(folder_ / "pid"));
    EXPECT_EQ(kill(pid, 0), 0);
  }
  const Deadline deadline = Deadline::after(20.0);
  while (kill(pid, 0) == 0 && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_NE(kill(pid, 0), 0);
}

TEST(ExplainSsh, SaysWhatToDo) {
  const auto command = ssh_command(two_hosts(), 1, {});
  const auto explain = [&](const char* said) { return explain_ssh("198.51.100.2", command, said); };
  EXPECT_THAT(explain("me@198.51.100.2: Permission denied (publickey).\r\n"),
              AllOf(HasSubstr("198.51.100.2"), HasSubstr("publickey"), HasSubstr("ssh-copy-id"),
                    HasSubstr("`ssh -p 2222 -l me -i '/keys/my key' 198.51.100.2`"), Not(HasSubstr("\n"))));
  EXPECT_THAT(explain("Host key verification failed.\n"), HasSubstr("known_hosts"));
  EXPECT_THAT(explain("ssh: connect to host x port 22: Connection refused"), HasSubstr("--ssh-port"));
  EXPECT_THAT(explain(""), HasSubstr("ssh failed"));
}

}  // namespace
}  // namespace entrain::app
