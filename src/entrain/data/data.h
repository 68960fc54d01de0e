// Examples to train and test with: from files, or made up.
//
//   --data              what is read                                              for models with
//   (none)              the model's own synthetic batches                         anything
//   cifar10:FOLDER      data_batch_*.bin, test_batch.bin (CIFAR-10, binary)       3-channel images
//   idx:FOLDER          train-images-idx3-ubyte, ... (MNIST and kin)              images
//   text:FILE|FOLDER    words, the commonest as tokens; train.txt, test.txt       tokens (language models)
//   tensors:FILE        safetensors: x, y (as forward names them), test_x, ...    anything
//   tensors:FOLDER      the same as NumPy's x.npy, y.npy, test_x.npy, ...         anything
//   FOLDER, FILE        whichever of these is found there
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "entrain/models/model.h"

namespace entrain::data {

struct DataOptions {
  int64_t examples = 32;  // per update, of all workers together
  uint64_t seed = 0;
  bool augment = true;  // images: random crops and flips in training
  torch::Device device = torch::kCPU;
};

// What an update sees follows from the options and its step: a resumed job sees what it would have seen, and
// who computes which of the examples changes none of them. Each epoch goes through all examples once. Not
// thread-safe.
class Data {
 public:
  virtual ~Data() = default;
  // Examples [begin, begin + count) of the update that `step` makes.
  virtual models::Batch training(int64_t step, int64_t begin, int64_t count) = 0;
  virtual int64_t steps_per_epoch() const = 0;
  // The held-out examples, in order and unchanged; the last batch may be smaller. 0: there are none.
  virtual int64_t test_batches() const = 0;
  virtual models::Batch test(int64_t index) = 0;
};

// Throws InputError naming the file, what is wrong and what is allowed; also when the data does not fit the
// model (side, channels, classes).
std::unique_ptr<Data> open_data(const std::string& spec, const models::Model& model,
                                const DataOptions& options);

}  // namespace entrain::data
