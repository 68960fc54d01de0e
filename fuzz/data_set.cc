// A line of a data set; what is not whole is refused.
#include "target.h"

#include "entrain/dataset/record.h"

FUZZ_TARGET(text) {
  using namespace entrain::dataset;
  is_whole(text);
  parse_line(text);
}
