// A shape as text; one that covers all layers can be written and read again. (A single cell is written
// without its layers.)
#include "target.h"

#include "entrain/strategy/shape_text.h"

FUZZ_TARGET(text) {
  using namespace entrain::strategy;
  constexpr int kLayers = 16;
  const Shape shape = parse_shape(text, kLayers);
  const bool covers = shape.cells.front().begin == 0 && shape.cells.back().end == kLayers;
  if (covers && parse_shape(to_text(shape), kLayers) != shape) std::abort();
}
