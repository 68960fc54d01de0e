// MpiRank over an MPI of threads: the suite, and what a job under mpirun cannot be made to do.
#include <gmock/gmock.h>

#include <algorithm>
#include <future>

#include "entrain/base/error.h"
#include "entrain/transport/mpi/requests_of_threads.h"
#include "entrain/transport/transport_suite.h"

namespace entrain::transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Ranks = std::vector<std::unique_ptr<Transport>>;

Ranks ranks_of(MpiWorld& world, int size) {
  Ranks ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<MpiRank>(rank, size, world.requests(rank)));
  }
  return ranks;
}

Ranks make_mpi_threads(int size) {
  static std::vector<std::unique_ptr<MpiWorld>> worlds;  // each outlives its ranks
  return ranks_of(*worlds.emplace_back(std::make_unique<MpiWorld>(size)), size);
}

INSTANTIATE_TEST_SUITE_P(Mpi, TransportTest, ::testing::Values(Kind{"mpi_threads", make_mpi_threads}),
                         [](const auto& kind) { return kind.param.name; });

constexpr size_t kLarge = size_t{40} << 20;  // three parts

// A posted operation to wait for; the PeerError it ended with, or {-2, ""}.
class Op {
 public:
  Done done() {
    return [promise = promise_](Result result) { promise->set_value(std::move(result)); };
  }
  bool ended() const { return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  std::pair<int, std::string> error() {
    try {
      if (const auto error = future_.get().error) std::rethrow_exception(error);
    } catch (const PeerError& e) {
      return {e.peer(), e.what()};
    }
    return {-2, ""};
  }

 private:
  std::shared_ptr<std::promise<Result>> promise_ = std::make_shared<std::promise<Result>>();
  std::future<Result> future_ = promise_->get_future();
};

void sleep_s(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Closes all ranks at once, each for its reason ("": in order), as their processes would.
void close_all(Ranks& ranks, const std::vector<std::string>& reasons = {}) {
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] { ranks[rank]->close(reasons.empty() ? "" : reasons[rank]); });
  }
  for (auto& thread : threads) thread.join();
}

TEST(MpiThreads, EveryRankCallsMpiFinalizeHoweverLateTheLastOneCloses) {
  MpiWorld world(3);
  Ranks ranks = ranks_of(world, 3);
  std::thread one([&] { ranks[1]->close(""); }), two([&] { ranks[2]->close(""); });
  sleep_s(1.5);  // long enough for a ping, which must not follow the goodbye
  EXPECT_EQ(world.finalized(), std::vector<int>{});
  ranks[0]->close("");
  one.join();
  two.join();
  EXPECT_EQ(world.finalized(), (std::vector<int>{0, 1, 2}));
}

TEST(MpiThreads, AFailureThatAllHearOfEndsInMpiFinalizeToo) {
  MpiWorld world(3);
  Ranks ranks = ranks_of(world, 3);
  const std::vector<std::byte> data(kLarge);
  Op send, recv;
  ranks[0]->post_send(1, 1, {data}, {}, send.done());  // still under way, and not wanted
  ranks[2]->post_recv(0, 1, {}, {}, recv.done());
  world.hold_large(0);
  std::thread close([&] { close_all(ranks, {"", "disk full", ""}); });
  sleep_s(0.3);
  world.thaw(0);  // rank 1 takes it after all, so that rank 0 has its memory back
  close.join();
  EXPECT_EQ(world.finalized(), (std::vector<int>{0, 1, 2}));
}

TEST(MpiThreads, TheRankThatHangsIsBlamedAndNobodyWaitsForItToFinish) {
  MpiWorld world(4);
  Ranks ranks = ranks_of(world, 4);
  std::thread closed([&] { ranks[3]->close(""); });  // in order: silent, but not to blame
  Op heard, op;
  ranks[0]->post_send(1, 1, {as_bytes("x")}, {}, [](Result) {});
  ranks[1]->post_recv(0, 1, {}, {}, heard.done());
  EXPECT_EQ(heard.error().second, "");
  world.freeze(0);
  ranks[1]->post_recv(2, 1, {}, {.deadline = Deadline::after(4.5), .what = "all-reduce of fc1.weight"},
                      op.done());
  const auto [culprit, text] = op.error();
  EXPECT_EQ(culprit, 0);
  EXPECT_THAT(text, AllOf(HasSubstr("rank 0 has been silent for"), HasSubstr("fc1.weight, from rank 2")));
  std::thread one([&] { ranks[1]->close(""); }), two([&] { ranks[2]->close(""); });
  one.join();
  two.join();
  closed.join();
  EXPECT_EQ(world.finalized(), std::vector<int>{});
  world.end_job();
  ranks[0]->close("");
}

