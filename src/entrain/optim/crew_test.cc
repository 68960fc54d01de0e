#include "entrain/optim/crew.h"

#include <gtest/gtest.h>

#include "support/ranks.h"

namespace entrain::optim {
namespace {

using entrain::testing::run_ranks;

void check(bool right, const char* what) {
  if (!right) fail("wrong: {}", what);
}

TEST(Crew, CollectivesOfSomeRanks) {
  const auto body = [](int rank, transport::Transport& transport) {
    if (rank == 2) return;  // not of the crew
    Crew crew(transport, {0, 1, 3}, 5, 30);
    check(crew.all_gather(10.0 * rank) == std::vector<double>({0, 10, 30}), "gathered");
    for (int root = 0; root < 3; ++root) {
      torch::Tensor message = torch::full({100003}, rank, torch::kFloat32);
      crew.broadcast(message, root);
      check(message.eq(crew.ranks()[root]).all().item<bool>(), "broadcast");
    }
    torch::Tensor sum = torch::arange(7, torch::kFloat64) * rank;
    crew.all_reduce(sum);
    check(sum.equal(torch::arange(7, torch::kFloat64) * 4), "sum");
  };
  run_ranks(4, body);
  run_ranks(entrain::testing::make_tcp(4), body);
}

TEST(Crew, TwoCrewsOfOneJobDoNotMix) {
  run_ranks(4, [](int rank, transport::Transport& transport) {
    Crew all(transport, {0, 1, 2, 3}, 0, 30);
    Crew pair(transport, rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3}, 1, 30);
    torch::Tensor message = torch::full({1000}, rank, torch::kFloat64);
    std::future<void> beside = pair.beside([&] { pair.broadcast(message, 1); });
    torch::Tensor sum = torch::ones({1000}, torch::kFloat64);
    all.all_reduce(sum);
    beside.get();
    check(sum.eq(4).all().item<bool>(), "sum");
    check(message.eq(rank < 2 ? 1 : 3).all().item<bool>(), "broadcast");
  });
}

TEST(Crew, AnErrorBesideComesThroughTheFuture) {
  run_ranks(2, [](int rank, transport::Transport& transport) {
    Crew crew(transport, {0, 1}, 0, 30);
    if (rank == 1) return transport.close("rank 1 gives up");
    std::future<void> beside = crew.beside([&] { crew.all_gather(1); });
    EXPECT_THROW(beside.get(), PeerError);
  });
}

TEST(Crew, ASilentRankIsNamed) {
  run_ranks(2, [](int rank, transport::Transport& transport) {
    Crew crew(transport, {0, 1}, 0, 0.2);
    if (rank == 1) {  // alive but never comes: ends when rank 0 has given up
      EXPECT_THROW(transport::recv(transport, 0, 1), PeerError);
      return;
    }
    try {
      crew.all_gather(1);
      ADD_FAILURE() << "rank 1 never came";
    } catch (const PeerError& e) {
      EXPECT_NE(std::string(e.what()).find("rank 1"), std::string::npos) << e.what();
    }
  });
}

TEST(Crew, EndingInTheMiddleOfAnExchangeDoesNotHang) {
  run_ranks(2, [](int rank, transport::Transport& transport) {
    Crew crew(transport, {0, 1}, 0, 300);
    if (rank == 1) {
      EXPECT_THROW(transport::recv(transport, 0, 1), PeerError);
      return;
    }
    crew.beside([&] { crew.all_gather(1); });
  });
}

}  // namespace
}  // namespace entrain::optim
