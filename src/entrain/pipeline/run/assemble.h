// What a sequence and options become.
#pragma once

#include <utility>
#include <vector>

#include "entrain/pipeline/run/cell.h"
#include "entrain/pipeline/run/options.h"

namespace entrain::pipeline {

// Throws InputError for options that do not fit the sequence.
Cut checked_cut(const layers::Sequence& sequence, const Options& options);

// Of one device, ascending: batch norm deferred as the options say. The sequence outlives
// the cells.
std::vector<Cell> cells_of(const layers::Sequence& sequence, const Cut& cut, const Options& options,
                           int device);

// Moves each cell's parameters and buffers to its device's place; a device's cells compute where their
// parameters are. Throws InputError where a parameter that several cells have would have to be in two places.
void place_cells(const layers::Sequence& sequence, const Cut& cut, const std::vector<torch::Device>& places);

// Of all these cells, each once.
std::vector<torch::Tensor> parameters_of(const std::vector<const Cell*>& cells);

// Parameters that more than one cell has, in the order of their first use, with those cells.
std::vector<std::pair<torch::Tensor, std::vector<int>>> tied_parameters(const layers::Sequence& sequence,
                                                                        const Cut& cut);

}  // namespace entrain::pipeline
