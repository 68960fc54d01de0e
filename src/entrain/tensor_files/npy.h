// NumPy's .npy files: one array each, as numpy.save writes them.
#pragma once

#include <torch/types.h>

#include <filesystem>

namespace entrain::tensor_files {

// The array, on the CPU. Little-endian numbers and bool, C order, versions 1 to 3; no pickled objects. The
// file is held to be hostile: no size in it is believed before it is compared with the file's own. Throws
// InputError naming the file and what is wrong with it.
torch::Tensor read_npy(const std::filesystem::path& path);

}  // namespace entrain::tensor_files
