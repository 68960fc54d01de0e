// Examples of the user's own: one tensor for each that the model takes, one row an example.
#pragma once

#include <filesystem>
#include <memory>

#include "entrain/data/data.h"

namespace entrain::data {

// `path`: a .safetensors file with tensors by the names of model.inputs(), or a folder with a NAME.npy for
// each. Held-out examples are test_NAME; without them there are none. Floating-point numbers become the type
// of the model's parameters (NumPy's are double by default), others stay. Throws InputError naming tensor and
// shape: one is missing, they have different numbers of rows, or too few for a batch of each worker.
std::unique_ptr<Data> make_tensor_data(const std::filesystem::path& path, const models::Model& model,
                                       const DataOptions& options);

}  // namespace entrain::data
