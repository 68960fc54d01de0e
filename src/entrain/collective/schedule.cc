#include "entrain/collective/schedule.h"

#include "entrain/base/near_equal.h"

namespace entrain::collective {

Range chunk_range(int64_t elements, int chunks, int c) {
  const NearEqualParts parts(elements, chunks);
  return {parts.begin(c), parts.end(c)};
}

std::vector<Traffic> traffic(const Schedule& schedule, int64_t elements, int64_t element_size) {
  std::vector<Traffic> result(schedule.ranks);
  for (size_t i = 0; i < schedule.transfers.size(); ++i) {
    const Transfer& t = schedule.transfers[i];
    const int64_t times = schedule.times.empty() ? 1 : schedule.times[i];
    const int64_t bytes = times * chunk_range(elements, schedule.chunks, t.chunk).size() * element_size;
    result[t.from].sent += bytes;
    result[t.to].received += bytes;
  }
  return result;
}

}  // namespace entrain::collective
