#include "entrain/plan/moves.h"

#include <algorithm>
#include <map>

#include "entrain/base/error.h"

namespace entrain::plan {

std::vector<Move> moves(const std::vector<Held>& things) {
  std::vector<Move> result;
  std::map<int, int64_t> sent;  // by rank
  for (size_t t = 0; t < things.size(); ++t) {
    const Held& thing = things[t];
    for (const int to : thing.wanted) {
      if (std::binary_search(thing.had.begin(), thing.had.end(), to)) continue;
      if (thing.had.empty()) fail("rank {} wants thing {}, which nobody has", to, t);
      const int from = *std::min_element(thing.had.begin(), thing.had.end(),
                                         [&](int a, int b) { return sent[a] < sent[b]; });
      sent[from] += thing.bytes;
      result.push_back({t, from, to});
    }
  }
  return result;
}

int64_t bytes_of(const std::vector<Move>& moves, const std::vector<Held>& things) {
  int64_t sum = 0;
  for (const Move& move : moves) sum += things[move.thing].bytes;
  return sum;
}

}  // namespace entrain::plan
