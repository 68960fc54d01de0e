#include "entrain/optim/vector_message.h"

#include <cstring>
#include <thread>

#include "entrain/base/error.h"

namespace entrain::optim {
namespace {

constexpr double kSilence_s = 5;  // of a process that says something every second

}  // namespace

torch::Tensor in_host_memory(const torch::Tensor& x) { return x.detach().to(torch::kCPU).contiguous(); }

transport::ConstBytes bytes_of(const torch::Tensor& host) {
  return {static_cast<const std::byte*>(host.data_ptr()), host.nbytes()};
}

Heading heading_of(const transport::Payload& payload) {
  Heading heading;
  if (payload.size() >= sizeof heading) std::memcpy(&heading, payload.bytes().data(), sizeof heading);
  return heading;
}

VectorMessage read_message(transport::Payload& payload) {
  VectorMessage message;
  if (payload.size() < sizeof(Heading)) fail("a message of {} bytes has no heading", payload.size());
  message.heading = heading_of(payload);
  if (message.heading.count == 0) return message;
  const auto dtype = static_cast<torch::ScalarType>(message.heading.dtype);
  const size_t expected = message.heading.count * c10::elementSize(dtype);
  if (payload.size() != sizeof(Heading) + expected) {
    fail("a message of {} bytes was announced as a vector of {}", payload.size(), message.heading.count);
  }
  message.vector = torch::from_blob(payload.bytes().data() + sizeof(Heading), {message.heading.count},
                                    torch::dtype(dtype));
  return message;
}

torch::Tensor take_vector(transport::Payload payload) {
  const auto kept = std::make_shared<transport::Payload>(std::move(payload));
  const torch::Tensor vector = read_message(*kept).vector;
  if (!vector.defined()) fail("a message of {} bytes holds no vector", kept->size());
  return torch::from_blob(
      vector.data_ptr(), vector.sizes(), [kept](void*) {}, vector.options());
}

std::shared_ptr<const VectorMessage> make_message(Heading heading, torch::Tensor vector) {
  if (vector.defined()) {
    heading.dtype = static_cast<int32_t>(vector.scalar_type());
    heading.count = vector.numel();
  }
  return std::make_shared<VectorMessage>(VectorMessage{heading, std::move(vector)});
}

void post(transport::Transport& transport, int peer, Channel channel,
          std::shared_ptr<const VectorMessage> message, std::function<void()> done) {
  std::vector<transport::ConstBytes> pieces{std::as_bytes(std::span(&message->heading, 1))};
  if (message->vector.defined()) pieces.push_back(bytes_of(message->vector));
  transport.post_send(peer, tag_of(channel), std::move(pieces), {},
                      [message = std::move(message), done = std::move(done)](transport::Result) {
                        if (done) done();
                      });
}

void say_goodbye(transport::Transport& transport, int peer, Channel channel) {
  transport.post_send(peer, tag_of(channel), {}, {}, [](transport::Result) {});
}

struct Inbox::State {
  transport::Transport& transport;
  const Channel channel;
  std::mutex mutex;  // guards all below; held while they run
  OnMessage on_message;
  OnEnd on_end;
};

Inbox::Inbox(transport::Transport& transport, const std::vector<int>& peers, Channel channel,
             OnMessage on_message, OnEnd on_end)
    : state_(new State{transport, channel, {}, std::move(on_message), std::move(on_end)}) {
  for (const int peer : peers) listen(state_, peer);
}

Inbox::~Inbox() {
  std::lock_guard lock(state_->mutex);
  state_->on_message = nullptr;
  state_->on_end = nullptr;
}

void Inbox::listen(const std::shared_ptr<State>& state, int peer) {
  state->transport.post_recv(peer, tag_of(state->channel), {}, {}, [state, peer](transport::Result result) {
    const bool lost = result.error != nullptr;
    const bool ends = lost || result.payload.size() == 0;
    {
      std::lock_guard lock(state->mutex);
      if (ends && state->on_end) state->on_end(peer, lost);
      if (!ends && state->on_message) state->on_message(peer, std::move(result.payload));
    }
    if (!ends) listen(state, peer);
  });
}

Attendance::Attendance(transport::Transport& transport, const std::vector<int>& workers)
    : transport_(transport), there_(workers.begin(), workers.end()) {}

void Attendance::ended(int worker) {
  std::lock_guard lock(mutex_);
  there_.erase(worker);
}

bool Attendance::is_present(int worker) const {
  {
    std::lock_guard lock(mutex_);
    if (!there_.contains(worker)) return false;
  }
  return transport_.silence_s(worker) < kSilence_s;
}

void Attendance::wait() const {
  std::set<int> left;
  do {
    {
      std::lock_guard lock(mutex_);
      left = there_;
    }
    std::erase_if(left, [&](int worker) { return !is_present(worker); });
    if (!left.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  } while (!left.empty());
}

}  // namespace entrain::optim
