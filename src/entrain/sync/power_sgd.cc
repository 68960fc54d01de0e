#include "entrain/sync/power_sgd.h"

#include <torch/torch.h>

#include "entrain/strategy/compression.h"
#include "entrain/sync/slices.h"

namespace entrain::sync {
namespace {

constexpr transport::Tag kSecondRun = 0x8000;  // in the executor's segment number, which stays far below

// Columns made orthonormal one after the other (modified Gram-Schmidt), in double: the same bits on every
// rank, and no column is lost when two are nearly parallel.
torch::Tensor orthonormal(const torch::Tensor& p) {
  torch::Tensor columns = p.to(torch::kDouble).t().contiguous();  // [r, n]
  for (int64_t i = 0; i < columns.size(0); ++i) {
    torch::Tensor column = columns[i];
    for (int64_t j = 0; j < i; ++j) column -= columns[j] * columns[j].dot(column);
    column /= column.norm() + 1e-30;
  }
  return columns.t().to(torch::kFloat).contiguous();
}

// Cuts `flat` into tensors of these shapes.
std::vector<torch::Tensor> places_in(const torch::Tensor& flat,
                                     const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<torch::Tensor> places;
  int64_t at = 0;
  for (const auto& shape : shapes) {
    const int64_t elements = c10::multiply_integers(shape);
    places.push_back(flat.narrow(0, at, elements).view(shape));
    at += elements;
  }
  return places;
}

// Any start will do, if it is the same everywhere.
torch::Tensor first_q(int variable, int64_t rows, int64_t columns) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(variable) + 1);
  return torch::randn({rows, columns}, generator);
}

int64_t total(const std::vector<std::vector<int64_t>>& shapes) {
  int64_t sum = 0;
  for (const auto& shape : shapes) sum += c10::multiply_integers(shape);
  return sum;
}

}  // namespace

PowerSgd::PowerSgd(const plan::Message& message, const graph::Graph& graph, transport::Transport& transport,
                   EventLoop& loop)
    : message_(message),
      transport_(transport),
      loop_(loop),
      program_(collective::compile(*message.schedule, transport.rank())) {
  for (const plan::Slice& slice : message.slices) {
    Part part;
    part.shape = plan::matrix_of(slice, graph.variables[slice.variable]);
    const auto [n, m] = part.shape;
    if (strategy::low_rank_elements(n, m, message.rank) < n * m) {
      part.q = first_q(slice.variable, m, std::min<int64_t>({message.rank, n, m}));
      part.error = torch::zeros({n, m});
    }
    parts_.push_back(std::move(part));
  }
}

void PowerSgd::start(transport::Tag tag, std::vector<torch::Tensor> gradients, Done done) {
  done_ = std::move(done);
  if (gradients.empty()) return run({}, tag, [this] { done_(nullptr); });  // a server has no part in it
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].gradient = narrowed(gradients[i], message_.slices[i]);
  }
  run(first_factors(), tag, [this, tag] {
    torch::Tensor second = second_factors();
    if (second.numel() == 0) return finish();
    run(std::move(second), tag | kSecondRun, [this] { finish(); });
  });
}

torch::Tensor PowerSgd::first_factors() {
  std::vector<std::vector<int64_t>> shapes;
  for (const Part& part : parts_) {
    shapes.push_back({part.shape.rows, part.q.defined() ? part.q.size(1) : part.shape.columns});
  }
  torch::Tensor flat = torch::empty({total(shapes)});
  const auto places = places_in(flat, shapes);
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    const torch::Tensor matrix = part.gradient.reshape({part.shape.rows, part.shape.columns});
    part.sent = places[i];
    if (part.q.defined()) {
      part.sum = part.error.add_(matrix);  // the error's memory; finish() leaves the new error there
      torch::mm_out(part.sent, part.sum, part.q);
    } else {
      part.sent.copy_(matrix);
    }
  }
  return flat;
}

torch::Tensor PowerSgd::second_factors() {
  std::vector<std::vector<int64_t>> shapes;
  p_.clear();
  for (const Part& part : parts_) {
    p_.push_back(part.q.defined() ? orthonormal(part.sent) : torch::Tensor());
    if (part.q.defined()) {
      shapes.push_back({part.shape.columns, part.q.size(1)});
    } else {
      shapes.push_back({0, 1});
      torch::Tensor slice = part.gradient;
      slice.copy_(part.sent.view(slice.sizes()));
    }
  }
  torch::Tensor flat = torch::empty({total(shapes)});
  const auto places = places_in(flat, shapes);
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (!part.q.defined()) continue;
    part.sent = places[i];
    torch::mm_out(part.sent, part.sum.t(), p_[i]);
    part.sum.sub_(torch::mm(p_[i], part.sent.t()));  // before the sum over workers: this one's own error
  }
  return flat;
}

void PowerSgd::finish() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (!part.q.defined()) continue;
    part.q.copy_(part.sent);
    part.gradient.copy_(torch::mm(p_[i], part.q.t()).view(part.gradient.sizes()));
    part.gradient.reset();
    // q is the same on all ranks. What is not finite is in the gradient now; it must not stay here, or a job
    // that skips this step would have to skip all that follow.
    if (!at::isfinite(part.q).all().item<bool>()) {
      part.q.copy_(first_q(message_.slices[i].variable, part.q.size(0), part.q.size(1)));
      part.error.zero_();
    }
  }
  flat_.reset();
  done_(nullptr);
}

void PowerSgd::run(torch::Tensor flat, transport::Tag tag, std::function<void()> then) {
  flat_ = std::move(flat);
  collective::RunOptions options;
  options.tag = tag;
  options.priority = message_.priority;
  options.what = message_.what;
  collective::Buffer buffer;
  if (flat_.defined()) buffer = collective::Buffer({bytes_of(flat_)});
  run_ = std::make_shared<collective::Run>(program_, std::move(buffer), options, transport_, loop_,
                                           [this, then = std::move(then)](std::exception_ptr error) {
                                             const torch::NoGradGuard no_grad;
                                             error ? done_(error) : then();
                                           });
  // `run_` may be replaced while it ends.
  const auto started = run_;
  started->start();
}

}  // namespace entrain::sync
