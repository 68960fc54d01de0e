// The models by name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "entrain/models/model.h"

namespace entrain::models {

struct ModelInfo {
  std::string name;
  std::string description;
  std::function<std::shared_ptr<Model>()> make;
};

const std::vector<ModelInfo>& zoo();
std::vector<std::string> names();

// The model on the CPU, its parameters a function of name and seed only: the same on every rank. Seeds
// torch's default generator. Safe to call from several threads at once. Errors: InputError for an unknown
// name, listing the allowed ones.
std::shared_ptr<Model> make_model(const std::string& name, uint64_t seed);

}  // namespace entrain::models
