// kill -9 in the middle of appending loses nothing that was reported as done.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <random>

#include "entrain/dataset/dataset.h"
#include "entrain/dataset/testing.h"

namespace entrain::dataset {
namespace {

// Appends trials for ever and reports each number through the pipe once it is appended.
[[noreturn]] void append_for_ever(const std::filesystem::path& path, Domain domain, int number, int report) {
  TrialLog log(path);
  log.begin(domain);
  Trial trial = domain.trials[0];
  for (;; ++number) {
    trial.number = number;
    log.append(domain.name, trial);
    if (::write(report, &number, sizeof number) != sizeof number) ::_exit(1);
  }
}

TEST(DatasetCrash, KillLosesNoTrialThatWasReported) {
  const testing::Folder folder;
  const std::filesystem::path path = folder / "log.jsonl";
  const Domain domain = testing::small_domain("ncf", "lab:4x1gbit");
  std::mt19937 random(3);
  int next = 0;
  for (int round = 0; round < 20; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) append_for_ever(path, domain, next, pipe[1]);
    ::close(pipe[1]);
    int done = -1;
    ASSERT_EQ(::read(pipe[0], &done, sizeof done), static_cast<ssize_t>(sizeof done));
    ::usleep(random() % 10'000);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    while (::read(pipe[0], &done, sizeof done) > 0) continue;
    ::close(pipe[0]);

    const Dataset loaded = load(path);
    ASSERT_EQ(loaded.domains.size(), 1u);
    const auto& trials = loaded.domains[0].trials;
    ASSERT_GT(static_cast<int>(trials.size()), done) << "a reported trial is lost";
    for (size_t i = 0; i < trials.size(); ++i) {
      ASSERT_EQ(trials[i].number, static_cast<int>(i));
      ASSERT_EQ(trials[i].strategy, domain.trials[0].strategy);
    }
    next = static_cast<int>(trials.size());
  }
}

}  // namespace
}  // namespace entrain::dataset
