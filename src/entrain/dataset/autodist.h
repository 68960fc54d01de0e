// AutoDist's published data set (about 10,000 runs), read and written.
//
//   ROOT/MODEL/graph_item                     a GraphItem (autodist.proto)
//   ROOT/MODEL/CLUSTER/resource_spec/ID       YAML: nodes: [{address, cpus, gpus, chief, network_bandwidth,
//   ...}] ROOT/MODEL/CLUSTER/runtime/ID             YAML or JSON: {average: 1.23, runtime: [1.2, 1.3, ...]}
//   ROOT/MODEL/CLUSTER/strategies/ID          a Strategy (strategy.proto, binary)
//
// Also taken, as its releases and tools differ: `strategy/`, `runtimes/`, `resource_specs/`; one
// resource_spec.yml in the cluster's folder for all IDs; ".yml" after an ID; a model's folder itself as ROOT.
// entrain also writes MODEL/CLUSTER/graph_item, since times are those of a cluster; it is read before the
// model's.
#pragma once

#include <filesystem>

#include "entrain/dataset/dataset.h"

namespace entrain::dataset {

struct ImportOptions {
  // A sparse variable's rows in a step are not in the files; AutoSync takes batch x sequence of the model.
  int64_t batch_size = 32;
  int64_t sequence = 1;
};

// A domain for each model, cluster and different resource spec: MODEL@CLUSTER, then MODEL@CLUSTER#2, ...
// Without a graph_item, G is what the strategies say: variables in the order in which they are named, each
// just large enough for its partition. IDs without a strategy or a run-time are left out. A run whose
// strategy this build cannot check or run (validate(): an asynchronous server, say) is kept as kFailed with
// the reason, so that no simulator meets it. Throws InputError naming the file.
Dataset import_autodist(const std::filesystem::path& root, const ImportOptions& options = {});

// Writes ROOT, which must not exist or be empty. The format has no place for failed trials, settings and
// origins; everything else comes back by import_autodist. Domains of one model must have the same variables.
// Throws InputError.
void export_autodist(const Dataset& dataset, const std::filesystem::path& root);

}  // namespace entrain::dataset
