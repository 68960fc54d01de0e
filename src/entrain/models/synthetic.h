// Made-up data that can be learned.
#pragma once

#include "entrain/models/model.h"

namespace entrain::models {

// Noise over waves along the width, whose frequency is the class: input (N, 3, side, side), target (N).
Batch synthetic_images(int64_t batch_size, int64_t side, int64_t classes, torch::Generator& generator);

// Sequences (N, length) of tokens in [0, vocabulary): the first is random, each other follows from the one
// before it.
torch::Tensor synthetic_tokens(int64_t batch_size, int64_t length, int64_t vocabulary,
                               torch::Generator& generator);

// For language models: input and target (N, length), such sequences and the tokens that follow.
Batch synthetic_text(int64_t batch_size, int64_t length, int64_t vocabulary, torch::Generator& generator);

// Noise with a brighter disc somewhere: input (N, 3, side, side); the target (N, 1, side, side) is 1 within
// it.
Batch synthetic_discs(int64_t batch_size, int64_t side, torch::Generator& generator);

}  // namespace entrain::models
