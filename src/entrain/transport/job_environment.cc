#include <fmt/format.h>

#include "entrain/transport/rendezvous.h"

namespace entrain::transport {

std::vector<std::string> to_environment(const JobEnvironment& job) {
  return {fmt::format("ENTRAIN_RANK={}", job.rank),
          fmt::format("ENTRAIN_WORLD={}", job.world),
          fmt::format("ENTRAIN_RENDEZVOUS={}", job.rendezvous),
          fmt::format("ENTRAIN_TOKEN={}", job.token),
          fmt::format("ENTRAIN_BIND={}", job.bind_address),
          fmt::format("ENTRAIN_SHAPE_GBIT={}", job.shape_gbit),
          fmt::format("ENTRAIN_TIMEOUT={}", job.timeout_s)};
}

}  // namespace entrain::transport
