#include "launcher/job.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "entrain/base/clock.h"
#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/lab/mode.h"

namespace entrain::app {
namespace {

namespace fs = std::filesystem;

// Ranks are shells that leave their number and more in a folder.
class Job : public testing::Test {
 protected:
  Job() : folder_(fs::temp_directory_path() / fmt::format("entrain-job-{}", getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    options_.grace_s = 0.2;
  }
  ~Job() override { fs::remove_all(folder_); }

  std::vector<std::string> ranks_do(const std::string& script) const {
    return {
        "sh", "-c",
        fmt::format("cd {}; echo $$ > pid$RANK.tmp; mv pid$RANK.tmp pid$RANK; {}", folder_.string(), script)};
  }
  std::string wrote(const std::string& name) const {
    std::string text = read_file(folder_ / name);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  void wait_for_ranks(int world) const {
    const Deadline deadline = Deadline::after(30.0);
    for (int rank = 0; rank < world; ++rank) {
      while (!fs::exists(folder_ / fmt::format("pid{}", rank)) && !deadline.passed()) pause_briefly();
    }
  }
  // Orphans are reaped by init some time after their end.
  bool all_gone(int world) const {
    const Deadline deadline = Deadline::after(20.0);
    for (int rank = 0; rank < world; ++rank) {
      const pid_t pid = std::stoi(wrote(fmt::format("pid{}", rank)));
      const auto lives = [pid] { return kill(pid, 0) == 0 || kill(-pid, 0) == 0; };
      while (lives() && !deadline.passed()) pause_briefly();
      if (lives()) return false;
    }
    return true;
  }
  static void pause_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

  // Starts the job in a process of its own, so that it can be hit by signals.
  pid_t start_elsewhere(const cluster::Cluster& cluster, const std::vector<std::string>& argv) const {
    const pid_t launcher = fork();
    if (launcher == 0) _exit(run_job(cluster, argv, options_));
    wait_for_ranks(cluster.world());
    return launcher;
  }

  fs::path folder_;
  JobOptions options_;
};

TEST_F(Job, EveryRankLearnsWhoItIs) {
  const auto argv = ranks_do(
      "echo $ENTRAIN_RANK $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR > r$RANK; test -n \"$MASTER_PORT\"");
  EXPECT_EQ(run_job(cluster::parse("local:3"), argv, options_), 0);
  EXPECT_EQ(wrote("r0"), "0 0 3 0 127.0.0.1");
  EXPECT_EQ(wrote("r2"), "2 2 3 2 127.0.0.1");
}

TEST_F(Job, OneFailingRankEndsTheOthers) {
  const auto cluster = cluster::parse("local:3");
  EXPECT_EQ(run_job(cluster, ranks_do("test $RANK = 1 && exit 3; sleep 100"), options_), 1);
  EXPECT_TRUE(all_gone(3));
  EXPECT_EQ(run_job(cluster, ranks_do("test $RANK = 1 && exit 2; sleep 100"), options_), 2);
  EXPECT_TRUE(all_gone(3));
}

TEST_F(Job, WithOneEssentialRankTheOthersMayBeLost) {
  const auto cluster = cluster::parse("local:4");
  options_.essential_rank = 0;
  testing::internal::CaptureStderr();
  // Rank 1 is killed, rank 2 fails, rank 3 is stopped for good; rank 0 sees both out and ends well.
  const auto argv = ranks_do(
      "case $RANK in 1) kill -9 $$;; 2) exit 3;; 3) kill -STOP $$;; esac; "
      "while [ ! -f pid3 ] || [ -d /proc/$(cat pid1) ] || [ -d /proc/$(cat pid2) ]; do sleep 0.02; done; "
      "sleep 0.3; echo done > r0");
  EXPECT_EQ(run_job(cluster, argv, options_), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(wrote("r0"), "done");
  EXPECT_NE(said.find("rank 1 was lost (signal 9); the others go on\n"), std::string::npos) << said;
  EXPECT_NE(said.find("rank 2 was lost (code 3); the others go on\n"), std::string::npos) << said;
  EXPECT_TRUE(all_gone(4));
}

TEST_F(Job, AJobThatLosesARankIsStartedAgain) {
  const auto cluster = cluster::parse("local:2");
  const auto argv = ranks_do(
      "echo \"$ENTRAIN_RESTART\" >> r$RANK; test $RANK = 1 && test \"$ENTRAIN_RESTART\" != 2 && kill -9 $$; "
      "while [ $RANK = 0 ] && [ ! -f r1 ] || [ $(wc -l < r1) -lt 3 ]; do sleep 0.02; done; "
      "test $RANK = 0 && kill $$; sleep 100");
  options_.restarts = 1;
  EXPECT_EQ(run_job(cluster, argv, options_), 1);
  EXPECT_EQ(wrote("r1"), "\n1");
  fs::remove(folder_ / "r1");
  options_.restarts = 5;
  EXPECT_EQ(run_job(cluster, argv, options_), 128 + SIGTERM)
      << "rank 0 was told to end: no reason to restart";
  EXPECT_EQ(wrote("r1"), "\n1\n2");
  EXPECT_TRUE(all_gone(2));
}

TEST_F(Job, ARankThatIsSilentForGoodIsLostWhenTheOthersGiveItUp) {
  options_.restarts = 1;
  const auto argv = ranks_do(
      "echo \"$ENTRAIN_RESTART\" >> r$RANK; test -n \"$ENTRAIN_RESTART\" && exit 0; "
      "test $RANK = 1 && kill -STOP $$; exit 1");
  EXPECT_EQ(run_job(cluster::parse("local:2"), argv, options_), 0);
  EXPECT_EQ(wrote("r1"), "\n1");
}

TEST_F(Job, ARankThatFailsByItselfIsNoReasonToStartAgain) {
  options_.restarts = 5;
  EXPECT_EQ(run_job(cluster::parse("local:2"), ranks_do("echo >> r$RANK; exit $((RANK + 1))"), options_), 2);
  EXPECT_EQ(run_job(cluster::parse("local:2"), ranks_do("echo >> r$RANK; exit 3"), options_), 1);
  EXPECT_EQ(read_file(folder_ / "r0"), "\n\n");
}

TEST_F(Job, AnEssentialRankThatFailsEndsTheOthers) {
  options_.essential_rank = 0;
  const auto cluster = cluster::parse("local:3");
  EXPECT_EQ(run_job(cluster, ranks_do("test $RANK = 0 && exit 3; sleep 100"), options_), 1);
  EXPECT_TRUE(all_gone(3));
}

TEST_F(Job, SigtermEndsAllRanks) {
  const auto cluster = cluster::parse("local:2");
  const pid_t launcher = start_elsewhere(cluster, ranks_do("trap '' TERM; sleep 100"));
  kill(launcher, SIGTERM);
  int status = 0;
  waitpid(launcher, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  EXPECT_TRUE(all_gone(2));
}

TEST_F(Job, Kill9OfTheLauncherEndsAllRanks) {
  const auto cluster = cluster::parse("local:2");
  const pid_t launcher = start_elsewhere(cluster, ranks_do("exec sleep 100"));
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(all_gone(2));
}

TEST_F(Job, AMissingProgramIsOneClearError) {
  try {
    run_job(cluster::parse("local:2"), {"entrain-no-such-program"}, options_);
    FAIL() << "did not throw";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "cannot start entrain-no-such-program: No such file or directory");
  }
}

// Hosts that an agent in the place of ssh reaches: it runs the command here, but deaf to signals, as ssh is.
class HostsJob : public Job {
 protected:
  HostsJob() {
    const fs::path agent = folder_ / "agent";
    std::ofstream(agent) << "#!/bin/sh\necho \"$@\" >> " << (folder_ / "agent.log").string()
                         << "\nexec setsid -w sh -c \"$2\"\n";
    fs::permissions(agent, fs::perms::owner_all);
    options_.remote.ssh = agent.string();
    options_.remote.workdir = folder_.string();
  }
  static cluster::Cluster hosts(const std::string& first) {
    return cluster::cluster_from_yaml("nodes: [{address: " + first +
                                          "}, {address: 198.51.100.2, workers: 2, ssh_config: c}]\n" +
                                          "ssh: {c: {shared_envs: {SHARED: \"of the cluster\"}}}\n",
                                      "c.yml");
  }
};

TEST_F(HostsJob, EveryRankLearnsWhoItIsOnItsHost) {
  setenv("PASSED_ON", "a 'b' $c", 1);
  options_.remote.variables = {"PASSED_ON"};
  const auto argv = ranks_do(
      "echo $ENTRAIN_RANK $LOCAL_RANK $ENTRAIN_BIND $MASTER_ADDR $ENTRAIN_SERVE > r$RANK; "
      "echo \"$PASSED_ON|$SHARED|$ENTRAIN_CLUSTER_TEXT\" > e$RANK; echo ${ENTRAIN_RENDEZVOUS%:*} >> r$RANK");
  EXPECT_EQ(run_job(hosts("198.51.100.1"), argv, options_), 0);
  EXPECT_EQ(wrote("r0"), "0 0 198.51.100.1 198.51.100.1 1\n198.51.100.1");  // rank 0 serves the rendezvous
  EXPECT_EQ(wrote("r1"), "1 0 198.51.100.2 198.51.100.1 0\n198.51.100.1");
  EXPECT_EQ(wrote("r2"), "2 1 198.51.100.2 198.51.100.1 0\n198.51.100.1");
  EXPECT_TRUE(wrote("e2").starts_with("a 'b' $c|of the cluster|name: \"c.yml\"\n")) << wrote("e2");
}

TEST_F(HostsJob, RanksOfThisHostAreStartedDirectly) {
  const auto argv = ranks_do("echo $ENTRAIN_SERVE $(pwd) > r$RANK");
  EXPECT_EQ(run_job(hosts("127.0.0.1"), argv, options_), 0);
  EXPECT_EQ(wrote("r0"), "0 " + folder_.string());  // the launcher serves the rendezvous
  EXPECT_EQ(wrote("agent.log").find("127.0.0.1"), std::string::npos);
  EXPECT_EQ(wrote("agent.log").find("TOKEN"), std::string::npos);
}

TEST_F(HostsJob, OutputIsPrefixedAndRankZerosIsTheResult) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_job(hosts("198.51.100.1"), ranks_do("echo out $RANK; echo err >&2"), options_), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "out 0\n");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("[rank 2 @ 198.51.100.2] out 2\n"), std::string::npos) << said;
  EXPECT_NE(said.find("[rank 1 @ 198.51.100.2] err\n"), std::string::npos) << said;
}

TEST_F(HostsJob, OneFailingRankEndsTheOthersAndIsNamed) {
  const auto argv = ranks_do(
      "test $RANK = 2 && { while [ ! -f pid0 ] || [ ! -f pid1 ]; do sleep 0.02; done; kill -9 $$; }; sleep "
      "100");
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_job(hosts("198.51.100.1"), argv, options_), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "entrain: rank 2 on 198.51.100.2 was killed by signal 9 (Killed)\n");
  EXPECT_TRUE(all_gone(3));
}

TEST_F(HostsJob, Kill9OfTheLauncherEndsAllRanks) {
  const pid_t launcher =
      start_elsewhere(hosts("198.51.100.1"), ranks_do("trap '' TERM; sleep 100; sleep 100"));
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(all_gone(3));
}

TEST_F(HostsJob, SigintReachesRanksOnOtherHosts) {
  const std::vector<std::string> argv = {
      "sh", "-c",
      "trap 'echo interrupted > i$RANK; exit 0' INT; echo $$ > tmp$RANK; mv tmp$RANK pid$RANK; "
      "while :; do sleep 0.05; done"};
  const pid_t launcher = start_elsewhere(hosts("198.51.100.1"), argv);
  kill(launcher, SIGINT);
  int status = 0;
  waitpid(launcher, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
  for (const char* name : {"i0", "i1", "i2"}) EXPECT_EQ(wrote(name), "interrupted");
  EXPECT_TRUE(all_gone(3));
}

TEST_F(HostsJob, AMissingProgramIsToldOnce) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_job(hosts("198.51.100.1"), {"./no-such-program"}, options_), 1);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("has no program " + (folder_ / "no-such-program").string()), std::string::npos) << said;
  EXPECT_NE(said.find("entrain: the same from ranks "), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
}

