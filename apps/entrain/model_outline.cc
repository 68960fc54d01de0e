#include "model_outline.h"

#include "entrain/models/blueprint.h"
#include "entrain/parallel/shape_state.h"

namespace entrain::app {

ModelOutline outline_model(const std::string& model) {
  const auto blueprint = models::make_blueprint(model);
  const layers::Sequence sequence = blueprint->sequence();
  const bool whole = sequence.layers.empty();
  ModelOutline outline{model, {}, {}};
  if (whole) outline.layers.emplace_back("whole");
  for (const layers::Layer& layer : sequence.layers) outline.layers.push_back(layer.name);
  for (const parallel::ModelPart& part : parallel::parts_of(*blueprint, sequence)) {
    if (!part.parameter) continue;
    outline.parameters.push_back({part.name, part.bytes(), whole ? std::vector<int>{0} : part.layers});
  }
  return outline;
}

}  // namespace entrain::app
