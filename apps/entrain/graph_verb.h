// G of a model of the zoo, profiled in this process.
#pragma once

#include <cstdint>
#include <string>

#include "entrain/graph/graph.h"

namespace entrain::app {

struct ProfileRequest {
  std::string model;
  int64_t batch_size = 32;  // as train and tune
  int repeats = 3;          // medians are taken
  uint64_t seed = 0;
  std::string device = "cpu";  // or cuda
};

// Throws InputError listing the models when `model` is none of them.
graph::Graph profile_model(const ProfileRequest& request);

}  // namespace entrain::app
