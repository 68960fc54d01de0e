// One rank of the transport suite over mpi: mpirun -np N mpi_transport_rank --gtest_filter=ONE_TEST
// MPI starts once in a process, so each test is a job of its own. Started without mpirun, a test is skipped
// and says which N it needs.
#include <csignal>

#include "entrain/rendezvous/launch_environment.h"
#include "entrain/transport/mpi/mpi_transport.h"
#include "entrain/transport/transport_suite.h"

namespace entrain::transport {
namespace {

std::vector<std::unique_ptr<Transport>> make_mpi(int) {
  std::vector<std::unique_ptr<Transport>> mine;
  mine.push_back(connect_mpi(rendezvous::launch_environment(mpi_available).job));
  return mine;
}

std::string missing(int world) {
  const rendezvous::LaunchEnvironment launch = rendezvous::launch_environment(mpi_available);
  const bool there = launch.backend == rendezvous::Backend::kMpi && launch.job.world == world;
  return there ? "" : fmt::format("needs mpirun -np {}", world);
}

INSTANTIATE_TEST_SUITE_P(Each, TransportTest, ::testing::Values(Kind{"mpi", make_mpi, missing}),
                         [](const auto& kind) { return kind.param.name; });

// MPI cannot take back a message that nobody receives, nor finalize without a rank that is stopped.
TEST(MpiRank, AStoppedPeerIsNamedAndNothingHangs) {
  if (const std::string reason = missing(2); !reason.empty()) GTEST_SKIP() << reason;
  const auto mine = make_mpi(2);
  Transport& t = *mine.front();
  barrier(t, kControlTags, Deadline::after(30));
  if (t.rank() == 1) {
    std::raise(SIGSTOP);  // for good: mpirun ends this process
    return;
  }
  const std::vector<std::byte> data(size_t{64} << 20);
  try {
    send(t, 1, 1, data, {.deadline = Deadline::after(5), .what = "a large message"});
    ADD_FAILURE() << "sent to a process that does not run";
  } catch (const PeerError& e) {
    EXPECT_EQ(e.peer(), 1);
    EXPECT_NE(std::string(e.what()).find("a large message, to rank 1"), std::string::npos) << e.what();
  }
  t.close("");
}

}  // namespace
}  // namespace entrain::transport
