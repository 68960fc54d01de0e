// local:N and lab:...
#include "target.h"

#include "entrain/cluster/parsers.h"

FUZZ_TARGET(text) {
  using namespace entrain::cluster;
  if (is_shorthand(text)) cluster_from_shorthand(text);
}
