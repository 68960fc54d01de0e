#include "entrain/collective/executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "entrain/collective/algorithms.h"
#include "support/ranks.h"

namespace entrain::collective {
namespace {

using entrain::testing::run_ranks;
using transport::Transport;

std::vector<int> iota(int n) {
  std::vector<int> ranks(n);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

template <typename T>
transport::Bytes bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// Rank r's value i; small integers, so that float sums are exact in any order.
float value(int rank, int64_t i) { return static_cast<float>((rank + 1) * (i % 100 + 1)); }

void expect_sum(const Schedule& schedule, int n, int64_t elements, size_t segment) {
  run_ranks(n, [&](int rank, Transport& transport) {
    std::vector<float> data(elements);
    for (int64_t i = 0; i < elements; ++i) data[i] = value(rank, i);
    RunOptions options;
    options.segment_bytes = segment;
    options.what = schedule.name;
    execute(schedule, Buffer({bytes_of(data)}), options, transport);
    for (int64_t i = 0; i < elements; ++i) {
      float sum = 0;
      for (int r = 0; r < n; ++r) sum += value(r, i);
      ASSERT_EQ(data[i], sum) << schedule.name << " rank " << rank << " element " << i;
    }
  });
}

TEST(Executor, SumsWithEveryAlgorithmSizeAndSegment) {
  for (const int n : {2, 3, 4}) {
    std::vector<std::vector<int>> hosts = {{0, 1}};
    for (int r = 2; r < n; ++r) hosts.push_back({r});
    for (const auto& s :
         {ring(iota(n), n), direct(iota(n), n), halving_doubling(iota(n), n), tree(iota(n), n),
          hierarchical(hosts, n), rooted(iota(n), n - 1, n), rooted_by_group(hosts, n - 1, n)}) {
      for (const int64_t elements : {1, 2, 5, 1000, 4099}) {
        for (const size_t segment : {size_t{64}, size_t{1} << 20}) expect_sum(s, n, elements, segment);
      }
    }
  }
}

TEST(Executor, CutsOneChunkIntoQuartersThatAreWorthAMessage) {
  EXPECT_EQ(segment_size(0, 1), 64u << 10);
  EXPECT_EQ(segment_size(100 << 10, 1), 64u << 10);
  EXPECT_EQ(segment_size(512 << 10, 1), 128u << 10);
  EXPECT_EQ(segment_size((512 << 10) + 4, 1) % 64, 0u);
  EXPECT_EQ(segment_size(100 << 20, 1), 512u << 10);
  EXPECT_EQ(segment_size(512 << 10, 4), 512u << 10);
  EXPECT_EQ(segment_size(512 << 10, 2), 512u << 10);
  EXPECT_EQ(segment_size((512 << 10) + 4, 1), (128u << 10) + 64);
}

TEST(Executor, RingInAnyOrder) { expect_sum(ring({2, 0, 3, 1}, 4), 4, 777, 256); }

TEST(Executor, MergesScatteredPiecesWithoutACopy) {
  run_ranks(2, [](int rank, Transport& transport) {
    std::vector<float> a(10, 1.0f + rank), b(3, 10.0f), c(1000, 5.0f * rank);
    RunOptions options;
    options.segment_bytes = 64;
    execute(ring({0, 1}, 2), Buffer({bytes_of(a), bytes_of(b), {}, bytes_of(c)}), options, transport);
    EXPECT_EQ(a, std::vector<float>(10, 3.0f));
    EXPECT_EQ(b, std::vector<float>(3, 20.0f));
    EXPECT_EQ(c, std::vector<float>(1000, 5.0f));
  });
}

TEST(Executor, ServerThatDoesNotTrain) {
  run_ranks(3, [](int rank, Transport& transport) {
    std::vector<float> data(1000, rank == 2 ? NAN : 1.0f + rank);  // the server's own memory must not count
    execute(rooted({0, 1}, 2, 3), Buffer({bytes_of(data)}), {}, transport);
    EXPECT_EQ(data, std::vector<float>(1000, 3.0f));
  });
}

TEST(Executor, ManyRunsAtOnceOnOneLoop) {
  constexpr int kRuns = 20;
  run_ranks(4, [](int rank, Transport& transport) {
    const Program program = compile(ring(iota(4), 4), rank);
    std::vector<std::vector<float>> data(kRuns, std::vector<float>(5000, 1.0f));
    EventLoop loop;
    int left = kRuns;
    std::vector<std::shared_ptr<collective::Run>> runs;
    for (int k = 0; k < kRuns; ++k) {
      const int i = rank % 2 ? k : kRuns - 1 - k;  // the ranks start them in different orders
      RunOptions options;
      options.tag = static_cast<transport::Tag>(i) << 32;
      options.segment_bytes = 1024;
      options.priority = i;
      runs.push_back(std::make_shared<collective::Run>(program, Buffer({bytes_of(data[i])}), options,
                                                       transport, loop, [&left](std::exception_ptr error) {
                                                         EXPECT_FALSE(error);
                                                         --left;
                                                       }));
    }
    loop.post([&] {
      for (auto& r : runs) r->start();
    });
    while (left > 0) loop.run_some(Deadline::never());
    for (const auto& d : data) EXPECT_EQ(d, std::vector<float>(5000, 4.0f));
  });
}

// What an error names when nothing comes.
TEST(Executor, KnowsWhomItWaitsFor) {
  run_ranks(3, [](int rank, Transport& transport) {
    const Program program = compile(rooted({0, 1, 2}, 0, 3), rank);
    std::vector<float> data(100, 1.0f);
    EventLoop loop;
    bool done = false;
    const auto run =
        std::make_shared<collective::Run>(program, Buffer({bytes_of(data)}), RunOptions{}, transport, loop,
                                          [&](std::exception_ptr) { done = true; });
    EXPECT_EQ(run->waiting_for(), rank == 0 ? 1 : 0);
    EXPECT_TRUE(run->settled());
    loop.post([&] { run->start(); });
    while (!done) loop.run_some(Deadline::never());
    EXPECT_EQ(run->waiting_for(), -1);
    EXPECT_EQ(data, std::vector<float>(100, 3.0f));
  });
}

TEST(Executor, RanksThatDisagreeOnTheSizeFailOnBothSides) {
  run_ranks(2, [](int rank, Transport& transport) {
    std::vector<float> data(rank == 0 ? 1000 : 1004, 1.0f);
    RunOptions options;
    options.what = "all-reduce of fc.weight";
    try {
      execute(ring({0, 1}, 2), Buffer({bytes_of(data)}), options, transport);
      ADD_FAILURE() << "rank " << rank << " did not fail";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("fc.weight"), std::string::npos) << e.what();
    }
  });
}

TEST(Reduce, HalfTypesRoundToNearest) {
  std::vector<uint16_t> bf16 = {0x3f80 /* 1 */, 0x4040 /* 3 */}, from = {0x3f80, 0x3f80};
  add(Type::kBFloat16, {bytes_of(bf16)}, bytes_of(from));
  EXPECT_EQ(bf16, (std::vector<uint16_t>{0x4000, 0x4080}));
  // 1 + 1, 65504 + 65504 = inf, smallest subnormal twice, -1 + 1
  std::vector<uint16_t> fp16 = {0x3c00, 0x7bff, 0x0001, 0xbc00}, other = {0x3c00, 0x7bff, 0x0001, 0x3c00};
  add(Type::kFloat16, {bytes_of(fp16)}, bytes_of(other));
  EXPECT_EQ(fp16, (std::vector<uint16_t>{0x4000, 0x7c00, 0x0002, 0x0000}));
}

TEST(Reduce, LeavesWhatIsBehindAPiece) {
  const auto check = [](Type type, auto one, auto two) {
    std::vector a(4, one), b(3, one);
    std::vector from(5, one);
    add(type, {bytes_of(a).first(3 * sizeof one), bytes_of(b).first(2 * sizeof one)}, bytes_of(from));
    EXPECT_EQ(a, (std::vector{two, two, two, one}));
    EXPECT_EQ(b, (std::vector{two, two, one}));
  };
  check(Type::kFloat32, 1.0f, 2.0f);
  check(Type::kFloat64, 1.0, 2.0);
  check(Type::kFloat16, uint16_t{0x3c00}, uint16_t{0x4000});
  check(Type::kBFloat16, uint16_t{0x3f80}, uint16_t{0x4000});
}

TEST(Buffer, SlicesAcrossPieces) {
  std::vector<float> a(2), b(3);
  const Buffer buffer({bytes_of(a), bytes_of(b)});
  EXPECT_EQ(buffer.size(), 20u);
  const auto pieces = buffer.slice(4, 16);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].size(), 4u);
  EXPECT_EQ(pieces[1].size(), 8u);
  EXPECT_EQ(pieces[1].data(), reinterpret_cast<std::byte*>(b.data()));
  EXPECT_TRUE(buffer.slice(20, 20).empty());
  EXPECT_TRUE(buffer.slice(8, 8).empty());
  ASSERT_EQ(buffer.slice(8, 12).size(), 1u);  // the first of the second piece
  EXPECT_EQ(buffer.slice(8, 12)[0].data(), reinterpret_cast<std::byte*>(b.data()));
  EXPECT_TRUE(Buffer(std::vector<transport::Bytes>{}).slice(0, 0).empty());
}

