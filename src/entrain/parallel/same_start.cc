#include "entrain/parallel/same_start.h"

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <optional>
#include <sstream>

#include "entrain/base/error.h"
#include "entrain/base/sha256.h"
#include "entrain/job/control.h"
#include "entrain/transport/control_tags.h"

namespace entrain::parallel {
namespace {

// The first line of `own` that is not rank 0's, and that one; empty where there is none.
struct Difference {
  std::string here, there;
};
std::optional<Difference> difference(job::Context& context, const std::string& own, transport::Tag tag,
                                     const char* what) {
  const std::string rank_0 =
      job::tell_workers(context, own, tag, Deadline::after(context.job.timeout_s), what);
  std::istringstream mine(own), others(rank_0);
  while (true) {
    Difference lines;
    const bool more = !std::getline(mine, lines.here).fail();
    if (std::getline(others, lines.there).fail() && !more) return std::nullopt;
    if (lines.here != lines.there) return lines;
  }
}

}  // namespace

void check_same_tensors(job::Context& context, const graph::NamedTensors& tensors) {
  std::string own;
  for (const auto& [name, tensor] : tensors) {
    own += fmt::format("{} {} [{}]\n", name, toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
  }
  const auto found = difference(context, own, transport::tags::kModelOutline, "model's outline");
  if (!found) return;
  fail("rank {} trains another model: {} here, {} on rank 0", context.rank(),
       found->here.empty() ? "no more variables" : found->here,
       found->there.empty() ? "no more variables" : found->there);
}

void check_same_values(job::Context& context, const graph::NamedTensors& tensors) {
  std::string own;
  for (const auto& [name, tensor] : tensors) {
    const torch::Tensor host = tensor.detach().cpu().contiguous();
    own +=
        fmt::format("{} {}\n", name, hex(sha256({static_cast<const char*>(host.data_ptr()), host.nbytes()})));
  }
  const auto found = difference(context, own, transport::tags::kModelValues, "values of new variables");
  if (!found) return;
  bad_input(
      "rank {}: {} is trained from this step on, and its values are not those of rank 0; before its first "
      "forward call entrain::broadcast(context, tensor), or draw it from the same seed on all ranks",
      context.rank(), found->here.substr(0, found->here.rfind(' ')));
}

}  // namespace entrain::parallel
