// A job that stops and resumes ends with the same bits as one that never stopped; damage is found and
// survived.
#include "entrain/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/checkpoint/optimizer_state.h"
#include "entrain/checkpoint/rng_state.h"

namespace entrain::checkpoint {
namespace {

namespace fs = std::filesystem;
namespace optim = torch::optim;
using testing::HasSubstr;

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(test.begin(), test.end(), '/', '-');
    folder_ = fs::temp_directory_path() / fmt::format("entrain-checkpoint-{}-{}", test, ::getpid());
    fs::remove_all(folder_);
  }
  ~CheckpointTest() override { fs::remove_all(folder_); }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  fs::path folder_;
};

// Dropout uses random numbers, batch norm has buffers, the embedding may have sparse gradients.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(bool sparse = false, int64_t width = 16) {
    words = register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(20, 8).sparse(sparse)));
    hidden = register_module("hidden", torch::nn::Linear(8, width));
    norm = register_module("norm", torch::nn::BatchNorm1d(width));
    out = register_module("out", torch::nn::Linear(width, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return out(torch::dropout(torch::relu(norm(hidden(words(x)))), 0.5, true));
  }
  torch::nn::Embedding words{nullptr};
  torch::nn::Linear hidden{nullptr}, out{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Net);

void train(Net& net, optim::Optimizer& optimizer, int steps) {
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    net->forward(torch::randint(20, {12})).pow(2).mean().backward();
    optimizer.step();
    auto& options = optimizer.param_groups()[0].options();
    options.set_lr(options.get_lr() * 0.9);  // a scheduler
  }
}

CheckpointInfo info_at(int64_t step) {
  return {step, step * 12, 3, "net", 18446744073709551615u, "ring-1", {rng_state(), {}, rng_state()}};
}

std::vector<torch::Tensor> state_of(const Net& net) {
  std::vector<torch::Tensor> tensors;
  for (const auto& tensor : net->parameters()) tensors.push_back(tensor.detach().clone());
  for (const auto& tensor : net->buffers()) tensors.push_back(tensor.clone());
  return tensors;
}

bool same_bits(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return torch::equal(x, y); });
}

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(std::vector<torch::Tensor>)>;
struct Case {
  std::string name;
  bool sparse;
  MakeOptimizer make;
};
template <typename Optimizer, typename Options>
Case make_case(std::string name, Options options, bool sparse = false) {
  return {std::move(name), sparse, [options](std::vector<torch::Tensor> parameters) {
            return std::make_unique<Optimizer>(std::move(parameters), options);
          }};
}

class ResumeTest : public CheckpointTest, public testing::WithParamInterface<Case> {};

TEST_P(ResumeTest, EndsWithTheSameBits) {
  torch::manual_seed(1);
  Net whole(GetParam().sparse);
  const auto whole_optimizer = GetParam().make(whole->parameters());
  train(whole, *whole_optimizer, 5);
  Checkpoints(folder_).save(info_at(5), *whole, *whole_optimizer);
  train(whole, *whole_optimizer, 5);

  torch::manual_seed(99);  // a new process has other numbers, parameters, buffers
  Net resumed(GetParam().sparse);
  const auto optimizer = GetParam().make(resumed->parameters());
  train(resumed, *optimizer, 2);
  const auto info = Checkpoints(folder_).load_newest(*resumed, *optimizer);
  ASSERT_TRUE(info.has_value());
  set_rng_state(info->rng[0]);
  EXPECT_FALSE(same_bits(state_of(whole), state_of(resumed)));
  train(resumed, *optimizer, 5);
  EXPECT_TRUE(same_bits(state_of(whole), state_of(resumed)));
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, ResumeTest,
    testing::Values(
        make_case<optim::SGD>("Sgd", optim::SGDOptions(0.1)),
        make_case<optim::SGD>("SgdMomentum", optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01)),
        make_case<optim::SGD>("SgdNesterov", optim::SGDOptions(0.1).momentum(0.9).nesterov(true)),
        make_case<optim::SGD>("SgdSparseMomentum", optim::SGDOptions(0.1).momentum(0.9), true),
        make_case<optim::Adam>("Adam", optim::AdamOptions(0.01)),
        make_case<optim::Adam>("AdamAmsgrad", optim::AdamOptions(0.01).amsgrad(true)),
        make_case<optim::AdamW>("AdamW", optim::AdamWOptions(0.01)),
        make_case<optim::AdamW>("AdamWAmsgrad", optim::AdamWOptions(0.01).amsgrad(true)),
        make_case<optim::Adagrad>("Adagrad", optim::AdagradOptions(0.1).lr_decay(0.1)),
        make_case<optim::Adagrad>("AdagradSparse", optim::AdagradOptions(0.1), true),
        make_case<optim::RMSprop>("RmsProp", optim::RMSpropOptions(0.01)),
        make_case<optim::RMSprop>("RmsPropFull", optim::RMSpropOptions(0.01).momentum(0.9).centered(true))),
    [](const auto& test) { return test.param.name; });

