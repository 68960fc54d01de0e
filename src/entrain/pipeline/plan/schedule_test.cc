#include "entrain/pipeline/plan/schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "entrain/base/error.h"
#include "entrain/pipeline/plan/remat.h"

namespace entrain::pipeline {
namespace {

using testing::HasSubstr;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& e) {
    return e.what();
  }
  return "no InputError";
}

// Each pass of each cell exactly once, on its device; begin_slots() throws if the order deadlocks, and
// no pass may begin before what it needs has ended.
void check(const Schedule& schedule) {
  const auto begins = begin_slots(schedule);
  std::map<std::tuple<Kind, int, int>, int> ends;
  for (int k = 0; k < schedule.devices; ++k) {
    for (size_t i = 0; i < begins[k].size(); ++i) {
      const Work& w = schedule.work[k][i];
      EXPECT_EQ(schedule.device_of(w.cell), k);
      EXPECT_TRUE(ends.emplace(std::tuple(w.kind, w.cell, w.micro_batch), begins[k][i] + 1).second);
    }
  }
  EXPECT_EQ(ends.size(), 2u * schedule.cells * schedule.micro_batches);
  for (int k = 0; k < schedule.devices; ++k) {
    for (size_t i = 0; i < begins[k].size(); ++i) {
      for (const Work& before : needs(schedule, schedule.work[k][i])) {
        EXPECT_LE(ends.at({before.kind, before.cell, before.micro_batch}), begins[k][i]);
      }
    }
  }
}

int in_flight_on(const Schedule& schedule, int device) {
  int now = 0, peak = 0;
  for (const Work& w : schedule.work[device]) {
    now += w.kind == Kind::kForward ? 1 : -1;
    peak = std::max(peak, now);
  }
  return peak;
}

// Calls f(K, M, V) for every size the engines are tested with.
void for_sizes(const std::function<void(int, int, int)>& f) {
  for (int devices = 1; devices <= 8; ++devices) {
    for (const int micro_batches : {1, 2, 3, 5, 8, 32}) {
      for (int chunks = 1; chunks <= 3; ++chunks) {
        SCOPED_TRACE(fmt::format("K={} M={} V={}", devices, micro_batches, chunks));
        f(devices, micro_batches, chunks);
      }
    }
  }
}

TEST(Schedule, GpipePicture) {
  EXPECT_EQ(draw(make_schedule("gpipe", 3, 4)),
            "device 0 | F0 F1 F2 F3 .. .. .. .. B3 B2 B1 B0\n"
            "device 1 | .. F0 F1 F2 F3 .. .. B3 B2 B1 B0 ..\n"
            "device 2 | .. .. F0 F1 F2 F3 B3 B2 B1 B0 .. ..\n");
}

TEST(Schedule, OneForwardOneBackwardPicture) {
  EXPECT_EQ(draw(make_schedule("1f1b", 3, 4)),
            "device 0 | F0 F1 F2 .. .. B0 F3 B1 .. B2 .. B3\n"
            "device 1 | .. F0 F1 .. B0 F2 B1 F3 B2 .. B3 ..\n"
            "device 2 | .. .. F0 B0 F1 B1 F2 B2 F3 B3 .. ..\n");
}

TEST(Schedule, InterleavedPicture) {
  EXPECT_EQ(draw(make_schedule("interleaved", 2, 2, 2)),
            "device 0 | F0/0 F1/0 F0/2 F1/2 .... B0/2 .... B1/2 B0/0 B1/0\n"
            "device 1 | .... F0/1 F1/1 F0/3 B0/3 F1/3 B1/3 B0/1 B1/1 ....\n");
}

// Megatron-LM refuses 3 micro-batches on 2 devices; one group of 3 needs no more idle slots than 2.
TEST(Schedule, InterleavedPictureOfAnUnevenNumberOfMicroBatches) {
  EXPECT_EQ(draw(make_schedule("interleaved", 2, 3, 2)),
            "device 0 | F0/0 F1/0 F2/0 F0/2 F1/2 F2/2 B0/2 .... B1/2 .... B2/2 B0/0 B1/0 B2/0\n"
            "device 1 | .... F0/1 F1/1 F2/1 F0/3 B0/3 F1/3 B1/3 F2/3 B2/3 B0/1 B1/1 B2/1 ....\n");
}

