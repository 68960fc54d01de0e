// Neural collaborative filtering (NeuMF, He et al. 2017): the elementwise product of two embeddings beside a
// perceptron over two more, joined by one output.
#pragma once

#include <memory>
#include <vector>

#include "entrain/models/model.h"

namespace entrain::models {

struct NcfOptions {
  int64_t users = 138'493;  // MovieLens-20M
  int64_t items = 26'744;
  int64_t factors = 64;  // width of the product's embeddings
  std::vector<int64_t> layers = {256, 256, 128,
                                 64};  // the perceptron: input (half user, half item), ..., output
  bool sparse = false;  // gradients of the embeddings as sparse tensors: only the rows of the batch
};

// input: (N, 2), user and item. target: (N), 1 for an interaction and 0 for none.
std::shared_ptr<Model> make_ncf(const NcfOptions& options);

}  // namespace entrain::models