TEST_F(CheckpointTest, ReturnsEverythingAboutTheJob) {
  Net net;
  optim::SGD sgd(net->parameters(), 0.1);
  EXPECT_FALSE(Checkpoints(folder_).load_newest(*net, sgd).has_value());
  const CheckpointInfo saved = info_at(7);
  Checkpoints(folder_).save(saved, *net, sgd);
  EXPECT_EQ(Checkpoints(folder_).newest_step(), 7);
  const auto info = Checkpoints(folder_).load_newest(*net, sgd).value();
  EXPECT_EQ(info.step, 7);
  EXPECT_EQ(info.data_position, 84);
  EXPECT_EQ(info.world, 3);
  EXPECT_EQ(info.model, "net");
  EXPECT_EQ(info.seed, saved.seed);
  EXPECT_EQ(info.strategy, "ring-1");
  ASSERT_EQ(info.rng.size(), 3u);
  EXPECT_TRUE(torch::equal(info.rng[0], saved.rng[0]));
  EXPECT_FALSE(info.rng[1].defined());  // a server has none
  EXPECT_TRUE(torch::equal(info.rng[2], saved.rng[2]));
}

TEST_F(CheckpointTest, KeepsTheNewestTwoAndRemovesLeftoversOfTheDead) {
  Net net;
  optim::SGD sgd(net->parameters(), 0.1);
  Checkpoints checkpoints(folder_);
  checkpoints.save(info_at(9), *net, sgd);
  const std::string dead = "checkpoint-00000010.safetensors.tmp-2147483647";  // no system counts that far
  const std::string alive = fmt::format("checkpoint-00000010.safetensors.tmp-{}", ::getppid());
  std::ofstream(folder_ / dead) << "half";
  std::ofstream(folder_ / alive) << "half";
  std::ofstream(folder_ / "notes.txt") << "mine";
  checkpoints.save(info_at(10), *net, sgd);
  checkpoints.save(info_at(123456789), *net, sgd);
  EXPECT_THAT(files(), testing::ElementsAre("checkpoint-00000010.safetensors", alive,
                                            "checkpoint-123456789.safetensors", "notes.txt"));
}

TEST_F(CheckpointTest, NeverRemovesALaterStepOfAnotherRun) {
  Net net;
  optim::SGD sgd(net->parameters(), 0.1);
  Checkpoints(folder_).save(info_at(100), *net, sgd);
  EXPECT_THROW(Checkpoints(folder_).save(info_at(5), *net, sgd), InputError);
  EXPECT_THAT(files(), testing::ElementsAre("checkpoint-00000100.safetensors"));
}

