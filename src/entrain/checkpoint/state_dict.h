// A model's parameters and buffers as a file that Python reads and writes too (safetensors.torch).
#pragma once

#include <filesystem>

#include "entrain/models/model.h"

namespace entrain::checkpoint {

// Names as in Python's state_dict. Throws Error when writing fails; the file is complete or not there.
void save_state_dict(const models::Model& model, const std::filesystem::path& path);

// Throws InputError naming the variable and both shapes when the file lacks a parameter, holds one that the
// model does not have, or of another shape; then nothing has changed. A buffer that is not in the file keeps
// its value, with a warning. Numbers are converted to the model's type.
void load_state_dict(models::Model& model, const std::filesystem::path& path);

}  // namespace entrain::checkpoint
