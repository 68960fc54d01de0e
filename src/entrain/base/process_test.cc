#include "entrain/base/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <thread>
#include <tuple>

#include "entrain/base/error.h"

namespace entrain {
namespace {

ProcessOptions shell(const std::string& script) {
  ProcessOptions options;
  options.argv = {"sh", "-c", script};
  return options;
}

bool exists(pid_t pid) { return kill(pid, 0) == 0; }

// An orphan is reaped by init some time after its end, so its going is waited for.
bool gone_soon(pid_t pid) {
  const Deadline deadline = Deadline::after(10.0);
  while (exists(pid) && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return !exists(pid);
}

TEST(OwnedFd, ClosesDescriptorZeroAsAnyOther) {  // a file's where a daemon has closed its input
  const int input = dup(0);
  close(0);
  for (const bool assigned : {false, true}) {
    {
      OwnedFd zero(open("/dev/null", O_RDONLY));
      EXPECT_EQ(zero.get(), 0);
      if (assigned) zero = OwnedFd();
      EXPECT_EQ(fcntl(0, F_GETFD), assigned ? -1 : 0);
    }
    EXPECT_EQ(fcntl(0, F_GETFD), -1);
  }
  if (input >= 0) dup2(input, 0), close(input);
}

TEST(Process, GivesExitCodeOutputAndEnvironment) {
  auto options = shell("echo $ENTRAIN_X; echo oops >&2; exit 3");
  options.environment = {"ENTRAIN_X=hello"};
  options.output = options.errors = ProcessOptions::Output::kCapture;
  Process process(options);
  EXPECT_EQ(process.wait(Deadline::after(20.0)), 3);
  EXPECT_EQ(process.captured(), "hello\noops\n");
}

TEST(Process, AnEnvironmentEntryReplacesOurs) {
  setenv("ENTRAIN_Y", "old", 1);
  auto options = shell("echo $ENTRAIN_Y");
  options.environment = {"ENTRAIN_Y=new"};
  options.output = ProcessOptions::Output::kCapture;
  Process process(options);
  process.wait(Deadline::after(20.0));
  EXPECT_EQ(process.captured(), "new\n");
}

TEST(Process, SaysWhyItCannotStart) {
  ProcessOptions options;
  options.argv = {"entrain-no-such-program"};
  try {
    Process process(options);
    FAIL() << "started";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "cannot start entrain-no-such-program: No such file or directory");
  }
  options.argv = {"true"};
  options.in_child = [] {
    errno = EPERM;
    return false;
  };
  try {
    Process process(options);
    FAIL() << "started";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "cannot start true: setting it up: Operation not permitted");
  }
}

TEST(Process, CapturesMuchOutput) {
  auto options = shell("printf '%10000d' 7; printf '%5000d' 8 >&2");
  options.output = options.errors = ProcessOptions::Output::kCapture;
  Process process(options);
  EXPECT_EQ(process.wait(Deadline::after(20.0)), 0);
  EXPECT_EQ(process.captured(), std::string(9999, ' ') + "7" + std::string(4999, ' ') + "8");
}

TEST(Process, ExitsAreDescribed) {
  EXPECT_EQ(describe_exit(0), "exited with code 0");
  EXPECT_EQ(describe_exit(128), "exited with code 128");
  EXPECT_EQ(describe_exit(128 + SIGHUP), "was killed by signal 1 (Hangup)");
  EXPECT_EQ(describe_exit(128 + SIGKILL), "was killed by signal 9 (Killed)");
  EXPECT_EQ(describe_exit(255), "exited with code 255");
}

TEST(Process, WaitReturnsAtTheDeadlineAndTheDestructorEndsTheChild) {
  pid_t pid = 0;
  {
    Process process(shell("trap '' TERM; sleep 100"));  // deaf to SIGTERM, and with a child of its own
    pid = process.pid();
    EXPECT_EQ(process.wait(Deadline::after(0.05)), std::nullopt);
  }
  EXPECT_FALSE(exists(pid));
  EXPECT_TRUE(gone_soon(-pid));  // and everybody of its group
}

TEST(Process, WhatAChildLeavesRunningEndsWithIt) {
  Process process(shell("sleep 100 & exit 4"));
  EXPECT_EQ(process.wait(Deadline::after(20.0)), 4);
  EXPECT_TRUE(gone_soon(-process.pid()));
}

TEST(Process, InputIsReadAndThenStdinStaysOpenUntilTheEnd) {
  auto options = shell("read a; read b; echo $a-$b; read c && echo line; echo closed");
  options.input = "one\ntwo\n";
  options.output = ProcessOptions::Output::kCapture;
  Process process(options);
  EXPECT_EQ(process.wait(Deadline::after(0.2)), std::nullopt);  // it waits for a third line
  EXPECT_EQ(process.captured(), "one-two\n");
}

TEST(Process, TakesInputThatIsLargerThanAPipe) {
  for (const int size : {300'000, 3'000'000}) {  // the latter is larger than any pipe of an ordinary user
    auto options = shell(fmt::format("sleep 0.2; head -c {} | wc -c", size));
    options.input = std::string(static_cast<size_t>(size), 'x');
    options.output = ProcessOptions::Output::kCapture;
    Process process(options);
    EXPECT_EQ(process.wait(Deadline::after(20.0)), 0);
    EXPECT_EQ(process.captured(), fmt::format("{}\n", size));
  }
}

TEST(Process, SignalsGoToAProcessElsewhereThroughItsInput) {
  auto options = shell("read first; read number; exit $number");
  options.input = "hello\n";
  options.signals_by_input = true;
  Process process(options);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(Deadline::after(20.0)), SIGTERM);
  process.signal(SIGTERM);  // nobody reads it any more
}

TEST(Process, AChildThatHasClosedItsInputDoesNotEndUs) {
  auto options = shell("exec <&-; sleep 0.3; exit 5");
  options.input = "";
  options.signals_by_input = true;
  Process process(options);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  process.signal(SIGTERM);  // would be a SIGPIPE
  EXPECT_EQ(process.wait(Deadline::after(20.0)), 5);
}

TEST(Process, OutputGoesToOurStderr) {
  auto redirected = shell("echo redirected"), inherited = shell("echo inherited");
  redirected.output = ProcessOptions::Output::kToStderr;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Process(redirected).wait(Deadline::after(20.0)), 0);
  EXPECT_EQ(Process(inherited).wait(Deadline::after(20.0)), 0);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "redirected\n");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "inherited\n");
}

