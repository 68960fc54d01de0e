// Who sends what to whom so that each thing is where it is wanted: by the fewest bytes, as nobody is sent
// what he has, and from those who have sent least so far.
//
//   bytes = sum over things of size x |wanted \ had|
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace entrain::plan {

// Something that ranks hold: a parameter with what the optimizer remembers of it, a buffer.
struct Held {
  int64_t bytes = 0;
  std::vector<int> had, wanted;  // ranks, ascending
};

struct Move {
  size_t thing;
  int from, to;
  friend bool operator==(const Move&, const Move&) = default;
};

// By thing, then by `to`: the same on every rank. Throws Error where something is wanted that nobody has.
std::vector<Move> moves(const std::vector<Held>& things);

// Of all moves.
int64_t bytes_of(const std::vector<Move>& moves, const std::vector<Held>& things);

}  // namespace entrain::plan
