// What calls MPI is loaded when it is asked for; what is said where it is not there.
#include <gmock/gmock.h>

#include <cstdlib>

#include "entrain/base/error.h"
#include "entrain/transport/mpi/mpi_transport.h"

namespace entrain::transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_with_plugin(const char* file) {
  setenv("ENTRAIN_MPI_PLUGIN", file, 1);
  std::string error = mpi_available() ? "available" : "nothing thrown";
  try {
    connect_mpi(rendezvous::JobEnvironment());
  } catch (const InputError& e) {
    error = e.what();
  }
  unsetenv("ENTRAIN_MPI_PLUGIN");
  return error;
}

TEST(MpiPlugin, WhereItIsMissingTheErrorNamesTheFileThePackageAndTheWayWithout) {
  EXPECT_THAT(error_with_plugin("/nowhere/libentrain_mpi.so"),
              AllOf(HasSubstr("/nowhere/libentrain_mpi.so"), HasSubstr("entrain-mpi"),
                    HasSubstr("libopenmpi-dev"), HasSubstr("ENTRAIN_TRANSPORT=tcp")));
}

TEST(MpiPlugin, AnotherLibraryOrAnotherVersionIsRefused) {
  EXPECT_THAT(error_with_plugin("libm.so.6"),
              AllOf(HasSubstr("libm.so.6"), HasSubstr("entrain_mpi_requests_1")));
}

}  // namespace
}  // namespace entrain::transport
