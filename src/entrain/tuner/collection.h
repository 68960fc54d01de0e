// Which strategies a data set is collected from.
#pragma once

#include <string>
#include <vector>

#include "entrain/dataset/dataset.h"
#include "entrain/strategy/sampler/sampler.h"

namespace entrain::tuner {

struct NextTrial {
  strategy::Strategy strategy;
  std::string origin;
};

// Trial k's strategy depends on the seed, k and the trials before it only, so that a collection goes on
// after a kill as if nothing had happened. All builders first. Then, in turn, draws from both spaces, and
// children of good strategies: a ranker has to tell good ones apart, not only good from bad. After the
// first `trials`, all are visited again, each time in another order: what the machine does to one visit of
// a strategy it does not do to the next.
class Collection {
 public:
  // `trials`: how many different strategies. `domain` outlives this; its trials are those made so far.
  Collection(const dataset::Domain& domain, int trials, uint64_t seed);

  NextTrial next() const;

 private:
  NextTrial revisit(size_t k) const;
  std::vector<const dataset::Trial*> best() const;  // the best quarter so far
  NextTrial draw(const std::vector<const dataset::Trial*>& good, strategy::Rng& rng) const;

  const dataset::Domain& domain_;
  size_t trials_;
  uint64_t seed_;
  strategy::Sampler own_, published_;
};

}  // namespace entrain::tuner
