// A hostfile.
#include "target.h"

#include "entrain/cluster/parsers.h"

FUZZ_TARGET(text) { entrain::cluster::cluster_from_hostfile(text, "hosts"); }
