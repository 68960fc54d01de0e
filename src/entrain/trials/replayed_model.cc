#include "entrain/trials/replayed_model.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/torch.h>

#include <algorithm>
#include <thread>

#include "entrain/base/clock.h"
#include "entrain/base/error.h"

namespace entrain::trials {

struct ReplayedModel::Passes {
  std::vector<int> expected, left;  // by layer, of a step

  // Whether this backward is the step's last through the layer.
  bool ends(size_t layer) {
    if (--left[layer] > 0) return false;
    left[layer] = expected[layer];
    return true;
  }
};

namespace {

using Tensors = std::vector<torch::Tensor>;

torch::ScalarType type_of(const std::string& dtype) {
  if (dtype == "float64") return torch::kFloat64;
  if (dtype == "float16") return torch::kFloat16;
  if (dtype == "bfloat16") return torch::kBFloat16;
  return torch::kFloat32;
}

// Floats of so many bytes per example, at least one.
torch::Tensor values(int64_t examples, int64_t bytes) {
  return torch::zeros({examples, std::max<int64_t>(1, bytes / 4)});
}

torch::Tensor gradient_of(const graph::Variable& variable, const torch::Tensor& tensor) {
  if (!variable.sparse) return torch::zeros_like(tensor);
  std::vector<int64_t> shape = variable.shape;
  shape[0] = std::min(shape[0], std::max<int64_t>(1, variable.rows_per_step));
  const auto rows = torch::arange(shape[0], torch::kInt64).unsqueeze(0);
  return torch::sparse_coo_tensor(rows, torch::zeros(shape, tensor.options()), variable.shape);
}

// What the passes of one layer need.
struct Replayed {
  size_t number = 0;
  const graph::Graph* profile = nullptr;
  double speed = 1;
  Tensors variables;  // G's
  std::shared_ptr<ReplayedModel::Passes> passes;

  const graph::Layer& layer() const { return profile->layers[number]; }
  void sleep_from(Clock::time_point start, double seconds) const {
    std::this_thread::sleep_until(start +
                                  std::chrono::duration_cast<Clock::duration>(Seconds(seconds / speed)));
  }
};

// A layer's backward. Its edges lead to what came in, then to the layer's parameters.
class SleepingBackward final : public torch::autograd::Node {
 public:
  SleepingBackward(torch::autograd::edge_list edges, const Tensors& in, std::shared_ptr<const Replayed> of)
      : Node(std::move(edges)), of_(std::move(of)) {
    for (const auto& tensor : in) in_.push_back(tensor.sizes().vec());
  }

  Tensors apply(Tensors&&) override {
    const auto start = Clock::now();
    const graph::Layer& layer = of_->layer();
    const bool ends = of_->passes->ends(of_->number);
    Tensors gradients;
    for (size_t i = 0; i < in_.size(); ++i) {
      gradients.push_back(should_compute_output(i) ? torch::zeros(in_[i]) : torch::Tensor());
    }
    for (const int v : layer.variables) {
      const auto number = static_cast<size_t>(v);
      gradients.push_back(ends ? gradient_of(of_->profile->variables[number], of_->variables[number])
                               : torch::Tensor());
    }
    of_->sleep_from(start, layer.time_of(in_.front().front()).backward_s);
    return gradients;
  }

 private:
  std::vector<std::vector<int64_t>> in_;  // sizes
  std::shared_ptr<const Replayed> of_;
};

// What flows on, then the skips that the layer leaves.
Tensors pass_through(const std::shared_ptr<const Replayed>& of, const Tensors& in,
                     const std::vector<int64_t>& bytes_out) {
  const auto start = Clock::now();
  const int64_t examples = in.front().size(0);
  Tensors out, read = in;
  for (const int64_t bytes : bytes_out) out.push_back(values(examples, bytes));
  for (const int v : of->layer().variables) {
    const torch::Tensor& variable = of->variables[static_cast<size_t>(v)];
    if (variable.dim() > 0)
      variable.select(0, 0);  // an operation: who waits for updates sees that it is read
    read.push_back(variable);
  }
  if (torch::GradMode::is_enabled()) {
    const auto node = std::make_shared<SleepingBackward>(torch::autograd::collect_next_edges(read), in, of);
    for (auto& tensor : out) torch::autograd::create_gradient_edge(tensor, node);
  }
  of->sleep_from(start, of->layer().time_of(examples).forward_s);
  return out;
}

// A parameter by its whole name, "encoder.0.weight", in modules made for it.
void add_parameter(torch::nn::Module& root, const std::string& name, const torch::Tensor& value) {
  torch::nn::Module* at = &root;
  size_t begin = 0;
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', begin)) {
    const std::string part = name.substr(begin, dot - begin);
    const auto children = at->named_children();
    at = children.contains(part) ? children[part].get()
                                 : at->register_module(part, std::make_shared<torch::nn::Module>()).get();
    begin = dot + 1;
  }
  at->register_parameter(name.substr(begin), value);
}

std::string skip_name(const graph::Skip& skip, size_t number) {
  return fmt::format("{}: {} to {}", number, skip.from, skip.to);
}

}  // namespace