TEST_F(HostsJob, ASshThatFailsIsExplained) {
  std::ofstream(folder_ / "agent") << "#!/bin/sh\necho 'Host key verification failed.' >&2; exit 255\n";
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_job(hosts("198.51.100.1"), {"true"}, options_), 1);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("over ssh: Host key verification failed. Its host key is not known here"),
            std::string::npos)
      << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
}

// Last: a lab in a user namespace changes this process for good.
TEST_F(Job, LabRanksLiveOnTheirHosts) {
  const auto argv = ranks_do("echo $ENTRAIN_BIND $MASTER_ADDR > r$RANK; ip -4 -o address show eth0 > a$RANK");
  if (!lab::why_not(lab::LabMode::kRoot).empty() && !lab::why_not(lab::LabMode::kUserNamespace).empty()) {
    GTEST_SKIP() << "no network namespaces: " << lab::why_not(lab::LabMode::kUserNamespace);
  }
  const auto cluster = cluster::parse("lab:1x1gbit+2x300mbit");
  EXPECT_EQ(run_job(cluster, argv, options_), 0);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string address = cluster.hosts[rank].address;
    EXPECT_EQ(wrote(fmt::format("r{}", rank)), address + " " + cluster.hosts[0].address);
    EXPECT_NE(wrote(fmt::format("a{}", rank)).find(address + "/15"), std::string::npos);
  }
}

}  // namespace
}  // namespace entrain::app
