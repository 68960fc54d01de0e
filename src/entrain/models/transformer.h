// Decoder-only transformer language model, normalized before each part (Radford et al. 2019), for any depth.
#pragma once

#include <memory>

#include "entrain/models/model.h"

namespace entrain::models {

struct TransformerOptions {
  int64_t layers = 12;
  int64_t hidden = 512;
  int64_t heads = 0;  // divides `hidden`; 0: one for each 64 of `hidden`, at least one
  int64_t vocabulary = 10000;
  int64_t sequence = 128;  // the longest
  double dropout = 0;      // 0 makes a step a function of its batch only
  double logit_cap = 30;   // logits stay within +-this
};

// input and target: tokens (N, sequence); the target is the next token. The decoder is tied to the embedding.
// Two things keep 128 and more blocks stable: the matrices that write to the residual stream start with
// deviation 0.02 / sqrt(2 layers), so that the sum of all blocks does not grow with depth, and logits are
// capped: cap tanh(x / cap).
// Errors: InputError when `heads` does not divide `hidden`.
std::shared_ptr<Model> make_transformer(TransformerOptions options);

}  // namespace entrain::models