ReplayedModel::ReplayedModel(graph::Graph profile, double speed)
    : profile_(std::move(profile)), speed_(speed), passes_(std::make_shared<Passes>()) {
  const auto untimed = [](const graph::Layer& layer) { return layer.times.empty(); };
  if (profile_.layers.empty() || std::any_of(profile_.layers.begin(), profile_.layers.end(), untimed)) {
    bad_input(
        "the profile of {} has no times of layers; allowed: one of a model that is a sequence of layers, "
        "profiled again",
        profile_.model);
  }
  prctl(PR_SET_TIMERSLACK, 1UL);  // else each sleep is 50 us too long
  for (const auto& variable : profile_.variables) {
    variables_.push_back(torch::zeros(variable.shape, type_of(variable.dtype)));
    add_parameter(*this, variable.name, variables_.back());
    variables_.back() = named_parameters()[variable.name];
  }
  passes_->expected = passes_->left = std::vector<int>(profile_.layers.size(), 1);
}

void ReplayedModel::expect(const strategy::Shape& shape, const plan::Assignment& assignment, int rank) {
  auto& expected = passes_->expected;
  expected.clear();
  for (size_t c = 0; c < shape.cells.size(); ++c) {
    const auto& ranks = assignment.rank_of[c];
    const auto own = static_cast<int>(std::count(ranks.begin(), ranks.end(), rank));
    expected.resize(static_cast<size_t>(shape.cells[c].end), own);
  }
  passes_->left = expected;
}

layers::Sequence ReplayedModel::sequence() {
  layers::Sequence sequence;
  for (size_t l = 0; l < profile_.layers.size(); ++l) {
    const auto of = std::make_shared<const Replayed>(Replayed{l, &profile_, speed_, variables_, passes_});
    layers::Layer layer;
    layer.name = of->layer().name;
    for (const int v : of->layer().variables) layer.borrowed.push_back(variables_[static_cast<size_t>(v)]);
    std::vector<int64_t> bytes = {of->layer().output_bytes};
    for (size_t i = 0; i < profile_.skips.size(); ++i) {
      const graph::Skip& skip = profile_.skips[i];
      if (skip.to == static_cast<int>(l)) layer.pops.push_back(skip_name(skip, i));
      if (skip.from != static_cast<int>(l)) continue;
      layer.stashes.push_back(skip_name(skip, i));
      bytes.push_back(skip.bytes);
    }
    layer.forward = [of, bytes, stashes = layer.stashes, pops = layer.pops](const torch::Tensor& x,
                                                                            layers::Skips& skips) {
      Tensors in = {x};
      for (const auto& name : pops) in.push_back(skips.pop(name));
      const Tensors out = pass_through(of, in, bytes);
      for (size_t i = 0; i < stashes.size(); ++i) skips.stash(stashes[i], out[i + 1]);
      return out.front();
    };
    sequence.layers.push_back(std::move(layer));
  }
  sequence.loss = [](const torch::Tensor& output, const torch::Tensor&) { return output.mean(); };
  return sequence;
}

torch::Tensor ReplayedModel::loss(const models::Batch& batch) {
  const layers::Sequence layers = sequence();
  return layers.loss(layers::forward(layers, batch.input), batch.target);
}

models::Batch ReplayedModel::synthetic(int64_t batch_size, torch::Generator&) const {
  return {values(batch_size, profile_.input_bytes), torch::zeros({batch_size})};
}

}  // namespace entrain::trials
