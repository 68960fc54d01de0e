// LSTM language model (Zaremba et al. 2014, medium size): embedding, LSTM layers, decoder.
#pragma once

#include <memory>

#include "entrain/models/model.h"

namespace entrain::models {

struct LstmOptions {
  int64_t layers = 2;
  int64_t hidden = 650;
  int64_t vocabulary = 10000;
  int64_t sequence = 35;
};

// input and target: tokens (N, sequence); the target is the next token. Each sequence starts from a zero
// state.
std::shared_ptr<Model> make_lstm(const LstmOptions& options);

}  // namespace entrain::models
