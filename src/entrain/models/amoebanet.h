// AmoebaNet-D(L, F) (Real et al. 2019), as GPipe scales it.
#pragma once

#include <memory>

#include "entrain/models/model.h"

namespace entrain::models {

// A stem, two reduction cells, then thrice L/3 normal cells with a reduction cell between; channels double
// in each reduction cell. A cell reads the outputs of the two cells before it.
struct AmoebanetOptions {
  int64_t layers = 18;    // L: normal cells, a multiple of 3
  int64_t filters = 256;  // F: 4 times the stem's channels, a multiple of 8
  int64_t side = 224;     // of the square image; a multiple of 32
  int64_t classes = 1000;
};

// The genotype and what a normal cell concatenates are those of the TensorFlow implementation, which
// torchgpipe found to give the parameters of GPipe's table 1 (the AmoebaNet paper concatenates others): 81.5
// M for (18, 208) up to 1.84 B for (72, 512), as here. Differs from torchgpipe's where that changes no
// parameter: the 3x3 maximum is one (there it is an average), and no ReLU cuts the image's negative half off.
// Errors: InputError for sizes that do not divide as said above.
std::shared_ptr<Model> make_amoebanet_d(const AmoebanetOptions& options);

}  // namespace entrain::models
