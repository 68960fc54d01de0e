#include "entrain/optim/crew.h"

#include <algorithm>
#include <memory>

#include "entrain/base/error.h"
#include "entrain/collective/algorithms.h"

namespace entrain::optim {
namespace {

collective::Type type_of(const torch::Tensor& tensor) {
  const torch::ScalarType type = tensor.scalar_type();
  if (type == torch::kFloat32) return collective::Type::kFloat32;
  if (type == torch::kFloat64) return collective::Type::kFloat64;
  if (type == torch::kFloat16) return collective::Type::kFloat16;
  if (type == torch::kBFloat16) return collective::Type::kBFloat16;
  bad_input("the parameters are {}, allowed: float32, float64, float16, bfloat16", torch::toString(type));
}

// Each to each in one round: chunk i is the number of ranks[i].
collective::Schedule everyone_to_everyone(const std::vector<int>& ranks, int world) {
  const int n = static_cast<int>(ranks.size());
  collective::Schedule s{"numbers", world, n, {}};
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      if (i != j) s.transfers.push_back({0, ranks[i], ranks[j], i, false});
    }
  }
  return s;
}

}  // namespace

Crew::Crew(transport::Transport& transport, std::vector<int> ranks, int number, double timeout_s)
    : transport_(transport), ranks_(std::move(ranks)), number_(number), timeout_s_(timeout_s) {
  const auto me = std::find(ranks_.begin(), ranks_.end(), transport.rank());
  if (me == ranks_.end()) fail("rank {} is not of its crew", transport.rank());
  index_ = static_cast<int>(me - ranks_.begin());
}

Crew::~Crew() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  // Closing fails what is under way, and waits for the last callback into loop_.
  if (running_ || unfinished_ > 0)
    transport_.close(fmt::format("rank {} ended in the middle of an exchange", transport_.rank()));
  if (thread_.joinable()) thread_.join();
}

// 11 | number (14 bits) | call (16 bits) | the executor's 32 bits. The engine of sync/ leaves the top bit 0,
// and control traffic leaves the one below it 0.
transport::Tag Crew::next_tag() {
  return transport::Tag{3} << 62 | static_cast<transport::Tag>(number_) << 48 | (calls_++ & 0xffff) << 32;
}

void Crew::run(const std::string& name, const std::function<collective::Schedule()>& schedule,
               const torch::Tensor& message, collective::Type type) {
  auto program = programs_.find(name);
  if (program == programs_.end()) {
    program = programs_.emplace(name, collective::compile(schedule(), transport_.rank())).first;
  }
  under_way_ = message;
  running_ = true;
  collective::RunOptions options;
  options.tag = next_tag();
  options.type = type;
  options.what = name;
  bool finished = false;
  std::exception_ptr error;
  const transport::Bytes bytes(static_cast<std::byte*>(message.data_ptr()), message.nbytes());
  const auto run = std::make_shared<collective::Run>(program->second, collective::Buffer({bytes}), options,
                                                     transport_, loop_, [&](std::exception_ptr result) {
                                                       finished = true;
                                                       error = result;
                                                     });
  run->start();
  while (!finished) {
    if (loop_.run_some(Deadline::after(timeout_s_))) continue;
    int peer = run->waiting_for();
    if (peer < 0) peer = ranks_[(index_ + 1) % ranks_.size()];  // it only sends: someone does not read
    transport_.give_up(peer, fmt::format("rank {} has waited {:.0f} s for rank {}: {}", transport_.rank(),
                                         timeout_s_, peer, name));
  }
  if (error) std::rethrow_exception(error);
  under_way_.reset();
  running_ = false;
}

std::vector<double> Crew::all_gather(double value) {
  torch::Tensor values = torch::zeros({count()}, torch::kFloat64);
  double* data = values.data_ptr<double>();
  data[index_] = value;
  if (count() > 1) {
    run(
        "gathering losses", [&] { return everyone_to_everyone(ranks_, transport_.size()); }, values,
        collective::Type::kFloat64);
  }
  return {data, data + count()};
}

void Crew::broadcast(torch::Tensor& message, int root) {
  if (count() == 1) return;
  const torch::NoGradGuard no_grad;
  const bool staged = !message.is_cpu();
  torch::Tensor host = message;
  if (staged) host = root == index_ ? message.cpu() : torch::empty_like(message, torch::kCPU);
  const auto schedule = [&] {
    std::vector<int> from_root = ranks_;
    std::rotate(from_root.begin(), from_root.begin() + root, from_root.end());
    return collective::broadcast(from_root, transport_.size());
  };
  run(fmt::format("broadcast of the parameters of rank {}", ranks_[root]), schedule, host, type_of(host));
  if (staged && root != index_) message.copy_(host);
}

void Crew::all_reduce(torch::Tensor& message) {
  if (count() == 1) return;
  const torch::NoGradGuard no_grad;
  const torch::Tensor host = message.cpu();  // itself where it is there already
  run(
      "all-reduce of the parameters", [&] { return collective::ring(ranks_, transport_.size()); }, host,
      type_of(host));
  if (!message.is_cpu()) message.copy_(host);
}

std::future<void> Crew::beside(std::function<void()> exchange) {
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  ++unfinished_;
  std::packaged_task<void()> task([this, exchange = std::move(exchange)] {
    auto end = [this](void*) { --unfinished_; };  // before the future is ready, and after an error too
    const std::unique_ptr<void, decltype(end)> at_end(this, end);
    exchange();
  });
  std::future<void> future = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
  return future;
}

void Crew::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopped_ || !tasks_.empty(); });
    if (stopped_) return;  // what was not begun ends as a broken promise
    std::packaged_task<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace entrain::optim
