// A strategy in JSON; what is read can be written and read again.
#include "target.h"

#include "entrain/strategy/stored.h"

FUZZ_TARGET(text) {
  using namespace entrain::strategy;
  from_json(to_json(from_json(text)));
}
