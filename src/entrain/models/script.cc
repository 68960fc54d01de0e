#include "entrain/models/script.h"

#include <fmt/ranges.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/export.h>
#include <torch/script.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <set>
#include <sstream>

#include "entrain/base/error.h"
#include "entrain/base/files.h"

namespace entrain::models {
namespace {

constexpr const char* kExample = "example";
// In names of operations that draw random numbers.
constexpr const char* kDrawing[] = {"dropout", "rand", "bernoulli", "normal_", "multinomial"};

// What an error of torch says in one line: the last of TorchScript's traceback, without C++'s.
std::string short_reason(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  std::istringstream lines(of_torch != nullptr ? of_torch->what_without_backtrace() : error.what());
  std::string first, raised;
  for (std::string line; std::getline(lines, line);) {
    if (first.empty()) first = line;
    if (line.starts_with("RuntimeError: ") || line.starts_with("torch.jit.Error: ")) raised = line;
  }
  return raised.empty() ? first : raised;
}

std::string shape_of(const torch::Tensor& tensor) {
  return fmt::format("[{}] {}", fmt::join(tensor.sizes(), ", "), c10::toString(tensor.scalar_type()));
}

std::vector<torch::Tensor> tensors_of(const Batch& batch) {
  std::vector<torch::Tensor> result{batch.input};
  if (batch.target.defined()) result.push_back(batch.target);
  result.insert(result.end(), batch.more.begin(), batch.more.end());
  return result;
}

// A buffer, and where the script keeps it.
struct Place {
  c10::intrusive_ptr<c10::ivalue::Object> object;
  size_t slot;
  torch::Tensor buffer;
};

// A script may change a buffer, or put another tensor where it was (batch norm counts its batches so), after
// autograd has saved it for backward. So it works on copies while this lives, and their values go into the
// tensors that others hold.
class LentBuffers {
 public:
  explicit LentBuffers(const std::vector<Place>& places) : places_(places) {
    const torch::NoGradGuard no_grad;
    for (const Place& place : places_) place.object->setSlot(place.slot, place.buffer.clone());
  }
  ~LentBuffers() {
    const torch::NoGradGuard no_grad;
    for (const Place& place : places_) {
      torch::Tensor buffer = place.buffer;
      const c10::IValue now = place.object->getSlot(place.slot);
      if (now.isTensor() && now.toTensor().sizes() == buffer.sizes()) {
        buffer.copy_(now.toTensor());
      } else if (now.isTensor()) {
        buffer.set_data(now.toTensor().detach());
      }
      place.object->setSlot(place.slot, buffer);
    }
  }
  LentBuffers(const LentBuffers&) = delete;
  LentBuffers& operator=(const LentBuffers&) = delete;

 private:
  const std::vector<Place>& places_;
};

class ScriptModel final : public Model {
 public:
  ScriptModel(std::string name, torch::jit::Module script)
      : name_(std::move(name)), script_(std::move(script)) {
    read_forward();
    std::set<const void*> seen;
    adopt(*this, script_, seen);
    const auto all = parameters();
    if (std::none_of(all.begin(), all.end(), [](const auto& p) { return p.requires_grad(); })) {
      bad_input("`model` {}: it has no parameter that requires a gradient (a frozen module has none)", name_);
    }
    train();
  }

  torch::Tensor loss(const Batch& batch) override;
  layers::Sequence sequence() override;
  Batch synthetic(int64_t batch_size, torch::Generator& generator) const override;
  std::vector<std::string> inputs() const override { return inputs_; }
  int64_t classes() const override;
  std::vector<std::pair<std::string, torch::Tensor>> state() const override;

  void train(bool on = true) override {
    torch::nn::Module::train(on);
    script_.train(on);
  }

  const torch::jit::Module& script() const { return script_; }

