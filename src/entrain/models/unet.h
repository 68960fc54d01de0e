// U-Net(B, C) (Ronneberger et al. 2015), in the simplified form that torchgpipe measures.
#pragma once

#include <memory>

#include "entrain/models/model.h"

namespace entrain::models {

// `levels` stages down, a bottom, as many stages up, each of `convolutions` 3x3 convolutions; a stage up also
// gets a copy of what its stage down made:
//
//   C ─────────────────────────────▶ C/2 ─▶ mask
//   └▶ 2C ──────────────────▶ C ─────┘
//       └▶ 4C ───────▶ 2C ────┘
//           └▶ bottom ──┘
struct UnetOptions {
  int64_t convolutions = 5;  // B
  int64_t channels = 64;     // C: of the first stage, twice as many in each one further down; even
  int64_t levels = 5;
  int64_t side = 192;  // of the square image; a multiple of 2^levels
};

// input: images (N, 3, side, side). target: (N, 1, side, side), 1 where something is, else 0.
// Differs from torchgpipe's, which has instance norm and drops channels: batch norm here, no dropout.
// Its parameters are those of torchgpipe's table, 362.2 M for (6, 72) up to 15.82 B for (48, 160): the norms'
// own do not show in these digits.
// Errors: InputError for an odd C, or a side that cannot be halved so often.
std::shared_ptr<Model> make_unet(const UnetOptions& options);

}  // namespace entrain::models
