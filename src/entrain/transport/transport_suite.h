// The suite of transport_test.cc, which a program instantiates with the transports it has.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "support/ranks.h"

namespace entrain::transport {

// A transport under test.
struct Kind {
  const char* name;
  // The transports of a job's ranks, or of those that live in this process.
  std::vector<std::unique_ptr<Transport>> (*make)(int world);
  // Why there can be no such job here; empty: there can. Null: there always can.
  std::string (*missing)(int world) = nullptr;
};
inline void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class TransportTest : public ::testing::TestWithParam<Kind> {
 protected:
  // Runs `body` on every rank of a job, and skips the test where there can be none: nothing may follow.
  void run(int world, const testing::RankBody& body) {
    const std::string missing = GetParam().missing ? GetParam().missing(world) : "";
    if (!missing.empty()) GTEST_SKIP() << missing;
    testing::run_ranks(GetParam().make(world), body);
  }
};

}  // namespace entrain::transport
