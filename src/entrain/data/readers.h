// Files of examples into memory, all of them. Errors: InputError naming the file and what is wrong with it.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace entrain::data {

struct Images {
  torch::Tensor pixels;  // uint8 (N, channels, height, width)
  torch::Tensor labels;  // int64 (N)
};

// CIFAR-10's binary form: records of one label byte and 3072 pixel bytes, channel by channel.
Images read_cifar10(const std::vector<std::filesystem::path>& files);

// IDX, as MNIST has it: big-endian magic 0x08 (bytes) and dimensions, then the data.
torch::Tensor read_idx(const std::filesystem::path& file);
Images read_idx_images(const std::filesystem::path& images, const std::filesystem::path& labels);

// Words by blanks, a line's end as "<eos>". Token 0 is "<unk>"; the others are the commonest words of the
// training text, most common first, equal ones by the alphabet.
class Vocabulary {
 public:
  // Requires: most >= 1 tokens, "<unk>" counted.
  Vocabulary(const std::string& text, int64_t most);
  int64_t size() const { return static_cast<int64_t>(words_.size()); }
  torch::Tensor tokens(const std::string& text) const;  // int64 (words)
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::vector<std::string> words_;
};

}  // namespace entrain::data
