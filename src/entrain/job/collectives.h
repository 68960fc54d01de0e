// What the workers of a job do together besides training: sums, means, broadcasts, agreement.
//
// Every worker calls the same functions in the same order, on one thread at a time; ranks that only serve
// take no part. Each call waits for all workers. Throws PeerError when another rank fails, naming it.
#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/job/reduce.h"

namespace entrain::job {

// Every worker gets the same tensor, of the same shape and type. Sums of integers are exact; kMean needs a
// floating-point type. Requires: the same shape and type on every worker (else PeerError). Any device.
torch::Tensor all_reduce(Context& context, const torch::Tensor& tensor, Reduce how = Reduce::kSum);

// Everyone's tensor, by worker in ascending rank. Shapes may differ, types may not.
std::vector<torch::Tensor> all_gather(Context& context, const torch::Tensor& tensor);

// Rank 0's values into every worker's tensors, in place. Requires: the same shapes and types.
void broadcast(Context& context, const std::vector<torch::Tensor>& tensors);
inline void broadcast(Context& context, const torch::Tensor& tensor) {
  broadcast(context, std::vector{tensor});
}

// Returns when every worker has called it.
void barrier(Context& context);

// The mean of a metric over the workers; of a tensor (a loss, say), without its graph.
double mean(Context& context, double value);
torch::Tensor mean(Context& context, const torch::Tensor& value);

// Whether some worker, or every one, says so: `if (any(context, loss < 0.1)) break;` ends all loops together.
bool any(Context& context, bool value);
bool all(Context& context, bool value);

// Runs `work` on rank 0 (saving, testing, printing); the others wait until it is done, however long it takes.
// What it throws is thrown on rank 0 and ends the job for the others.
void on_rank_0(Context& context, const std::function<void()>& work);

}  // namespace entrain::job
