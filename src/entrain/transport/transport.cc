#include "entrain/transport/transport.h"

#include <future>

#include "entrain/base/error.h"

namespace entrain::transport {
namespace {

// Turns one posted operation into a blocking call.
class Waiter {
 public:
  Done done() {
    return [promise = promise_](Result result) { promise->set_value(std::move(result)); };
  }
  Result wait() {
    Result result = future_.get();
    if (result.error) std::rethrow_exception(result.error);
    return result;
  }

 private:
  // Shared with the callback: set_value may still be returning when the waiter is already gone.
  std::shared_ptr<std::promise<Result>> promise_ = std::make_shared<std::promise<Result>>();
  std::future<Result> future_ = promise_->get_future();
};

void check_control_tag(Tag tag) {
  if (tag < kControlTags) fail("tag {:#x} is not a control tag: those start at {:#x}", tag, kControlTags);
}

}  // namespace

void send(Transport& transport, int peer, Tag tag, ConstBytes data, SendOptions options) {
  Waiter waiter;
  transport.post_send(peer, tag, {data}, options, waiter.done());
  waiter.wait();
}

Payload recv(Transport& transport, int peer, Tag tag, RecvOptions options) {
  Waiter waiter;
  transport.post_recv(peer, tag, {}, options, waiter.done());
  return waiter.wait().payload;
}

void recv_into(Transport& transport, int peer, Tag tag, Bytes into, RecvOptions options) {
  Waiter waiter;
  transport.post_recv(peer, tag, {into}, options, waiter.done());
  waiter.wait();
}

void barrier(Transport& transport, Tag tag, Deadline deadline, std::string_view what) {
  gather(transport, 0, "", tag, deadline, what);
  broadcast(transport, 0, "", tag, deadline, what);
}

std::string broadcast(Transport& transport, int root, std::string data, Tag tag, Deadline deadline,
                      std::string_view what) {
  check_control_tag(tag);
  if (transport.rank() != root) {
    const Payload payload = recv(transport, root, tag, {.deadline = deadline, .what = what});
    return std::string(as_text(payload.bytes()));
  }
  std::vector<Waiter> waiters(transport.size());
  const SendOptions options{.priority = 0, .deadline = deadline, .what = what};
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer != root) transport.post_send(peer, tag, {as_bytes(data)}, options, waiters[peer].done());
  }
  std::exception_ptr first;  // `data` is lent to every send: all must end before this returns
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer == root) continue;
    try {
      waiters[peer].wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  return data;
}

std::vector<std::string> gather(Transport& transport, int root, std::string data, Tag tag, Deadline deadline,
                                std::string_view what) {
  check_control_tag(tag);
  if (transport.rank() != root) {
    send(transport, root, tag, as_bytes(data), {.priority = 0, .deadline = deadline, .what = what});
    return {};
  }
  std::vector<std::string> all(transport.size());
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer == root) continue;
    all[peer] = as_text(recv(transport, peer, tag, {.deadline = deadline, .what = what}).bytes());
  }
  all[root] = std::move(data);
  return all;
}

}  // namespace entrain::transport