TEST(Process, OutputGoesToAGivenDescriptor) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const OwnedFd reader(ends[0]);
  {
    const OwnedFd writer(ends[1]);
    auto options = shell("echo out; echo error >&2");
    options.output = options.errors = ProcessOptions::Output::kTo;
    options.output_fd = options.errors_fd = writer.get();
    EXPECT_EQ(Process(options).wait(Deadline::after(20.0)), 0);
  }
  char text[64];
  EXPECT_EQ(std::string(text, static_cast<size_t>(read(ends[0], text, sizeof text))), "out\nerror\n");
}

TEST(Process, ChildDiesWithItsParentEvenByKill9) {
  int report[2];
  ASSERT_EQ(pipe(report), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    Process process(shell("exec sleep 100"));
    const pid_t pid = process.pid();
    if (write(report[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    pause();
  }
  pid_t child = 0;
  ASSERT_EQ(read(report[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  EXPECT_TRUE(exists(child));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  EXPECT_TRUE(gone_soon(child));
}

TEST(RunCommand, ShowsTheCommandAndItsErrors) {
  try {
    run_command(shell("echo no such link >&2; exit 1"), Deadline::after(20.0));
    FAIL() << "did not throw";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "sh -c echo no such link >&2; exit 1: no such link");
  }
}

TEST(RunCommand, SaysWhatItCanOfASilentFailure) {
  const auto error = [](const std::string& script, double seconds) -> std::string {
    try {
      run_command(shell(script), Deadline::after(seconds));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error("exit 0", 20), "");
  EXPECT_EQ(error("exit 4", 20), "sh -c exit 4: exited with code 4");
  EXPECT_EQ(error("printf 'a\nb\n\n' >&2; exit 4", 20), "sh -c printf 'a\nb\n\n' >&2; exit 4: a b");
  EXPECT_EQ(error("exec sleep 100", 0.05), "sh -c exec sleep 100: did not end in time. ");
}

std::vector<std::unique_ptr<Process>> group_of(const std::vector<std::string>& scripts) {
  std::vector<std::unique_ptr<Process>> group;
  for (const auto& script : scripts) group.push_back(std::make_unique<Process>(shell(script)));
  return group;
}

TEST(Supervise, ReturnsWhenAllHaveEnded) {
  SignalCatcher signals;
  const auto end = supervise(group_of({"true", "sleep 0.1"}), signals, {});
  EXPECT_EQ(end.codes, (std::vector<int>{0, 0}));
  EXPECT_EQ(end.first_failed, -1);
}

TEST(Supervise, FirstFailureEndsTheOthers) {
  SignalCatcher signals;
  Supervision options;
  options.grace_s = 0.1;
  int calls = 0;
  options.on_failure = [&](int index, int code) {
    ++calls;
    EXPECT_EQ(index, 1);
    EXPECT_EQ(code, 7);
  };
  const auto end =
      supervise(group_of({"exec sleep 100", "exit 7", "trap '' TERM; sleep 100"}), signals, options);
  EXPECT_EQ(end.first_failed, 1);
  EXPECT_EQ(end.codes, (std::vector<int>{128 + SIGTERM, 7, 128 + SIGKILL}));
  EXPECT_EQ(calls, 1);
}

TEST(Supervise, TheFirstOfTheGroupMayFailFirstToo) {
  SignalCatcher signals;
  Supervision options;
  options.grace_s = 1;
  std::vector<std::pair<int, int>> failures;
  options.on_failure = [&](int index, int code) { failures.emplace_back(index, code); };
  const auto end = supervise(group_of({"exit 7", "exec sleep 100", "sleep 0.3; exit 5"}), signals, options);
  EXPECT_EQ(end.first_failed, 0);
  EXPECT_EQ(end.codes, (std::vector<int>{7, 128 + SIGTERM, 5}));
  EXPECT_EQ(failures, (std::vector{std::pair(0, 7)}));
}

TEST(Supervise, OfThoseThatFailedTogetherOneIsTheFirst) {
  SignalCatcher signals;
  Supervision options;
  std::vector<std::pair<int, int>> failures;
  options.on_failure = [&](int index, int code) { failures.emplace_back(index, code); };
  auto group = group_of({"exit 7", "exit 5"});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // both have ended
  const auto end = supervise(group, signals, options);
  EXPECT_EQ(end.first_failed, 0);
  EXPECT_EQ(end.codes, (std::vector<int>{7, 5}));
  EXPECT_EQ(failures, (std::vector{std::pair(0, 7)}));
}

TEST(Supervise, OthersMayEndByThemselvesAfterAFailure) {
  SignalCatcher signals;
  Supervision options;
  options.grace_s = 60;
  const auto end = supervise(group_of({"sleep 0.3; exit 5", "exit 7"}), signals, options);
  EXPECT_EQ(end.codes, (std::vector<int>{5, 7}));
  EXPECT_EQ(end.first_failed, 1);
}

// As asynchronous training does it: the centre is needed, a worker that is lost is not.
TEST(Supervise, GoesOnWithoutThoseThatAreNotNeeded) {
  SignalCatcher signals;
  Supervision options;
  options.essential = 0;
  options.grace_s = 0.1;
  std::vector<std::pair<int, int>> lost;
  std::vector<std::tuple<int, int, bool>> ended;
  options.on_loss = [&](int index, int code) { lost.emplace_back(index, code); };
  options.on_failure = [&](int, int) { ADD_FAILURE(); };
  options.on_end = [&](int index, int code, bool told) { ended.emplace_back(index, code, told); };
  const auto end = supervise(group_of({"sleep 0.3", "exit 7", "exec sleep 100"}), signals, options);
  EXPECT_EQ(end.codes, (std::vector<int>{0, 7, 128 + SIGTERM}));
  EXPECT_EQ(end.first_failed, -1);
  EXPECT_FALSE(end.timed_out);
  EXPECT_EQ(lost, (std::vector{std::pair(1, 7)}));
  EXPECT_EQ(ended, (std::vector{std::tuple(1, 7, false), {0, 0, false}, {2, 128 + SIGTERM, true}}));
}

TEST(Supervise, TheOneThatIsNeededFails) {
  SignalCatcher signals;
  Supervision options;
  options.essential = 1;
  options.grace_s = 0.1;
  int failures = 0;
  options.on_failure = [&](int index, int code) {
    ++failures;
    EXPECT_EQ(index, 1);
    EXPECT_EQ(code, 6);
  };
  const auto end = supervise(group_of({"exec sleep 100", "exit 6"}), signals, options);
  EXPECT_EQ(end.first_failed, 1);
  EXPECT_EQ(failures, 1);
}

TEST(Supervise, PassesASignalOn) {
  SignalCatcher signals;
  const auto group = group_of({"trap 'exit 9' INT; while :; do sleep 0.05; done", "exec sleep 100"});
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the trap is set
  kill(getpid(), SIGINT);
  const auto end = supervise(group, signals, {});
  EXPECT_EQ(end.signal, SIGINT);
  EXPECT_EQ(end.codes, (std::vector<int>{9, 128 + SIGINT}));
}

TEST(Supervise, PassesOnASignalThatAThreadOfALibraryReceives) {
  std::promise<void> done;
  std::thread library([&] { done.get_future().wait(); });  // began before the catcher: it blocks no signal
  SignalCatcher signals;
  const auto group = group_of({"trap 'exit 9' INT; while :; do sleep 0.05; done"});
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the trap is set
  pthread_kill(library.native_handle(), SIGINT);
  const auto end = supervise(group, signals, {});
  done.set_value();
  library.join();
  EXPECT_EQ(end.signal, SIGINT);
  EXPECT_EQ(end.codes, std::vector<int>{9});
}

TEST(SignalCatcher, WhatWasIgnoredStaysIgnored) {  // as under nohup
  const auto before = signal(SIGHUP, SIG_IGN);
  {
    SignalCatcher signals;
    raise(SIGHUP);
    EXPECT_EQ(signals.take(), std::nullopt);
    raise(SIGINT);
    EXPECT_EQ(signals.take(), SIGINT);
    EXPECT_EQ(signals.take(), std::nullopt);
  }
  EXPECT_EQ(signal(SIGHUP, before), SIG_IGN);
}

TEST(Supervise, AClosedTerminalIsAnOrderlyEnd) {
  SignalCatcher signals;
  const auto group = group_of({"trap 'exit 9' TERM; while :; do sleep 0.05; done"});
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the trap is set
  kill(getpid(), SIGHUP);
  const auto end = supervise(group, signals, {});
  EXPECT_EQ(end.signal, SIGHUP);
  EXPECT_EQ(end.codes, std::vector<int>{9});
}

TEST(Supervise, TheSecondSignalIsInEarnest) {
  SignalCatcher signals;
  const auto group = group_of({"trap '' INT TERM; while :; do sleep 0.05; done"});
  std::thread impatient([] {
    for (int i = 0; i < 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      kill(getpid(), SIGINT);
    }
  });
  const auto end = supervise(group, signals, {});
  impatient.join();
  EXPECT_EQ(end.signal, SIGINT);
  EXPECT_EQ(end.codes, std::vector<int>{128 + SIGKILL});
}

TEST(Supervise, DeadlineEndsAll) {
  SignalCatcher signals;
  Supervision options;
  options.deadline = Deadline::after(0.1);
  const auto end = supervise(group_of({"exec sleep 100"}), signals, options);
  EXPECT_TRUE(end.timed_out);
  EXPECT_EQ(end.first_failed, -1);
}

}  // namespace
}  // namespace entrain
