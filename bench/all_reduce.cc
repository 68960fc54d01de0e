// Times one all-reduce over the transport: entrain lab run --cluster lab:4x1gbit -- build/bench/all_reduce
// BYTES REPEATS [ALGORITHM]
#include <fmt/format.h>

#include <cstdlib>
#include <numeric>

#include "entrain/base/error.h"
#include "entrain/base/quantile.h"
#include "entrain/collective/algorithms.h"
#include "entrain/collective/executor.h"
#include "entrain/job/context.h"
#include "entrain/train/train.h"

int main(int argc, char** argv) {
  using namespace entrain;
  const int64_t elements = argc > 1 ? std::atoll(argv[1]) / 4 : 33'554'432;
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 5;
  const std::string algorithm = argc > 3 ? argv[3] : "ring";
  job::Context context = job::init();
  std::vector<int> ranks(static_cast<size_t>(context.world()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto schedule = algorithm == "ring"     ? collective::ring(ranks, context.world())
                        : algorithm == "direct" ? collective::direct(ranks, context.world())
                                                : collective::halving_doubling(ranks, context.world());
  std::vector<float> data(static_cast<size_t>(elements), 1.0f);
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {
    collective::RunOptions options;
    options.tag = static_cast<transport::Tag>(i) << 32;
    options.what = "all-reduce";
    transport::barrier(*context.transport, transport::kControlTags, Deadline::after(60));
    const auto start = Clock::now();
    collective::execute(schedule, collective::Buffer({std::as_writable_bytes(std::span(data))}), options,
                        *context.transport);
    if (i > 0) times.push_back(seconds_since(start));  // the first opens the congestion windows
  }
  if (context.rank() == 0) {
    fmt::print(
        "{{\"bytes\": {}, \"algorithm\": \"{}\", \"median_s\": {:.4f}, \"p10_s\": {:.4f}, \"p90_s\": "
        "{:.4f}}}\n",
        elements * 4, schedule.name, median(times), quantile(times, 0.1), quantile(times, 0.9));
  }
  return 0;
}