TEST(MpiThreads, ARankThatRunsButHasNothingToSayIsNotSilent) {
  MpiWorld world(3);
  Ranks ranks = ranks_of(world, 3);
  sleep_s(2.8);
  for (const auto& rank : ranks) {
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == rank->rank()) continue;
      EXPECT_LT(rank->silence_s(peer), 2.5) << rank->rank() << " of " << peer;
    }
  }
  close_all(ranks);
}

TEST(MpiThreads, MemoryIsItsOwnersAgainWhenAReceiveHasFailed) {
  MpiWorld world(2);
  Ranks ranks = ranks_of(world, 2);
  const std::vector<std::byte> data(kLarge, std::byte{7});
  std::vector<std::byte> into(kLarge);
  Op send, recv;
  world.hold_large(1);
  ranks[0]->post_recv(1, 1, {into}, {.deadline = Deadline::after(0.2)}, recv.done());
  ranks[1]->post_send(0, 1, {data}, {}, send.done());
  EXPECT_EQ(recv.error().first, 1);
  into.assign(kLarge, std::byte{1});
  world.thaw(1);
  sleep_s(0.2);
  EXPECT_EQ(std::ranges::count(into, std::byte{1}), kLarge);
  world.end_job();
  close_all(ranks);
}

TEST(MpiThreads, WhereLossesAreToleratedASendToARankThatHangsEndsInTimeAndTheOthersGoOn) {
  MpiWorld world(3);
  Ranks ranks = ranks_of(world, 3);
  for (auto& rank : ranks) rank->tolerate_losses();
  world.freeze(2);
  const std::vector<std::byte> data(kLarge);
  Op send;
  ranks[0]->post_send(2, 1, {data}, {.deadline = Deadline::after(0.2)}, send.done());
  EXPECT_EQ(send.error().first, 2);
  Op out, in;
  ranks[0]->post_send(1, 2, {data}, {.deadline = Deadline::after(30)}, out.done());
  ranks[1]->post_recv(0, 2, {}, {.deadline = Deadline::after(30)}, in.done());
  EXPECT_EQ(out.error().second + in.error().second, "");
  ranks[0]->close("");
  world.end_job();
  close_all(ranks);
}

// From then on messages are copied, but this one MPI still reads where it lies.
TEST(MpiThreads, MemoryThatWasLentBeforeLossesWereToleratedStaysLentUntilMpiHasReadIt) {
  MpiWorld world(2);
  Ranks ranks = ranks_of(world, 2);
  const std::vector<std::byte> data(kLarge);
  Op send, recv;
  world.hold_large(0);
  ranks[0]->post_send(1, 1, {data}, {}, send.done());
  sleep_s(0.1);
  for (auto& rank : ranks) rank->tolerate_losses();
  ranks[0]->post_recv(1, 2, {}, {.deadline = Deadline::after(0.1)}, recv.done());
  EXPECT_EQ(recv.error().first, 1);  // rank 1 is lost
  sleep_s(0.1);
  EXPECT_FALSE(send.ended());
  world.thaw(0);
  send.error();
  close_all(ranks);
}

TEST(MpiThreads, ACallOfMpiThatFailsEndsWhatIsPostedWithMpisWords) {
  MpiWorld world(2);
  Ranks ranks = ranks_of(world, 2);
  for (const int rank : {0, 1}) {
    Op op;
    ranks[rank]->post_recv(1 - rank, 1, {}, {}, op.done());
    world.break_down(rank, "MPI_ERR_TRUNCATE");
    EXPECT_THAT(op.error().second, HasSubstr("cannot go on over MPI: MPI_ERR_TRUNCATE"));
  }
  close_all(ranks);
  EXPECT_EQ(world.finalized(), std::vector<int>{});
}

TEST(MpiThreads, TheLauncherAndMpiMustAgreeOnRankAndSize) {
  const auto error = [](int rank, int size) -> std::string {
    MpiWorld world(1);
    try {
      MpiRank(rank, size, world.requests(0));
    } catch (const InputError& e) {
      EXPECT_EQ(world.finalized(), std::vector<int>{0});
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error(0, 1), "");
  EXPECT_THAT(error(0, 2), HasSubstr("the launcher started rank 0 of 2, Open MPI says 0 of 1"));
  EXPECT_THAT(error(1, 1), HasSubstr("the launcher started rank 1 of 1, Open MPI says 0 of 1"));
}

TEST(MpiThreads, AnIdleRankLeavesTheProcessorToOthers) {
  MpiWorld world(2);
  Ranks ranks = ranks_of(world, 2);
  sleep_s(0.1);
  const int before = world.polls(0);
  sleep_s(0.5);
  EXPECT_LT(world.polls(0) - before,
            5000);  // it sleeps half a millisecond; awake it polls a hundred times as often
  close_all(ranks);
}

}  // namespace
}  // namespace entrain::transport
