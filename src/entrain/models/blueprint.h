// Models too large to hold, for planning.
#pragma once

#include <memory>
#include <string>

#include "entrain/models/model.h"

namespace entrain::models {

// The model of that name (see make_model) with shapes but without numbers: its parameters, on torch's meta
// device, take no memory, and its layers, given an input on that device (`batch.to(torch::kMeta)`), only work
// out the shape of what they would make. 15.8 billion parameters take 20 ms. A TorchScript file's model is
// not drawn but loaded. Thread-safe as make_model.
std::shared_ptr<Model> make_blueprint(const std::string& name);

}  // namespace entrain::models
