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

// Models of any size, as the papers' tables have them: "unet:5,64" is U-Net(5, 64).
struct ModelFamily {
  std::string name;
  std::vector<std::string> sizes;  // what the numbers after the colon are
  size_t needed;                   // so many of them; the others have defaults
  std::function<std::shared_ptr<Model>(const std::vector<int64_t>& sizes)> make;

  std::string usage() const;  // "unet:B,C"
};

const std::vector<ModelInfo>& zoo();
std::vector<std::string> names();
const std::vector<ModelFamily>& families();

// The model on the CPU, its parameters a function of name and seed only: the same on every rank. Seeds
// torch's default generator. Safe to call from several threads at once. `name`: of the zoo, of a family
// with its sizes, or a TorchScript file (see script.h), whose parameters are those in it. Errors: InputError
// for an unknown name, listing the allowed ones, and for sizes that make no model.
std::shared_ptr<Model> make_model(const std::string& name, uint64_t seed);

}  // namespace entrain::models
