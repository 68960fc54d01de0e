#include "entrain/pipeline/run/assemble.h"

#include <algorithm>

#include "entrain/base/error.h"
#include "entrain/layers/batch_norm.h"

namespace entrain::pipeline {

Cut checked_cut(const layers::Sequence& sequence, const Options& options) {
  if (sequence.layers.empty()) bad_input("the model is not a sequence of layers: no pipeline can run it");
  Cut result = cut(sequence.layers, options.balance);
  if (result.cells() != options.devices * options.chunks) {
    bad_input("{} cells for {} devices of {} cells each", result.cells(), options.devices, options.chunks);
  }
  return result;
}

std::vector<Cell> cells_of(const layers::Sequence& sequence, const Cut& cut, const Options& options,
                           int device) {
  std::vector<Cell> cells;
  for (int c = device; c < cut.cells(); c += options.devices) {
    cells.emplace_back(sequence.layers, cut, c, options.seed);
    for (const auto& module : cells.back().modules()) {
      layers::defer_batch_norm(*module, options.defer_batch_norm);
    }
  }
  return cells;
}

void place_cells(const layers::Sequence& sequence, const Cut& cut, const std::vector<torch::Device>& places) {
  const auto place_of = [&](int cell) { return places[static_cast<size_t>(cell) % places.size()]; };
  for (const auto& [parameter, cells] : tied_parameters(sequence, cut)) {
    for (const int cell : cells) {
      if (place_of(cell) != place_of(cells.front())) {
        bad_input(
            "a parameter of {} elements belongs to cells on {} and {}; allowed: one GPU for both, or cpu",
            parameter.numel(), place_of(cells.front()).str(), place_of(cell).str());
      }
    }
  }
  for (int c = 0; c < cut.cells(); ++c) {
    for (int layer = cut.first[c]; layer < cut.first[c + 1]; ++layer) {
      if (sequence.layers[layer].module) sequence.layers[layer].module->to(place_of(c));
    }
  }
}

std::vector<torch::Tensor> parameters_of(const std::vector<const Cell*>& cells) {
  std::vector<torch::Tensor> result;
  for (const Cell* cell : cells) {
    for (const auto& parameter : cell->parameters()) {
      const auto same = [&](const torch::Tensor& other) { return other.is_same(parameter); };
      if (std::none_of(result.begin(), result.end(), same)) result.push_back(parameter);
    }
  }
  return result;
}

std::vector<std::pair<torch::Tensor, std::vector<int>>> tied_parameters(const layers::Sequence& sequence,
                                                                        const Cut& cut) {
  std::vector<std::pair<torch::Tensor, std::vector<int>>> all;
  for (int c = 0; c < cut.cells(); ++c) {
    for (int layer = cut.first[c]; layer < cut.first[c + 1]; ++layer) {
      for (const auto& parameter : sequence.layers[layer].parameters()) {
        const auto same = [&](const auto& other) { return other.first.is_same(parameter); };
        const auto found = std::find_if(all.begin(), all.end(), same);
        if (found == all.end()) {
          all.push_back({parameter, {c}});
        } else if (found->second.back() != c) {
          found->second.push_back(c);
        }
      }
    }
  }
  std::erase_if(all, [](const auto& entry) { return entry.second.size() < 2; });
  return all;
}

}  // namespace entrain::pipeline
