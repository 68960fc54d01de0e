#include "entrain/tensor_files/npy.h"

#include <torch/torch.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/base/files.h"

namespace entrain::tensor_files {
namespace {

constexpr size_t kMostAxes = 64;
constexpr std::string_view kMagic = "\x93NUMPY";

// What follows 'key': in the header, a Python dict such as
//   {'descr': '<f4', 'fortran_order': False, 'shape': (60, 3), }
std::string_view value_of(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  std::string_view rest = header.substr(at + key.size());
  const size_t start = rest.find_first_not_of(" :");
  return start == std::string_view::npos ? std::string_view{} : rest.substr(start);
}

std::optional<torch::ScalarType> type_of(std::string_view descr) {
  static const std::pair<std::string_view, torch::ScalarType> known[] = {
      {"'<f2'", torch::kFloat16}, {"'<f4'", torch::kFloat32}, {"'<f8'", torch::kFloat64},
      {"'<i2'", torch::kInt16},   {"'<i4'", torch::kInt32},   {"'<i8'", torch::kInt64},
      {"'|i1'", torch::kInt8},    {"'|u1'", torch::kUInt8},   {"'|b1'", torch::kBool}};
  for (const auto& [text, type] : known) {
    if (descr.starts_with(text)) return type;
  }
  return std::nullopt;
}

// "(60, 3)", "(60,)", "()". Nothing when it is no such list, or its product overflows: that of an array
// without numbers, too, with 1 for 0, since torch computes strides from the others.
std::optional<std::vector<int64_t>> sizes_of(std::string_view text) {
  if (!text.starts_with('(')) return std::nullopt;
  std::vector<int64_t> sizes;
  int64_t room = sizeof(double);
  const char* at = text.data() + 1;
  const char* const end = text.data() + text.size();
  while (true) {
    while (at != end && (*at == ' ' || *at == ',')) ++at;
    if (at == end) return std::nullopt;
    if (*at == ')') return sizes;
    int64_t size = 0;
    const auto parsed = std::from_chars(at, end, size);
    if (parsed.ec != std::errc() || size < 0 || sizes.size() == kMostAxes ||
        __builtin_mul_overflow(room, std::max<int64_t>(size, 1), &room)) {
      return std::nullopt;
    }
    sizes.push_back(size);
    at = parsed.ptr;
  }
}

}  // namespace

torch::Tensor read_npy(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  const auto wrong = [&](const std::string& what) { bad_input("{}: {}", path.string(), what); };
  if (!content.starts_with(kMagic) || content.size() < 12) wrong("no .npy file (numpy.save writes one)");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(content[i])); };
  // Version 1 has two bytes for the header's length, later ones four.
  const bool wide = byte(6) > 1;
  const size_t begin = wide ? 12 : 10;
  const size_t length = byte(8) | byte(9) << 8 | (wide ? byte(10) << 16 | byte(11) << 24 : 0);
  if (length > content.size() - begin) wrong("the header goes beyond the file's end");
  const std::string_view header = std::string_view(content).substr(begin, length);
  const auto type = type_of(value_of(header, "'descr'"));
  if (!type) {
    wrong(fmt::format("numbers of kind {}; allowed: f2, f4, f8, i1, i2, i4, i8, u1 and b1, little-endian",
                      value_of(header, "'descr'").substr(0, 12)));
  }
  if (!value_of(header, "'fortran_order'").starts_with("False")) {
    wrong("columns first; numpy.ascontiguousarray puts rows first");
  }
  const auto sizes = sizes_of(value_of(header, "'shape'"));
  if (!sizes) wrong("its shape cannot be read");
  uint64_t elements = 1;
  for (const int64_t size : *sizes) elements *= static_cast<uint64_t>(size);
  const uint64_t bytes = content.size() - begin - length;
  if (bytes % c10::elementSize(*type) != 0 || elements != bytes / c10::elementSize(*type)) {
    wrong(fmt::format("{} bytes for {} numbers", bytes, elements));
  }
  // A bool that is neither 0 nor 1 is undefined behaviour, so bools are read as bytes and converted.
  const auto stored = *type == torch::kBool ? torch::kUInt8 : *type;
  torch::Tensor result = torch::empty(*sizes, stored);
  if (bytes > 0) std::memcpy(result.data_ptr(), content.data() + begin + length, bytes);
  return result.to(*type);
}

}  // namespace entrain::tensor_files
