// Text for language models: the next token is the target.
#pragma once

#include <filesystem>
#include <memory>

#include "entrain/data/data.h"

namespace entrain::data {

// A folder with train.txt and test.txt, or one file whose last tenth is held out. The vocabulary is the
// model's size, of the training text's commonest words. Throws InputError when the model takes no tokens or
// the text is too short for a batch.
std::unique_ptr<Data> make_text_data(const std::filesystem::path& path, const models::Model& model,
                                     const DataOptions& options);

}  // namespace entrain::data
