// kill -9 at any moment leaves a newest checkpoint that is whole.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "entrain/base/error.h"
#include "entrain/checkpoint/checkpoint.h"

namespace entrain::checkpoint {
namespace {

namespace fs = std::filesystem;

// Every number of the job's state is its step, so that a mixture of two steps would show.
struct Job {
  torch::nn::Linear model{torch::nn::LinearOptions(400, 500)};
  torch::optim::SGD sgd{model->parameters(), torch::optim::SGDOptions(1e-9).momentum(0.5)};

  Job() {
    for (auto& parameter : model->parameters()) parameter.mutable_grad() = torch::zeros_like(parameter);
    sgd.step();  // makes the momentum
  }
  std::vector<torch::Tensor> tensors() const {
    auto all = model->parameters();
    for (const auto& item : sgd.state()) {
      all.push_back(static_cast<const torch::optim::SGDParamState&>(*item.second).momentum_buffer());
    }
    return all;
  }
  void save(Checkpoints& checkpoints, int64_t step) {
    const torch::NoGradGuard no_grad;
    for (auto& tensor : tensors()) tensor.fill_(static_cast<double>(step));
    checkpoints.save({step, 10 * step, 1, "job", 0, "s", {torch::full({64}, step % 256, torch::kByte)}},
                     *model, sgd);
  }
};

[[noreturn]] void save_forever(const fs::path& folder, int64_t step) {
  Job job;
  Checkpoints checkpoints(folder);
  for (;; ++step) job.save(checkpoints, step);
}

TEST(CheckpointCrash, KillNeverLeavesAnUnreadableNewest) {
  torch::set_num_threads(1);  // OpenMP's threads do not survive a fork
  const fs::path folder = fs::temp_directory_path() / fmt::format("entrain-crash-{}", ::getpid());
  fs::remove_all(folder);
  Checkpoints checkpoints(folder);
  Job job;
  job.save(checkpoints, 1);
  std::mt19937 random(7);
  int64_t newest = 1;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_forever(folder, newest + 1);
    while (checkpoints.newest_step() == newest) ::usleep(200);  // it has begun
    ::usleep(random() % 60'000);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";

    const auto latest = checkpoints.newest_step();
    const auto info = checkpoints.load_newest(*job.model, job.sgd);
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->step, latest) << "the newest was not readable";
    EXPECT_GT(info->step, newest);
    EXPECT_EQ(info->data_position, 10 * info->step);
    EXPECT_TRUE(info->rng.at(0).eq(info->step % 256).all().item<bool>());
    const auto tensors = job.tensors();
    EXPECT_EQ(tensors.size(), 4u);
    for (const auto& tensor : tensors)
      EXPECT_TRUE(tensor.eq(static_cast<double>(info->step)).all().item<bool>());
    newest = info->step;
  }
  job.save(checkpoints, newest + 1);  // removes what the killed ones left
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace entrain::checkpoint
