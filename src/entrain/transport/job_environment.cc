#include <charconv>
#include <cmath>
#include <cstdlib>

#include "entrain/base/error.h"
#include "entrain/transport/rendezvous.h"
#include "entrain/transport/tcp/socket.h"

namespace entrain::transport {
namespace {

std::string required(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) bad_input("{} is not set, but ENTRAIN_RANK is: a rank needs both", name);
  return value;
}

template <typename Number>
Number number(const char* name, const std::string& text, Number low, Number high) {
  Number value{};
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || rest != text.data() + text.size() || !(value >= low && value <= high)) {
    bad_input("{} is \"{}\": it must be a number from {} to {}", name, text, low, high);
  }
  return value;
}

double optional_number(const char* name, double fallback, double low, double high) {
  const char* value = std::getenv(name);
  return value && *value ? number<double>(name, value, low, high) : fallback;
}

}  // namespace

bool job_from_environment(JobEnvironment& job) {
  const char* rank = std::getenv("ENTRAIN_RANK");
  if (!rank) return false;
  job.world = number("ENTRAIN_WORLD", required("ENTRAIN_WORLD"), 1, 1 << 20);
  job.rank = number("ENTRAIN_RANK", rank, 0, job.world - 1);
  job.rendezvous = required("ENTRAIN_RENDEZVOUS");
  parse_endpoint(job.rendezvous, "ENTRAIN_RENDEZVOUS");
  job.token = required("ENTRAIN_TOKEN");
  if (const char* bind = std::getenv("ENTRAIN_BIND"); bind && *bind) job.bind_address = bind;
  job.shape_gbit = optional_number("ENTRAIN_SHAPE_GBIT", job.shape_gbit, 0, 1e6);
  job.timeout_s = optional_number("ENTRAIN_TIMEOUT", job.timeout_s, 0.001, 1e6);
  const char* serve = std::getenv("ENTRAIN_SERVE");
  job.serve = serve && std::string_view(serve) == "1";
  return true;
}

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