TEST(Program, IsTheRanksPartInTheSchedulesOrder) {
  using Kind = Program::Kind;
  const auto part = [](const Schedule& schedule, int rank, int chunk) {
    std::vector<std::tuple<Kind, int, int>> events;
    const Program program = compile(schedule, rank);
    for (const auto& e : program.chunks[chunk]) events.emplace_back(e.kind, e.peer, e.number);
    return events;
  };
  using Events = std::vector<std::tuple<Kind, int, int>>;
  const Schedule s = direct({0, 1, 2}, 3);
  EXPECT_EQ(part(s, 0, 0),
            (Events{{Kind::kAdd, 2, 0}, {Kind::kAdd, 1, 0}, {Kind::kSend, 1, 1}, {Kind::kSend, 2, 1}}));
  EXPECT_EQ(part(s, 0, 1), (Events{{Kind::kSend, 1, 0}, {Kind::kCopy, 1, 1}}));
  // Within a round a rank sends what it had before.
  const Schedule swap{"swap", 2, 1, {{0, 1, 0, 0, true}, {0, 0, 1, 0, true}}};
  EXPECT_EQ(part(swap, 0, 0), (Events{{Kind::kSend, 1, 0}, {Kind::kAdd, 1, 0}}));
  EXPECT_EQ(part(swap, 1, 0), (Events{{Kind::kSend, 0, 0}, {Kind::kAdd, 0, 0}}));
}

// A ring of 256 has 130,560 transfers, and a tag 16 bits for one: they are numbered by pair of ranks.
TEST(Program, BothEndsKnowATransferByTheSameSmallNumber) {
  for (const auto& schedule : {ring(iota(256), 256), halving_doubling(iota(32), 32)}) {
    const Program here = compile(schedule, 0), next = compile(schedule, 1);
    std::map<int, int> sent, received;  // chunk by number
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      for (const auto& e : here.chunks[chunk]) {
        if (e.kind != Program::Kind::kSend || e.peer != 1) continue;
        EXPECT_TRUE(sent.emplace(e.number, chunk).second);
      }
      for (const auto& e : next.chunks[chunk]) {
        if (e.kind != Program::Kind::kSend && e.peer == 0) received.emplace(e.number, chunk);
      }
    }
    EXPECT_FALSE(sent.empty());
    EXPECT_LT(sent.rbegin()->first, 1 << 16);
    EXPECT_EQ(sent, received) << schedule.name;
  }
}

}  // namespace
}  // namespace entrain::collective
