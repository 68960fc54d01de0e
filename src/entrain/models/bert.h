// BERT (Devlin et al. 2019) with its masked-language-model loss; the decoder is tied to the embedding.
#pragma once

#include <memory>

#include "entrain/models/model.h"

namespace entrain::models {

struct BertOptions {
  int64_t layers = 12;
  int64_t hidden = 768;
  int64_t heads = 12;
  int64_t vocabulary = 30522;
  int64_t positions = 512;  // rows of the position table
  int64_t sequence = 128;   // of the synthetic data; at most `positions`
  double dropout = 0;       // 0.1 in the paper; 0 makes a step a function of its batch only
};

// input: tokens (N, sequence), some replaced by the mask token 0. target: (N, 2, k), the positions of the
// masked tokens and what they were; k, the same for each example, is 15% of the sequence.
std::shared_ptr<Model> make_bert(const BertOptions& options);

}  // namespace entrain::models
