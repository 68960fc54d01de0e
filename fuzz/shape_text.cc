// A shape as text; what is read can be written and read again.
#include "target.h"

#include "entrain/strategy/shape_text.h"

FUZZ_TARGET(text) {
  using namespace entrain::strategy;
  const Shape shape = parse_shape(text, 16);
  if (parse_shape(to_text(shape), 16) != shape) std::abort();
}
