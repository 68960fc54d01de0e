#include "entrain/data/readers.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <map>
#include <sstream>
#include <unordered_map>

#include "entrain/base/error.h"
#include "entrain/base/files.h"

namespace entrain::data {
namespace {

constexpr int64_t kSide = 32, kChannels = 3, kRecord = 1 + kChannels * kSide * kSide;
constexpr const char* kUnknown = "<unk>";

torch::Tensor bytes_of(std::string& content) {
  return torch::from_blob(content.data(), {static_cast<int64_t>(content.size())}, torch::kUInt8);
}

uint32_t big_endian(const std::string& content, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(content[at + i]);
  return value;
}

template <typename Use>
void for_each_word(const std::string& text, Use use) {
  std::istringstream lines(text);
  std::string line, word;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    bool any = false;
    for (; words >> word; any = true) use(word);
    if (any) use("<eos>");
  }
}

}  // namespace

Images read_cifar10(const std::vector<std::filesystem::path>& files) {
  std::vector<torch::Tensor> pixels, labels;
  for (const auto& file : files) {
    std::string content = read_file(file);
    const auto size = static_cast<int64_t>(content.size());
    if (size == 0 || size % kRecord != 0) {
      bad_input("{}: {} bytes, allowed: a multiple of {} (a label and 3x32x32 pixels)", file.string(), size,
                kRecord);
    }
    const auto records = bytes_of(content).view({-1, kRecord});
    labels.push_back(records.select(1, 0).to(torch::kInt64));
    pixels.push_back(records.narrow(1, 1, kRecord - 1).reshape({-1, kChannels, kSide, kSide}).clone());
    const auto highest = labels.back().max().item<int64_t>();
    if (highest > 9) bad_input("{}: a label is {}, allowed: 0 to 9", file.string(), highest);
  }
  return {torch::cat(pixels), torch::cat(labels)};
}

torch::Tensor read_idx(const std::filesystem::path& file) {
  std::string content = read_file(file);
  const size_t size = content.size();
  if (size < 4 || content[0] != 0 || content[1] != 0) bad_input("{}: no IDX file", file.string());
  if (content[2] != 0x08) {
    bad_input("{}: IDX data type is 0x{:02x}, allowed: 0x08 (bytes)", file.string(),
              static_cast<unsigned char>(content[2]));
  }
  const auto dimensions = static_cast<size_t>(static_cast<unsigned char>(content[3]));
  const size_t header = 4 + 4 * dimensions;
  if (dimensions < 1 || dimensions > 4 || size < header)
    bad_input("{}: IDX header is cut short", file.string());
  std::vector<int64_t> shape;
  size_t count = 1;
  for (size_t d = 0; d < dimensions; ++d) {
    shape.push_back(big_endian(content, 4 + 4 * d));
    if (shape.back() == 0) bad_input("{}: its header says that it is empty", file.string());
    count *= static_cast<size_t>(shape.back());
    if (count > size) break;  // before it could overflow
  }
  if (count != size - header) {
    bad_input("{}: {} bytes of data, its header says {}", file.string(), size - header,
              fmt::join(shape, " x "));
  }
  return bytes_of(content)
      .narrow(0, static_cast<int64_t>(header), static_cast<int64_t>(count))
      .view(shape)
      .clone();
}

Images read_idx_images(const std::filesystem::path& images, const std::filesystem::path& labels) {
  Images result{read_idx(images), read_idx(labels).to(torch::kInt64)};
  if (result.pixels.dim() == 3) result.pixels = result.pixels.unsqueeze(1);
  if (result.pixels.dim() != 4 || result.labels.dim() != 1 ||
      result.pixels.size(0) != result.labels.size(0)) {
    bad_input("{} and {}: as many labels as images are wanted, there are {} and {}", images.string(),
              labels.string(), result.labels.numel(), result.pixels.size(0));
  }
  return result;
}

Vocabulary::Vocabulary(const std::string& text, int64_t most) {
  std::map<std::string, int64_t> counts;
  for_each_word(text, [&](const std::string& word) { ++counts[word]; });
  counts.erase(kUnknown);
  std::vector<std::pair<std::string, int64_t>> common(counts.begin(), counts.end());
  std::stable_sort(common.begin(), common.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  words_ = {kUnknown};
  for (const auto& [word, count] : common) {
    if (size() >= most) break;
    words_.push_back(word);
  }
}

torch::Tensor Vocabulary::tokens(const std::string& text) const {
  std::unordered_map<std::string, int64_t> token;
  for (size_t i = 0; i < words_.size(); ++i) token.emplace(words_[i], i);
  std::vector<int64_t> found;
  for_each_word(text, [&](const std::string& word) {
    const auto at = token.find(word);
    found.push_back(at == token.end() ? 0 : at->second);
  });
  return torch::tensor(found, torch::kInt64);
}

}  // namespace entrain::data
