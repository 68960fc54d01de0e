#include "entrain/collective/schedule.h"

#include <algorithm>

namespace entrain::collective {

Range chunk_range(int64_t elements, int chunks, int c) {
  const int64_t base = elements / chunks;
  const int64_t longer = elements % chunks;
  const int64_t begin = c * base + std::min<int64_t>(c, longer);
  return {begin, begin + base + (c < longer ? 1 : 0)};
}

std::vector<Traffic> traffic(const Schedule& schedule, int64_t elements, int64_t element_size) {
  std::vector<Traffic> result(schedule.ranks);
  for (const Transfer& t : schedule.transfers) {
    const int64_t bytes = chunk_range(elements, schedule.chunks, t.chunk).size() * element_size;
    result[t.from].sent += bytes;
    result[t.to].received += bytes;
  }
  return result;
}

}  // namespace entrain::collective
