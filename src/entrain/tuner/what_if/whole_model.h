// All layers on all ranks, one micro-batch each, as a job without a shape runs it: the next forward begins
// while gradients are still summed. In a shape each update ends with the sum of the loss.
#pragma once

#include <cstdint>
#include <optional>

#include "entrain/tuner/shape_pricer.h"

namespace entrain::tuner {

// What a profile of so many examples would have been: the variables' times add up to those of the layers, and
// rows of sparse ones grow with the examples. Requires: the layers have times.
graph::Graph at_batch(const graph::Graph& graph, int64_t examples);

// By the best of all builders; nothing: fewer examples than ranks, or too little memory. More than
// kMostExactRanks ranks, one alone, and examples that the ranks cannot share equally are priced as a shape.
std::optional<Priced> price_whole_model(const graph::Graph& graph, const cluster::Cluster& cluster,
                                        const simulator::Calibration& calibration, PricerOptions options);

inline constexpr int kMostExactRanks = 32;

}  // namespace entrain::tuner
