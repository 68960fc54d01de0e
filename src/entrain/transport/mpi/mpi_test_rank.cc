// One rank of the transport suite over mpi: mpirun -np N mpi_transport_rank --gtest_filter=ONE_TEST
// MPI starts once in a process, so each test is a job of its own. Started without mpirun, a test is skipped
// and says which N it needs.
#include "entrain/transport/launch_environment.h"
#include "entrain/transport/mpi/mpi_transport.h"
#include "entrain/transport/transport_suite.h"

namespace entrain::transport {
namespace {

std::vector<std::unique_ptr<Transport>> make_mpi(int) {
  std::vector<std::unique_ptr<Transport>> mine;
  mine.push_back(connect_mpi(launch_environment().job));
  return mine;
}

std::string missing(int world) {
  const LaunchEnvironment launch = launch_environment();
  const bool there = launch.engine == Engine::kMpi && launch.job.world == world;
  return there ? "" : fmt::format("needs mpirun -np {}", world);
}

INSTANTIATE_TEST_SUITE_P(Each, TransportTest, ::testing::Values(Kind{"mpi", make_mpi, missing}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace entrain::transport
