#include "entrain/rendezvous/job_environment.h"

#include <fmt/format.h>

#include "entrain/base/error.h"

namespace entrain::rendezvous {
namespace {

std::string text_of(net::Encryption encryption) {
  switch (encryption) {
    case net::Encryption::kNever:
      return "0";
    case net::Encryption::kBetweenHosts:
      return "";
    case net::Encryption::kAlways:
      return "1";
  }
  return "";
}

}  // namespace

net::Encryption parse_encryption(const std::string& text) {
  for (const auto each :
       {net::Encryption::kNever, net::Encryption::kBetweenHosts, net::Encryption::kAlways}) {
    if (text == text_of(each)) return each;
  }
  bad_input(
      "ENTRAIN_TLS is \"{}\": allowed are 1 (all connections of ranks), 0 (none), and nothing (those between "
      "hosts)",
      text);
}

std::vector<std::string> to_environment(const JobEnvironment& job) {
  return {fmt::format("ENTRAIN_RANK={}", job.rank),
          fmt::format("ENTRAIN_WORLD={}", job.world),
          fmt::format("ENTRAIN_RENDEZVOUS={}", job.rendezvous),
          fmt::format("ENTRAIN_TOKEN={}", job.token),
          fmt::format("ENTRAIN_BIND={}", job.bind_address),
          fmt::format("ENTRAIN_SHAPE_GBIT={}", job.shape_gbit),
          fmt::format("ENTRAIN_TIMEOUT={}", job.timeout_s),
          fmt::format("ENTRAIN_SERVE={}", job.serve ? 1 : 0),
          fmt::format("ENTRAIN_TLS={}", text_of(job.encryption))};
}

}  // namespace entrain::rendezvous
