#include "job.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
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
      while (kill(-pid, 0) == 0 && !deadline.passed()) pause_briefly();
      if (kill(-pid, 0) == 0) return false;
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

TEST_F(Job, RealHostsAreStartedByTheUser) {
  cluster::Cluster cluster;
  cluster.name = "cluster.yml";
  cluster.hosts.resize(2);
  EXPECT_THROW(run_job(cluster, {"true"}, options_), InputError);
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
