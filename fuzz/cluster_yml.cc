// cluster.yml; what is read can be written and read again.
#include "target.h"

#include "entrain/cluster/cluster.h"

FUZZ_TARGET(text) {
  using namespace entrain::cluster;
  cluster_from_yaml(to_yaml(cluster_from_yaml(text, "c.yml")), "c.yml");
}
