#include "entrain/rendezvous/job_environment.h"

#include <fmt/format.h>

namespace entrain::rendezvous {

std::vector<std::string> to_environment(const JobEnvironment& job) {
  const std::string tls = job.encryption == net::Encryption::kBetweenHosts ? ""
                          : job.encryption == net::Encryption::kAlways     ? "1"
                                                                           : "0";
  return {fmt::format("ENTRAIN_RANK={}", job.rank),
          fmt::format("ENTRAIN_WORLD={}", job.world),
          fmt::format("ENTRAIN_RENDEZVOUS={}", job.rendezvous),
          fmt::format("ENTRAIN_TOKEN={}", job.token),
          fmt::format("ENTRAIN_BIND={}", job.bind_address),
          fmt::format("ENTRAIN_SHAPE_GBIT={}", job.shape_gbit),
          fmt::format("ENTRAIN_TIMEOUT={}", job.timeout_s),
          fmt::format("ENTRAIN_SERVE={}", job.serve ? 1 : 0),
          fmt::format("ENTRAIN_TLS={}", tls)};
}

}  // namespace entrain::rendezvous