 private:
  void read_forward();
  void adopt(torch::nn::Module& mirror, const torch::jit::Module& script, std::set<const void*>& seen);
  std::string name_;
  torch::jit::Module script_;
  std::vector<std::string> inputs_;
  std::vector<Place> buffers_;
};

void ScriptModel::read_forward() {
  const auto forward = script_.find_method("forward");
  if (!forward) bad_input("`model` {}: the module has no forward", name_);
  const auto& schema = forward->function().getSchema();
  for (size_t i = 1; i < schema.arguments().size(); ++i) {  // the first is self
    const auto& argument = schema.arguments()[i];
    if (argument.default_value()) break;
    if (argument.type()->kind() != c10::TypeKind::TensorType) {
      bad_input("`model` {}: forward takes {} of type {}; allowed: tensors, one row per example", name_,
                argument.name(), argument.type()->repr_str());
    }
    inputs_.push_back(argument.name());
  }
  if (inputs_.empty()) bad_input("`model` {}: forward takes no tensor; expected: forward(x, y)", name_);
  const auto& type = schema.returns().at(0).type();
  if (type->kind() != c10::TypeKind::TensorType) {
    bad_input("`model` {}: forward returns {}; wanted: the loss, a tensor of one number", name_,
              type->repr_str());
  }
}

// `mirror` gets the script's tensors, by the same names: whatever works on a torch::nn::Module works on it.
void ScriptModel::adopt(torch::nn::Module& mirror, const torch::jit::Module& script,
                        std::set<const void*>& seen) {
  for (const auto& item : script.named_parameters(/*recurse=*/false)) {
    if (!seen.insert(item.value.unsafeGetTensorImpl()).second) continue;
    mirror.register_parameter(item.name, item.value, item.value.requires_grad());
  }
  for (const auto& item : script.named_buffers(/*recurse=*/false)) {
    if (!item.value.defined() || !seen.insert(item.value.unsafeGetTensorImpl()).second) continue;
    mirror.register_buffer(item.name, item.value);
    buffers_.push_back({script._ivalue(), script.type()->getAttributeSlot(item.name), item.value});
  }
  for (const auto& child : script.named_children()) {
    if (!seen.insert(child.value._ivalue().get()).second) continue;  // used twice
    adopt(*mirror.register_module(child.name, std::make_shared<torch::nn::Module>()), child.value, seen);
  }
}

torch::Tensor ScriptModel::loss(const Batch& batch) {
  const torch::jit::GraphOptimizerEnabledGuard operation_by_operation(false);
  const auto tensors = tensors_of(batch);
  std::vector<std::string> shapes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    shapes.push_back(fmt::format("{} {}", i < inputs_.size() ? inputs_[i] : "and", shape_of(tensors[i])));
  }
  if (tensors.size() != inputs_.size()) {
    bad_input("`model` {}: forward takes {} tensors ({}), the data has {}: {}", name_, inputs_.size(),
              fmt::join(inputs_, ", "), tensors.size(), fmt::join(shapes, ", "));
  }
  torch::Tensor result;
  try {
    const LentBuffers lent(buffers_);
    result = script_.forward({tensors.begin(), tensors.end()}).toTensor();
  } catch (const std::exception& error) {
    bad_input("`model` {}: forward failed on {}: {}", name_, fmt::join(shapes, ", "), short_reason(error));
  }
  if (result.numel() != 1 || !result.is_floating_point()) {
    bad_input("`model` {}: forward returns {} for {}; wanted: the loss, one floating-point number", name_,
              shape_of(result), fmt::join(shapes, ", "));
  }
  if (torch::GradMode::is_enabled() && !result.requires_grad()) {
    bad_input("`model` {}: the loss depends on no parameter", name_);
  }
  return result.dim() == 0 ? result : result.reshape({});
}

// A child whose forward maps one tensor to one tensor.
bool is_layer(const torch::jit::Module& child) {
  const auto forward = child.find_method("forward");
  if (!forward) return false;
  const auto& schema = forward->function().getSchema();
  const auto is_tensor = [](const c10::Argument& argument) {
    return argument.type()->kind() == c10::TypeKind::TensorType;
  };
  return schema.arguments().size() == 2 && is_tensor(schema.arguments()[1]) && schema.returns().size() == 1 &&
         is_tensor(schema.returns()[0]);
}

// Whether its operations draw random numbers.
bool script_draws(const torch::jit::Module& child) {
  const auto graph = child.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  const std::string text = graph->toString();
  return std::any_of(std::begin(kDrawing), std::end(kDrawing),
                     [&](const char* word) { return text.find(word) != std::string::npos; });
}

// What script and mirror call `layers` has the layers, and the script's method `loss` is that of the last
// one's output: then forward(x, y) is loss(layers in a row, y), which the script promises.
layers::Sequence ScriptModel::sequence() {
  const auto loss = script_.find_method("loss");
  if (!loss || inputs_.size() != 2 || !script_.hasattr("layers") || !script_.attr("layers").isModule())
    return {};
  const torch::jit::Module list = script_.attr("layers").toModule();
  const auto mirrors = named_children()["layers"]->named_children();
  layers::Sequence sequence;
  for (const auto& child : list.named_children()) {
    if (!mirrors.contains(child.name) || !is_layer(child.value)) return {};
    std::set<const void*> parts;
    for (const auto& part : child.value.modules()) parts.insert(part._ivalue().get());
    std::vector<Place> places;
    std::copy_if(buffers_.begin(), buffers_.end(), std::back_inserter(places),
                 [&](const Place& place) { return parts.contains(place.object.get()); });
    layers::Layer layer;
    layer.name = "layers." + child.name;
    layer.module = mirrors[child.name];
    layer.draws = script_draws(child.value);
    layer.forward = [part = child.value, places, name = name_, layer_name = layer.name](
                        const torch::Tensor& x, layers::Skips&) mutable {
      const torch::jit::GraphOptimizerEnabledGuard operation_by_operation(false);
      try {
        const LentBuffers lent(places);
        return part.forward({x}).toTensor();
      } catch (const std::exception& error) {
        bad_input("`model` {}: {} failed on {}: {}", name, layer_name, shape_of(x), short_reason(error));
      }
    };
    sequence.layers.push_back(std::move(layer));
  }
  sequence.loss = [method = torch::jit::Method(*loss)](const torch::Tensor& output,
                                                       const torch::Tensor& target) {
    const torch::jit::GraphOptimizerEnabledGuard operation_by_operation(false);
    return torch::jit::Method(method)({output, target}).toTensor();
  };
  return sequence;
}

// The script draws from torch's one default generator: it is seeded for the while, then put back.
Batch ScriptModel::synthetic(int64_t batch_size, torch::Generator& generator) const {
  const auto example = script_.find_method(kExample);
  if (!example) {
    bad_input(
        "`model` {}: it has no method `{}`, so no examples can be made up; give `data`, or the module "
        "`@torch.jit.export def {}(self, n: int): return {}`, each of n rows",
        name_, kExample, kExample, fmt::join(inputs_, ", "));
  }
  const auto seed = torch::randint(INT64_MAX, {1}, generator, torch::kInt64).item<int64_t>();
  std::vector<torch::Tensor> tensors;
  {
    static std::mutex turn;  // ranks may be threads
    const std::lock_guard lock(turn);
    torch::Generator shared = at::detail::getDefaultCPUGenerator();
    const torch::Tensor before = shared.get_state();
    shared.set_current_seed(static_cast<uint64_t>(seed));
    try {
      const torch::NoGradGuard no_grad;
      const c10::IValue made = torch::jit::Method(*example)({batch_size});
      if (made.isTensor()) tensors.push_back(made.toTensor());
      if (made.isTensorList()) tensors = made.toTensorVector();
      if (made.isTuple()) {
        for (const auto& element : made.toTupleRef().elements()) tensors.push_back(element.toTensor());
      }
    } catch (const std::exception& error) {
      shared.set_state(before);
      bad_input("`model` {}: {}({}) failed: {}", name_, kExample, batch_size, short_reason(error));
    }
    shared.set_state(before);
  }
  if (tensors.size() != inputs_.size()) {
    bad_input("`model` {}: {} returns {} tensors; forward takes {}: {}", name_, kExample, tensors.size(),
              inputs_.size(), fmt::join(inputs_, ", "));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].dim() > 0 && tensors[i].size(0) == batch_size) continue;
    bad_input("`model` {}: {}({}) returns {} {}; wanted: {} rows, one per example", name_, kExample,
              batch_size, inputs_[i], shape_of(tensors[i]), batch_size);
  }
  Batch batch{tensors[0], tensors.size() > 1 ? tensors[1] : torch::Tensor()};
  if (tensors.size() > 2) batch.more.assign(tensors.begin() + 2, tensors.end());
  return batch;
}

