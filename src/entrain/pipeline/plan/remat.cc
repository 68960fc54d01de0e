#include "entrain/pipeline/plan/remat.h"

#include <fmt/ranges.h>

#include "entrain/base/error.h"

namespace entrain::pipeline {

std::vector<std::string> remat_names() { return {"never", "except-last", "always"}; }

std::string remat_name(Remat remat) { return remat_names().at(static_cast<size_t>(remat)); }

Remat parse_remat(const std::string& name) {
  for (const Remat remat : {Remat::kNever, Remat::kExceptLast, Remat::kAlways}) {
    if (name == remat_name(remat)) return remat;
  }
  bad_input("remat is '{}', allowed: {}", name, fmt::join(remat_names(), ", "));
}

bool recomputes(Remat remat, int micro_batch, int micro_batches) {
  if (remat == Remat::kExceptLast) return micro_batch != micro_batches - 1;
  return remat == Remat::kAlways;
}

}  // namespace entrain::pipeline
