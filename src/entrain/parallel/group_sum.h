// A small sum over some ranks of a job, the same bits on each: the lowest adds in the order of the ranks and
// hands the sum back.
#pragma once

#include <torch/types.h>

#include <string_view>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/transport/transport.h"

namespace entrain::parallel {

// Collective over `ranks` (ascending, this one among them): a dense tensor of the same shape and type on
// each.
torch::Tensor group_sum(job::Context& context, const std::vector<int>& ranks, const torch::Tensor& value,
                        transport::Tag tag, std::string_view what);

}  // namespace entrain::parallel