// Damage of the newest file at any place: the one before is loaded, and the next save replaces the damaged
// one.
TEST_F(CheckpointTest, FallsBackWhenTheNewestIsDamaged) {
  Net net;
  optim::Adam adam(net->parameters());
  Checkpoints checkpoints(folder_);
  checkpoints.save(info_at(1), *net, adam);
  Net first;
  optim::Adam first_adam(first->parameters());
  ASSERT_EQ(checkpoints.load_newest(*first, first_adam)->step, 1);
  train(net, adam, 1);
  checkpoints.save(info_at(2), *net, adam);
  const fs::path newest = folder_ / "checkpoint-00000002.safetensors";
  const std::string whole = read_file(newest);
  const auto expect_fallback = [&](const std::string& damaged, const std::string& how) {
    write_file_atomically(newest, damaged);
    Net loaded;
    optim::Adam loaded_adam(loaded->parameters());
    EXPECT_EQ(Checkpoints(folder_).load_newest(*loaded, loaded_adam)->step, 1) << how;
    EXPECT_TRUE(same_bits(state_of(first), state_of(loaded))) << how;
  };
  for (size_t size = 0; size < whole.size(); size += whole.size() / 60) {
    expect_fallback(whole.substr(0, size), fmt::format("truncated to {}", size));
  }
  for (size_t at = 0; at < whole.size(); at += at < 1000 ? 23 : whole.size() / 60) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    expect_fallback(damaged, fmt::format("byte {} flipped", at));
  }
  expect_fallback(std::string(whole.size(), '\0'), "zeros");
  expect_fallback(whole + "x", "longer");

  Checkpoints(folder_).save(info_at(1), *net, adam);
  EXPECT_THAT(files(), testing::ElementsAre("checkpoint-00000001.safetensors"));
}

TEST_F(CheckpointTest, FailsWhenNothingIsReadable) {
  Net net;
  optim::SGD sgd(net->parameters(), 0.1);
  Checkpoints(folder_).save(info_at(1), *net, sgd);
  write_file_atomically(folder_ / "checkpoint-00000001.safetensors", "junk");
  try {
    Checkpoints(folder_).load_newest(*net, sgd);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("checkpoint-00000001.safetensors is damaged"));
  }
}

// Another model or optimizer: the message names what differs, and nothing has changed.
TEST_F(CheckpointTest, RefusesAnotherModelAndChangesNothing) {
  Net saved;
  optim::Adam saved_adam(saved->parameters());
  train(saved, saved_adam, 1);
  Checkpoints(folder_).save(info_at(3), *saved, saved_adam);
  const auto expect_refusal = [&](Net net, optim::Optimizer& optimizer, const std::string& message) {
    const double rate = optimizer.param_groups()[0].options().get_lr();
    const auto before = state_of(net);
    try {
      Checkpoints(folder_).load_newest(*net, optimizer);
      FAIL() << message;
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), HasSubstr(message));
    }
    EXPECT_TRUE(same_bits(before, state_of(net)));
    EXPECT_TRUE(optimizer.state().empty());
    EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), rate);
  };
  Net wide(false, 17);
  optim::Adam wide_adam(wide->parameters(), 0.5);
  expect_refusal(wide, wide_adam,
                 "variable hidden.weight is [16, 8] Float there, but [17, 8] Float in the model");
  Net more;
  more->register_buffer("extra", torch::zeros(3));
  optim::Adam more_adam(more->parameters(), 0.5);
  expect_refusal(more, more_adam, "variable extra [3] Float is not in it");
  Net same;
  optim::SGD sgd(same->parameters(), 0.5);
  expect_refusal(same, sgd, "optimizer is Adam there, but SGD now");
  optim::Adam part({same->words->weight}, 0.5);
  expect_refusal(same, part, "the optimizer has no place for it");
}

TEST_F(CheckpointTest, RefusesOptimizersItCannotStore) {
  Net net;
  optim::LBFGS lbfgs(net->parameters());
  try {
    Checkpoints(folder_).save(info_at(1), *net, lbfgs);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("LBFGS"));
    EXPECT_THAT(e.what(), HasSubstr("allowed: SGD, Adam, AdamW, Adagrad, RMSprop"));
  }
  optim::SGD stranger({torch::zeros(3)}, 0.1);
  EXPECT_THROW(Checkpoints(folder_).save(info_at(1), *net, stranger), InputError);
  EXPECT_FALSE(fs::exists(folder_));
}

TEST(RngState, RefusesJunk) {
  const torch::Tensor before = rng_state();
  EXPECT_THROW(set_rng_state(torch::zeros(7, torch::kByte)), InputError);
  EXPECT_TRUE(torch::equal(before, rng_state()));
}

}  // namespace
}  // namespace entrain::checkpoint
