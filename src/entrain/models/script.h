// Models of the user's own: TorchScript, written in Python, whose forward returns the loss.
//
//   class Mine(torch.nn.Module):
//       def forward(self, x, y): ...     # one tensor or more; returns the mean loss over the batch
//       @torch.jit.export
//       def example(self, n: int): ...   # n made-up examples, as forward takes them; needed without --data
//   torch.jit.script(Mine()).save("mine.pt")
//
// A module with a ModuleList or Sequential `layers`, each of which maps a tensor to a tensor, and an exported
// method `loss(output, y)`, is a sequence of layers that shapes can cut; its forward(x, y) must be
// loss(all layers in a row, y).
//
// An int attribute `classes` says how many different targets there are (text needs it for its vocabulary).
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "entrain/models/model.h"

namespace entrain::models {

// Whether a model's name is that of a TorchScript file: it ends with .pt or .pth.
bool is_script(const std::string& name);

// The model in the file, in training mode, on the CPU. Its parameters and buffers are the script's own
// tensors under Python's names; a tensor with two names (a tied one) is a parameter under the first, and both
// are in state(). It runs operation by operation: torch's fusing of whole stretches into one would hide which
// gradient is ready when. The file is a program: it can do what TorchScript can.
// Errors: InputError naming the file when there is none, when it is not TorchScript, has no forward, takes or
// returns something else than tensors, or has nothing to train. What forward makes of a batch shows in
// loss(): InputError with the batch's shapes.
std::shared_ptr<Model> load_script(const std::filesystem::path& path);

// The model with its present parameters and buffers as TorchScript that torch.jit.load reads; the file
// appears when it is complete. Errors: InputError for a model that is none (of the zoo); Error when writing
// fails.
void save_script(const Model& model, const std::filesystem::path& path);

}  // namespace entrain::models
