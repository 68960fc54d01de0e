// Named tensors in one file, in the public safetensors format:
//
//   8 bytes   length n of the header, little-endian
//   n bytes   JSON {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
//                   "__metadata__": {"KEY": "VALUE", ...}}, padded with spaces
//   the rest  the tensors' bytes, row-major, little-endian, without gaps
//
// Reading it runs nothing that the file says (as opposed to pickle), so a file from a stranger can only be
// wrong.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace entrain::tensor_files {

struct TensorFile {
  std::map<std::string, std::string> metadata;
  std::vector<std::pair<std::string, torch::Tensor>> tensors;
  bool checked = false;  // set by read_safetensors: the file held checksums, and they matched
};

// Writes `file` atomically (see AtomicFile), one tensor at a time, so that no second copy of the data is
// held. Two checksums are added to the metadata, under names that `metadata` must not use: "sha256.data" of
// all tensor bytes, and "sha256.header" of the header's bytes in which that value itself reads 64 zeros.
// Tensors on other devices are copied to the CPU; wider types go first, so that each tensor is aligned.
// Throws InputError naming the tensor for a type or layout that the format lacks, or a name given twice;
// Error when writing fails.
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

// Reads and checks everything; the tensors are contiguous, on the CPU, in the order of their bytes. The file
// is held to be hostile: at most 100 MB of header, and no size in it is believed before it is compared with
// the file's own. Checksums are verified when there are some, and left out of `metadata`. Throws InputError
// naming the file and the field.
TensorFile read_safetensors(const std::filesystem::path& path);

}  // namespace entrain::tensor_files
