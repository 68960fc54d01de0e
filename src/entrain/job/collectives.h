// The collectives behind api/collectives.h, which says what each requires, returns and throws.
#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

#include "entrain/job/context.h"
#include "entrain/job/reduce.h"

namespace entrain::job {

torch::Tensor all_reduce(Context& context, const torch::Tensor& tensor, Reduce how = Reduce::kSum);
std::vector<torch::Tensor> all_gather(Context& context, const torch::Tensor& tensor);

void broadcast(Context& context, const std::vector<torch::Tensor>& tensors);
inline void broadcast(Context& context, const torch::Tensor& tensor) {
  broadcast(context, std::vector{tensor});
}

void barrier(Context& context);

double mean(Context& context, double value);
torch::Tensor mean(Context& context, const torch::Tensor& value);

bool any(Context& context, bool value);
bool all(Context& context, bool value);

void on_rank_0(Context& context, const std::function<void()>& work);

}  // namespace entrain::job
