// How good a tune's result is: against the least time that any shape could take here (planner/bound.h), and
// against one host alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "entrain/dataset/dataset.h"
#include "entrain/tuner/result.h"

namespace entrain::app {

// Requires: the domain's graph has layers with times. `shared_cores`: of emulated hosts; 0: each has its own.
nlohmann::json certificate_of(const tuner::TuneResult& result, const dataset::Domain& domain,
                              double shared_cores);

// "4 hosts: 2.40x one host alone, which takes ...", or to use one host; then the bound, and what binds.
std::string certificate_text(const nlohmann::json& certificate);

}  // namespace entrain::app
