// What proposes strategies with a shape to a tune: which ranks hold which layers, and how they synchronize.
#pragma once

#include <vector>

#include "entrain/dataset/dataset.h"
#include "entrain/tuner/search.h"

namespace entrain::tuner {

// Same trials told, same proposals: a tune that goes on asks again.
class ShapeSource {
 public:
  virtual ~ShapeSource() = default;
  // What a result is compared with: one host alone, plain pipelines. Their origins are kAloneOrigin and
  // kPipelineOrigin. Asked for once, before anything was tried.
  virtual std::vector<Proposal> rivals() = 0;
  // The next ones worth a trial, given all trials so far; none: it knows no better than what was tried.
  virtual std::vector<Proposal> ask(const std::vector<dataset::Trial>& trials) = 0;
};

}  // namespace entrain::tuner
