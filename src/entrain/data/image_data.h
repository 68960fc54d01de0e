// Images in memory, cropped to what the model takes.
#pragma once

#include <memory>

#include "entrain/data/data.h"
#include "entrain/data/readers.h"

namespace entrain::data {

// Pixels become (p - mean) / deviation, channel by channel, of the training images. In training each image is
// cropped at random to the model's side (padded by 4 where it has that side already) and mirrored half
// the time; in testing the middle is taken. Throws InputError when model and images do not fit.
std::unique_ptr<Data> make_image_data(Images training, Images test, const models::Model& model,
                                      const DataOptions& options);

}  // namespace entrain::data
