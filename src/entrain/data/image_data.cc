#include "entrain/data/image_data.h"

#include "entrain/base/error.h"
#include "entrain/data/example_seed.h"
#include "entrain/data/shares.h"

namespace entrain::data {
namespace {

constexpr int64_t kPadding = 4;
constexpr int64_t kTestBatch = 500;

class ImageData final : public Data {
 public:
  ImageData(Images training, Images test, int64_t side, const DataOptions& options)
      : options_(options), side_(side), shares_(training.labels.size(0), options.examples, options.seed) {
    const auto sample = training.pixels.narrow(0, 0, std::min<int64_t>(10'000, training.pixels.size(0)));
    const auto values = sample.to(torch::kFloat32).transpose(0, 1).flatten(1);
    mean_ = values.mean(1).view({1, -1, 1, 1}).to(options.device);
    deviation_ = values.std(1).clamp_min(1e-3).view({1, -1, 1, 1}).to(options.device);
    training_ = {training.pixels.to(options.device), training.labels.to(options.device)};
    test_ = {test.pixels.to(options.device), test.labels.to(options.device)};
  }

  models::Batch training(int64_t step, int64_t begin, int64_t count) override {
    const auto which = shares_.at(step, begin, count).to(options_.device);
    const auto pixels = training_.pixels.index_select(0, which);
    const auto labels = training_.labels.index_select(0, which);
    return {options_.augment ? augmented(pixels, step, begin) : middle(pixels), labels};
  }

  int64_t steps_per_epoch() const override { return shares_.steps_per_epoch(); }
  int64_t test_batches() const override { return (test_.labels.size(0) + kTestBatch - 1) / kTestBatch; }

  models::Batch test(int64_t index) override {
    const int64_t begin = index * kTestBatch;
    const int64_t count = std::min(kTestBatch, test_.labels.size(0) - begin);
    return {middle(test_.pixels.narrow(0, begin, count)), test_.labels.narrow(0, begin, count)};
  }

 private:
  torch::Tensor normalized(const torch::Tensor& pixels) const {
    return (pixels.to(torch::kFloat32) - mean_) / deviation_;
  }

  torch::Tensor middle(const torch::Tensor& pixels) const {
    const int64_t top = (pixels.size(2) - side_) / 2, left = (pixels.size(3) - side_) / 2;
    return normalized(pixels.narrow(2, top, side_).narrow(3, left, side_)).contiguous();
  }

  // One row per example of [begin, begin + count): whether it is mirrored, its crop's top, its left.
  torch::Tensor drawn(int64_t step, int64_t begin, int64_t count, int64_t tops, int64_t lefts) const {
    torch::Tensor draws = torch::empty({count, 3}, torch::kInt64);
    auto rows = draws.accessor<int64_t, 2>();
    for (int64_t n = 0; n < count; ++n) {
      const uint64_t number = example_seed(options_.seed, step, begin + n);
      rows[n][0] = static_cast<int64_t>(number & 1);
      rows[n][1] = static_cast<int64_t>((number >> 1 & 0xffffff) % static_cast<uint64_t>(tops));
      rows[n][2] = static_cast<int64_t>((number >> 25 & 0xffffff) % static_cast<uint64_t>(lefts));
    }
    return draws;
  }

  // Image n takes rows y(n) + 0..side and columns x(n) + 0..side, backwards when it is mirrored.
  torch::Tensor augmented(const torch::Tensor& pixels, int64_t step, int64_t begin) const {
    auto images = normalized(pixels);
    if (images.size(2) == side_)
      images = torch::constant_pad_nd(images, {kPadding, kPadding, kPadding, kPadding});
    const int64_t n = images.size(0);
    const auto draws =
        drawn(step, begin, n, images.size(2) - side_ + 1, images.size(3) - side_ + 1).split(1, 1);
    const auto line = torch::arange(side_).unsqueeze(0);
    const auto rows = draws[1] + line;
    const auto columns = draws[2] + torch::where(draws[0].eq(1), side_ - 1 - line, line);
    const auto to = [&](const torch::Tensor& t) { return t.to(images.device()); };
    return images.index({to(torch::arange(n).view({n, 1, 1, 1})),
                         to(torch::arange(images.size(1)).view({1, -1, 1, 1})),
                         to(rows.view({n, 1, side_, 1})), to(columns.view({n, 1, 1, side_}))});
  }

  DataOptions options_;
  int64_t side_;
  Shares shares_;
  Images training_, test_;
  torch::Tensor mean_, deviation_;
};

}  // namespace

std::unique_ptr<Data> make_image_data(Images training, Images test, const models::Model& model,
                                      const DataOptions& options) {
  auto generator = at::detail::createCPUGenerator(0);
  const models::Batch example = model.synthetic(1, generator);
  const auto wanted = example.input.sizes().vec();
  if (wanted.size() != 4)
    bad_input("`data` holds images; this model takes inputs of {} dimensions", wanted.size() - 1);
  for (Images* images : {&training, &test}) {
    if (images->pixels.size(1) == 1 && wanted[1] > 1) {
      images->pixels = images->pixels.expand({-1, wanted[1], -1, -1}).contiguous();
    }
  }
  const auto shape = training.pixels.sizes();
  if (shape[1] != wanted[1] || shape[2] < wanted[2] || shape[3] < wanted[3] || wanted[2] != wanted[3]) {
    bad_input("`data` holds images of {}x{}x{}; this model takes {}x{}x{}", shape[1], shape[2], shape[3],
              wanted[1], wanted[2], wanted[3]);
  }
  const int64_t highest = std::max(training.labels.max().item<int64_t>(), test.labels.max().item<int64_t>());
  if (!example.target.defined() || example.target.dim() != 1)
    bad_input("`data` has labels; this model's targets are none");
  if (model.classes() > 0 && highest >= model.classes()) {
    bad_input("`data` has a label {}; this model knows 0 to {}", highest, model.classes() - 1);
  }
  if (shape[0] < options.examples) {
    bad_input("`data` has {} images: fewer than the {} of one update", shape[0], options.examples);
  }
  return std::make_unique<ImageData>(std::move(training), std::move(test), wanted[2], options);
}

}  // namespace entrain::data
