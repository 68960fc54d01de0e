// A shape in one line, for flags, tables and logs: cells as LAYERS@RANKS, then what else differs from the
// defaults.
//
//   @0-3                                data parallelism: all layers on ranks 0 to 3
//   @2                                  rank 2 alone
//   0-7@0,2 8-15@1,3 m=8                a pipeline of two replicas, 8 micro-batches per update
//   0-12@0*.1,1-3*.3 13-15@0 m=10       shares of the examples behind a star, by rank
//   ... schedule=gpipe remat=never
#pragma once

#include <string>

#include "entrain/strategy/shape.h"

namespace entrain::strategy {

// `layers`: of the model; a cell without a range of layers has them all. Cells and settings are divided by
// spaces or semicolons. Throws InputError naming the part that cannot be read, and what validate(shape)
// throws.
Shape parse_shape(const std::string& text, int layers);

// What parse_shape() reads back. Ranges where they can be, so that it stays short.
std::string to_text(const Shape& shape);

}  // namespace entrain::strategy
