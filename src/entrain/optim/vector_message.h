// Messages that nobody waits for, and who is still there to send them. For asynchronous rules.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "entrain/transport/transport.h"

namespace entrain::optim {

// What the ranks of an asynchronous rule tell each other. One rule per transport: a second one's messages
// would mix with the first one's.
enum class Channel : transport::Tag {
  kRequest = transport::Tag{0xFFA5} << 48,
  kReply,
  kReport,
  kCommand,
  kSnapshot,
  kSaveOrder,  // see train/common_saves.h
  kSaveReport
};
constexpr transport::Tag tag_of(Channel channel) { return static_cast<transport::Tag>(channel); }

// A vector in host memory, contiguous: `x` itself when it is one.
torch::Tensor in_host_memory(const torch::Tensor& x);
// The bytes of such a vector.
transport::ConstBytes bytes_of(const torch::Tensor& host);

// What goes before a vector in a message. `kind` and `number` mean what each channel says.
struct Heading {
  int32_t kind = 0;
  int32_t dtype = 0;
  int64_t number = 0;
  double value = 0;
  int64_t count = 0;  // of the vector; keeps what follows aligned
};
static_assert(sizeof(Heading) == 32);

struct VectorMessage {
  Heading heading;
  torch::Tensor vector;  // in host memory, not changed any more; undefined: none
};
// `vector`: contiguous, in host memory, never changed again; or undefined.
std::shared_ptr<const VectorMessage> make_message(Heading heading, torch::Tensor vector = {});
// The other side of it: its heading, for callbacks (zeros when it is nothing), and all of it. The vector
// borrows the payload's memory. Throws Error when it is none.
Heading heading_of(const transport::Payload& payload);
VectorMessage read_message(transport::Payload& payload);
// Its vector, which keeps the payload's memory: no copy.
torch::Tensor take_vector(transport::Payload payload);

// The ranks but one, the caller's own for instance.
inline std::vector<int> without(std::vector<int> ranks, int rank) {
  std::erase(ranks, rank);
  return ranks;
}

// Sends without waiting; the message is kept until it has gone. `done` is called then, on the transport's
// thread. A peer that is lost is no error here: whoever needs it learns that elsewhere.
void post(transport::Transport& transport, int peer, Channel channel,
          std::shared_ptr<const VectorMessage> message, std::function<void()> done = {});
// Tells `peer` that nothing more comes on this channel.
void say_goodbye(transport::Transport& transport, int peer, Channel channel);

// Takes what each of `peers` sends on a channel, until it says goodbye or is lost; also after the inbox is
// gone, so that nothing is left behind in the transport.
class Inbox {
 public:
  // Both on the transport's thread (inproc: possibly another rank's), one at a time. They must not block.
  using OnMessage = std::function<void(int peer, transport::Payload message)>;
  using OnEnd = std::function<void(int peer, bool lost)>;

  Inbox(transport::Transport& transport, const std::vector<int>& peers, Channel channel, OnMessage on_message,
        OnEnd on_end);
  ~Inbox();  // neither is called any more
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

 private:
  struct State;
  static void listen(const std::shared_ptr<State>& state, int peer);
  std::shared_ptr<State> state_;
};

// Which workers may still say something. Thread-safe.
class Attendance {
 public:
  Attendance(transport::Transport& transport, const std::vector<int>& workers);

  void ended(int worker);
  // Neither has ended nor has its process fallen silent.
  bool is_present(int worker) const;
  // Until no worker is left. One whose process is silent is not waited for: it may be stopped for good.
  void wait() const;

 private:
  transport::Transport& transport_;
  mutable std::mutex mutex_;
  std::set<int> there_;
};

}  // namespace entrain::optim