TEST(Schedule, EveryPassOnceAndNoDeadlock) {
  for_sizes([](int devices, int micro_batches, int chunks) {
    check(make_schedule("interleaved", devices, micro_batches, chunks));
    if (chunks > 1) return;
    check(make_schedule("gpipe", devices, micro_batches));
    check(make_schedule("1f1b", devices, micro_batches));
  });
}

TEST(Schedule, ADeadlockIsFound) {
  auto schedule = make_schedule("gpipe", 2, 2);
  std::swap(schedule.work[0].front(), schedule.work[0].back());
  EXPECT_THROW(begin_slots(schedule), Error);
}

TEST(Schedule, BubbleIsTheFormulas) {
  for_sizes([](int devices, int micro_batches, int chunks) {
    const double k = devices, m = micro_batches, v = chunks;
    if (chunks == 1) {
      EXPECT_NEAR(bubble_share(make_schedule("gpipe", devices, micro_batches)), (k - 1) / (m + k - 1), 1e-12);
      EXPECT_NEAR(bubble_share(make_schedule("1f1b", devices, micro_batches)), (k - 1) / (m + k - 1), 1e-12);
    }
    EXPECT_NEAR(bubble_share(make_schedule("interleaved", devices, micro_batches, chunks)),
                m >= k ? (k - 1) / (v * m + k - 1) : 1 - v * m / (v * k + m - 1), 1e-12);
  });
}

TEST(Schedule, InFlightIsTheFormulas) {
  for_sizes([](int devices, int micro_batches, int chunks) {
    const auto gpipe = make_schedule("gpipe", devices, micro_batches);
    const auto alternating = make_schedule("1f1b", devices, micro_batches);
    const auto interleaved = make_schedule("interleaved", devices, micro_batches, chunks);
    const int groups = std::max(1, micro_batches / devices);
    const int largest_group = (micro_batches + groups - 1) / groups;
    for (int k = 0; k < devices; ++k) {
      EXPECT_EQ(peak_in_flight(gpipe, k), micro_batches);
      EXPECT_EQ(peak_in_flight(alternating, k), std::min(micro_batches, devices - k));
      const int ahead = chunks == 1 ? devices - k - 1 : 2 * (devices - k - 1) + (chunks - 1) * largest_group;
      EXPECT_EQ(in_flight_on(interleaved, k), std::min(chunks * micro_batches, ahead + 1));
    }
  });
}

TEST(Schedule, ErrorsNameWhatIsAllowed) {
  EXPECT_THAT(message_of([] { make_schedule("zigzag", 2, 2); }), HasSubstr("gpipe, 1f1b, interleaved"));
  EXPECT_THAT(message_of([] { make_schedule("gpipe", 0, 2); }), HasSubstr("0 devices"));
  EXPECT_THAT(message_of([] { make_schedule("gpipe", 2, 0); }), HasSubstr("0 micro-batches"));
  EXPECT_THAT(message_of([] { make_schedule("1f1b", 2, 2, 2); }), HasSubstr("interleaved"));
  EXPECT_THAT(message_of([] { make_schedule("interleaved", 2, 2, 0); }), HasSubstr("at least 1"));
}

TEST(Remat, Names) {
  for (const auto& name : remat_names()) EXPECT_EQ(remat_name(parse_remat(name)), name);
  EXPECT_THAT(message_of([] { parse_remat("sometimes"); }), HasSubstr("never, except-last, always"));
  EXPECT_FALSE(recomputes(Remat::kExceptLast, 3, 4));
  EXPECT_TRUE(recomputes(Remat::kExceptLast, 2, 4));
}

}  // namespace
}  // namespace entrain::pipeline
