// What a standing job steps: a model of the zoo on synthetic examples, or the replay of one, as a whole on
// every rank or in any shape.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "entrain/trials/shape_stepper.h"
#include "entrain/trials/stepper.h"

namespace entrain::trials {

struct StandingOptions {
  std::string model;             // of the zoo
  std::string compute = "real";  // or replay:FILE, a profiled graph
  int64_t batch_size = 32;       // per rank
  uint64_t seed = 0;
  bool shapes = false;  // strategies with a shape will come: G has its layers' times, too, and is rank 0's
};

// Throws InputError unless `compute` is "real" or replay: with a graph that can be read.
void check_compute(const std::string& compute);

// Collective over the ranks that train. A strategy without a shape is run as `entrain train` does
// (parallel/distributed.h), one with a shape by parallel/shaped.h, each on an instance of the model of its
// own. With `shapes` these are made when the first such strategy comes, and no step is made before. Where
// passes of real compute are paced, to rehearse a slower host, all are run by the latter.
std::unique_ptr<Stepper> make_stepper(job::Context& context, const StandingOptions& options);

}  // namespace entrain::trials
