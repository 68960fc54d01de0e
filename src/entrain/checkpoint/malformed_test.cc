// Checkpoints whose checksums hold and whose content is wrong, each refused by one line that says how.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "entrain/checkpoint/checkpoint.h"
#include "entrain/tensor_files/safetensors.h"
#include "support/malformed.h"
#include "support/temp_dir.h"

namespace entrain::checkpoint {
namespace {

// The one of step 3 with this field changed; "NAME" alone: taken out.
void read_with(const std::string& change) {
  const test::TempDir folder;
  tensor_files::TensorFile file;
  file.metadata = {{"format", "entrain-checkpoint"},
                   {"format_version", "1"},
                   {"step", "3"},
                   {"data_position", "3"},
                   {"world", "2"},
                   {"model", "net"},
                   {"seed", "7"},
                   {"strategy", "ring"},
                   {"optimizer", "SGD"}};
  const size_t equals = change.find('=');
  const std::string name = change.substr(0, equals);
  if (name.starts_with("rng.")) {
    file.tensors.emplace_back(name, torch::zeros(8, torch::kByte));
  } else if (equals == std::string::npos) {
    file.metadata.erase(name);
  } else {
    file.metadata[name] = change.substr(equals + 1);
  }
  if (name == "rng.2147483646") file.metadata["world"] = "2147483647";
  tensor_files::write_safetensors(folder.path() / "checkpoint-00000003.safetensors", file);
  Checkpoints(folder.path()).readable();
}

TEST(Malformed, Checkpoints) {
  EXPECT_NO_THROW(read_with("rng.1"));
  test::expect_refused({{"format", "format is missing"},
                        {"format_version", "format_version is missing"},
                        {"format=other", "format is other"},
                        {"format_version=2", "version 2; this program reads"},
                        {"step", "step is missing"},
                        {"step=x", "step is 'x', not a number"},
                        {"step=4", "its step is 4, not as its name says"},
                        {"step=-3", "step -3"},
                        {"step=3.5", "step is '3.5', not a number"},
                        {"step=99999999999999999999", "not a number"},
                        {"data_position", "data_position is missing"},
                        {"data_position=-1", "data_position -1"},
                        {"world", "world is missing"},
                        {"world=0", "world 0"},
                        {"world=-1", "world -1"},
                        {"world=4097", "world 4097; allowed: 0 or more, and 1 to 4096 ranks"},
                        {"world=2147483648", "world is '2147483648', not a number"},
                        {"model", "model is missing"},
                        {"seed", "seed is missing"},
                        {"seed=-1", "seed is '-1', not a number"},
                        {"strategy", "strategy is missing"},
                        {"rng.2", "rng.2 is not of one of its 2 ranks"},
                        {"rng.x", "rng.x is not of one of its 2 ranks"},
                        {"rng.-1", "rng.-1 is not of one of its 2 ranks"},
                        {"rng.2147483646", "world 2147483647"}},
                       read_with);
}

}  // namespace
}  // namespace entrain::checkpoint
