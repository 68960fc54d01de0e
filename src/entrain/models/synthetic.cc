#include "entrain/models/synthetic.h"

namespace entrain::models {

Batch synthetic_images(int64_t batch_size, int64_t side, int64_t classes, torch::Generator& generator) {
  const auto target = torch::randint(classes, {batch_size}, generator, torch::kInt64);
  const auto angle = torch::arange(side) * (2 * M_PI / static_cast<double>(side));
  const auto wave = torch::cos((target + 1).unsqueeze(1) * angle.unsqueeze(0)).view({batch_size, 1, 1, side});
  return {torch::randn({batch_size, 3, side, side}, generator) * 0.5 + wave, target};
}

torch::Tensor synthetic_tokens(int64_t batch_size, int64_t length, int64_t vocabulary,
                               torch::Generator& generator) {
  std::vector<torch::Tensor> columns{torch::randint(vocabulary, {batch_size}, generator, torch::kInt64)};
  while (static_cast<int64_t>(columns.size()) < length) {
    columns.push_back((columns.back() * 31 + 17).remainder(vocabulary));
  }
  return torch::stack(columns, 1);
}

Batch synthetic_text(int64_t batch_size, int64_t length, int64_t vocabulary, torch::Generator& generator) {
  const auto tokens = synthetic_tokens(batch_size, length + 1, vocabulary, generator);
  return {tokens.narrow(1, 0, length).contiguous(), tokens.narrow(1, 1, length).contiguous()};
}

Batch synthetic_discs(int64_t batch_size, int64_t side, torch::Generator& generator) {
  const auto place = torch::arange(side) / static_cast<double>(side);
  // Centre and radius as shares of the side: each disc is at least half inside.
  const auto drawn = torch::rand({3, batch_size, 1, 1, 1}, generator);
  const auto dx = place.view({1, 1, 1, side}) - drawn[0], dy = place.view({1, 1, side, 1}) - drawn[1];
  const auto disc = (dx * dx + dy * dy < (0.2 + 0.2 * drawn[2]).square()).to(torch::kFloat32);
  return {torch::randn({batch_size, 3, side, side}, generator) * 0.5 + disc, disc};
}

}  // namespace entrain::models
