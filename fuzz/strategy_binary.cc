// A strategy in the binary form of protobuf; what is read can be written and read again.
#include "target.h"

#include "entrain/strategy/stored.h"

FUZZ_TARGET(text) {
  using namespace entrain::strategy;
  from_binary(to_binary(from_binary(text)));
}
