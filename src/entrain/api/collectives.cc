#include "entrain/api/collectives.h"

#include "entrain/job/collectives.h"

namespace entrain {

torch::Tensor all_reduce(Context& context, const torch::Tensor& tensor, Reduce how) {
  return job::all_reduce(context.inner(), tensor, how);
}
std::vector<torch::Tensor> all_gather(Context& context, const torch::Tensor& tensor) {
  return job::all_gather(context.inner(), tensor);
}
void broadcast(Context& context, const std::vector<torch::Tensor>& tensors) {
  job::broadcast(context.inner(), tensors);
}
void broadcast(Context& context, const torch::Tensor& tensor) { job::broadcast(context.inner(), tensor); }
void barrier(Context& context) { job::barrier(context.inner()); }
double mean(Context& context, double value) { return job::mean(context.inner(), value); }
torch::Tensor mean(Context& context, const torch::Tensor& value) { return job::mean(context.inner(), value); }
bool any(Context& context, bool value) { return job::any(context.inner(), value); }
bool all(Context& context, bool value) { return job::all(context.inner(), value); }
void on_rank_0(Context& context, const std::function<void()>& work) { job::on_rank_0(context.inner(), work); }

}  // namespace entrain
