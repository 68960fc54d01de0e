// TLS against plain TCP: bytes per second one way between two ranks over loopback, each with one I/O thread,
// in interleaved pairs. build/bench/tls [PAIRS] [MEBIBYTES]
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>

#include "entrain/base/quantile.h"
#include "support/ranks.h"

namespace {

using namespace entrain;

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Costs {
  std::vector<double> gbytes_per_s, processor_s_per_gbyte;
};

// One job, whose messages are as large as a gradient's segment.
void measure(net::Encryption encryption, size_t mebibytes, Costs& costs) {
  constexpr size_t kMessage = size_t{4} << 20;
  const size_t count = (mebibytes << 20) / kMessage;
  const double gbytes = 1e-9 * static_cast<double>(count * kMessage);
  std::vector<std::byte> data(kMessage, std::byte{7}), into(kMessage);
  testing::run_ranks(testing::make_tcp(2, 0, encryption), [&](int rank, transport::Transport& t) {
    const auto pass = [&](size_t messages) {
      for (size_t i = 0; i < messages; ++i) {
        if (rank == 0) transport::send(t, 1, i, data);
        if (rank == 1) transport::recv_into(t, 0, i, into);
      }
      transport::barrier(t, transport::kControlTags, Deadline::after(60));
    };
    pass(4);  // opens the congestion window
    const auto start = Clock::now();
    const double used = processor_seconds();
    pass(count);
    if (rank != 0) return;
    costs.gbytes_per_s.push_back(gbytes / seconds_since(start));
    costs.processor_s_per_gbyte.push_back((processor_seconds() - used) / gbytes);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const int pairs = argc > 1 ? std::atoi(argv[1]) : 10;
  const size_t mebibytes = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1024;
  Costs plain, tls;
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    measure(net::Encryption::kNever, mebibytes, plain);
    measure(net::Encryption::kAlways, mebibytes, tls);
    ratios.push_back(tls.gbytes_per_s.back() / plain.gbytes_per_s.back());
  }
  const auto print = [](const char* name, const Costs& costs) {
    fmt::print("{}: {:.2f} GB/s, {:.2f} processor seconds per GB\n", name, median(costs.gbytes_per_s),
               median(costs.processor_s_per_gbyte));
  };
  print("plain", plain);
  print("TLS", tls);
  fmt::print("TLS / plain, GB/s: {:.2f} [{:.2f} .. {:.2f}], {} pairs\n", median(ratios),
             quantile(ratios, 0.1), quantile(ratios, 0.9), pairs);
  return 0;
}