int64_t ScriptModel::classes() const {
  constexpr const char* kClasses = "classes";
  if (script_.hasattr(kClasses) && script_.attr(kClasses).isInt()) return script_.attr(kClasses).toInt();
  const auto constant = script_.type()->findConstant(kClasses);  // Final[int]
  return constant && constant->isInt() ? constant->toInt() : 0;
}

std::vector<std::pair<std::string, torch::Tensor>> ScriptModel::state() const {
  std::vector<std::pair<std::string, torch::Tensor>> result;
  for (const auto& item : script_.named_parameters()) result.emplace_back(item.name, item.value);
  for (const auto& item : script_.named_buffers()) {
    if (item.value.defined()) result.emplace_back(item.name, item.value);
  }
  return result;
}

}  // namespace

bool is_script(const std::string& name) { return name.ends_with(".pt") || name.ends_with(".pth"); }

std::shared_ptr<Model> load_script(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) bad_input("`model` {}: no such file", path.string());
  torch::jit::Module script;
  try {
    script = torch::jit::load(path.string(), torch::Device(torch::kCPU));
  } catch (const std::exception& error) {
    bad_input("`model` {}: not TorchScript, which torch.jit.script(module).save(FILE) writes: {}",
              path.string(), short_reason(error));
  }
  return std::make_shared<ScriptModel>(path.string(), std::move(script));
}

void save_script(const Model& model, const std::filesystem::path& path) {
  const auto* own = dynamic_cast<const ScriptModel*>(&model);
  if (own == nullptr)
    bad_input("`save_model` {}: the model came from no .pt file; allowed: `save`", path.string());
  AtomicFile file(path);
  try {
    torch::jit::ExportModule(own->script(), [&](const void* data, size_t size) {
      file.write({static_cast<const char*>(data), size});
      return size;
    });
  } catch (const c10::Error& error) {
    fail("cannot write {}: {}", path.string(), short_reason(error));
  }
  file.commit();
}

}  // namespace entrain::models
