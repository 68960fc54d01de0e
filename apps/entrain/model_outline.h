// A model as a shape sees it: layers, and the parameters that they use. Nothing is computed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace entrain::app {

struct ModelOutline {
  struct Parameter {
    std::string name;
    int64_t bytes = 0;
    std::vector<int> layers;  // that use it, ascending; several: it is tied
  };

  std::string model;
  std::vector<std::string> layers;    // their names, in order
  std::vector<Parameter> parameters;  // each once
};

// Of a model by its name; one that is no sequence of layers counts as one layer, "whole". Throws InputError
// listing the models when it is none of them.
ModelOutline outline_model(const std::string& model);

}  // namespace entrain::app
