// What `entrain demo` has measured, as a table that says which strategy wins and why, and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "entrain/cluster/cluster.h"
#include "entrain/plan/link_bound.h"

namespace entrain::app {

struct DemoRow {
  std::string name;
  std::vector<double> step_times;  // seconds; at least one
  plan::LinkBound bound;
  std::string shape = {};  // as text; empty: all layers on every rank
};

struct DemoResult {
  std::string model;
  int64_t batch_size;
  std::vector<DemoRow> rows;
  double best_bound_s;  // 0: all ranks are on one host, no link carries anything
  bool interrupted;
};

// Step times are compared with those of `ddp`; without it, of `allreduce`; without that, of the first row.
nlohmann::json demo_json(const DemoResult& result, const cluster::Cluster& cluster);
std::string demo_text(const DemoResult& result, const cluster::Cluster& cluster);

}  // namespace entrain::app
