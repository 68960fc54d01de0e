// Nothing that is posted is lost or waits for ever, and what is handed over together wakes once.
#include "entrain/base/event_loop.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace entrain {
namespace {

struct Counter final : Sleeper {
  void wake() override { ++woken; }
  int woken = 0;
};

TEST(WakeTogether, WakesEachOnceAtTheEnd) {
  const auto a = std::make_shared<Counter>(), b = std::make_shared<Counter>();
  wake(a);
  EXPECT_EQ(a->woken, 1);
  {
    const WakeTogether together;
    wake(a), wake(b), wake(a);
    const WakeTogether inner;
    wake(b);
    EXPECT_EQ(a->woken, 1);
    EXPECT_EQ(b->woken, 0);
  }
  EXPECT_EQ(a->woken, 2);
  EXPECT_EQ(b->woken, 1);
}

TEST(WakeTogether, WakesEarlierForSomethingLarge) {
  const auto a = std::make_shared<Counter>();
  WakeTogether::now();  // nobody is held back: nothing to do
  const WakeTogether together;
  wake(a);
  WakeTogether::now();
  EXPECT_EQ(a->woken, 1);
  WakeTogether::now();
  EXPECT_EQ(a->woken, 1);
}

TEST(WakeTogether, HoldsBackOnlyItsOwnThread) {
  const auto a = std::make_shared<Counter>();
  const WakeTogether together;
  std::thread([&] { wake(a); }).join();
  EXPECT_EQ(a->woken, 1);
}

TEST(EventLoop, RunsAllThatIsPostedInOrder) {
  constexpr int kEvents = 1000;
  EventLoop loop;
  std::vector<int> seen;
  std::thread poster([&] {
    for (int i = 0; i < kEvents; i += 10) {
      const WakeTogether together;
      for (int k = i; k < i + 10; ++k) loop.post([&, k] { seen.push_back(k); });
    }
  });
  while (seen.size() < kEvents) ASSERT_TRUE(loop.run_some(Deadline::after(60)));
  poster.join();
  for (int i = 0; i < kEvents; ++i) EXPECT_EQ(seen[i], i);
}

// Two loops that answer each other: each must be woken although it is woken from inside the other's events.
TEST(EventLoop, TwoAnswerEachOther) {
  EventLoop loops[2];
  int left = 200;
  const std::function<void(int)> pass = [&](int to) {
    loops[to].post([&, to] {
      if (--left <= 0) {
        loops[0].stop(), loops[1].stop();
      } else {
        pass(1 - to);
      }
    });
  };
  pass(0);
  std::thread other([&] {
    while (!loops[1].stopped()) loops[1].run_some(Deadline::after(60));
  });
  while (!loops[0].stopped()) loops[0].run_some(Deadline::after(60));
  other.join();
  EXPECT_LE(left, 0);
}

// A loop may be gone before those who posted to it come to wake it.
TEST(EventLoop, MayEndBeforeItIsWoken) {
  auto loop = std::make_optional<EventLoop>();
  const WakeTogether together;
  loop->post([] {});
  EXPECT_TRUE(loop->run_some(Deadline::after(60)));
  loop->post([] {});
  loop.reset();
}

}  // namespace
}  // namespace entrain
