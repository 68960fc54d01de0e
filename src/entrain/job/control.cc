#include "entrain/job/control.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <future>
#include <memory>

#include "entrain/base/error.h"

namespace entrain::job {

namespace {

std::vector<int> receivers(const Context& context, To to) {
  std::vector<int> ranks;
  for (int rank = 1; rank < context.world(); ++rank) {
    if (context.cluster.is_worker(rank) == (to == To::kWorkers)) ranks.push_back(rank);
  }
  return ranks;
}

std::string text_of(Order order) { return static_cast<char>(order.kind) + std::to_string(order.number); }

// What `post` posts ends, or `peer`, which it needs, has been silent for the job's timeout and is given up.
transport::Payload wait_while_alive(Context& context, int peer, std::string_view what,
                                    const std::function<void(transport::Done)>& post) {
  transport::Transport& transport = *context.transport;
  const auto promise = std::make_shared<std::promise<transport::Result>>();
  auto result = promise->get_future();
  post([promise](transport::Result r) { promise->set_value(std::move(r)); });
  while (result.wait_for(std::chrono::seconds(1)) != std::future_status::ready) {
    if (transport.silence_s(peer) < context.job.timeout_s) continue;
    transport.give_up(peer, fmt::format("rank {} has heard nothing of rank {} for {:.0f} s: {}",
                                        context.rank(), peer, context.job.timeout_s, what));
  }
  transport::Result done = result.get();
  if (done.error) std::rethrow_exception(done.error);
  return std::move(done.payload);
}

void send_while_alive(Context& context, int peer, transport::Tag tag, const std::string& text, int priority,
                      std::string_view what) {
  wait_while_alive(context, peer, what, [&](transport::Done done) {
    context.transport->post_send(peer, tag, {transport::as_bytes(text)}, {priority, Deadline::never(), what},
                                 std::move(done));
  });
}

}  // namespace

transport::Tag tag_of_orders(int stream) {
  return stream == 0 ? transport::Tag{transport::tags::kOrder}
                     : transport::tags::kOrderStream + static_cast<transport::Tag>(stream);
}

void give_order(Context& context, To to, Order order) {
  if (context.rank() != 0) return;
  if (to == To::kServers) context.servers_wait = order.kind != Order::Kind::kEndServing;
  const std::string text = text_of(order);
  for (const int rank : receivers(context, to)) {
    send_while_alive(context, rank, transport::tags::kOrder, text, -1, "order");
  }
}

void post_order(Context& context, To to, Order order, int stream) {
  if (context.rank() != 0) return;
  const auto text = std::make_shared<const std::string>(text_of(order));
  for (const int rank : receivers(context, to)) {
    context.transport->post_send(rank, tag_of_orders(stream), {transport::as_bytes(*text)}, {-1},
                                 [text](auto) {});
  }
}

Order take_order(Context& context, int stream) {
  const auto payload = recv_while_alive(context, 0, tag_of_orders(stream), "the next order of rank 0");
  const std::string text(transport::as_text(payload.bytes()));
  if (text.size() < 2) fail("rank {}: an order of rank 0 is cut off", context.rank());
  return {static_cast<Order::Kind>(text[0]), std::stoll(text.substr(1))};
}

void end_serving(Context& context) {
  if (context.servers_wait) give_order(context, To::kServers, {Order::Kind::kEndServing});
}

std::vector<std::string> gather_from_workers(Context& context, const std::string& own, transport::Tag tag,
                                             Deadline deadline, std::string_view what) {
  if (context.rank() != 0) {
    transport::send(*context.transport, 0, tag, transport::as_bytes(own), {0, deadline, what});
    return {};
  }
  std::vector<std::string> all;
  for (const int rank : context.cluster.worker_ranks()) {
    if (rank == 0) {
      all.push_back(own);
      continue;
    }
    const auto payload = transport::recv(*context.transport, rank, tag, {deadline, what});
    all.emplace_back(transport::as_text(payload.bytes()));
  }
  return all;
}

std::string tell_workers(Context& context, const std::string& text, transport::Tag tag, Deadline deadline,
                         std::string_view what) {
  if (context.rank() != 0) {
    const auto payload = transport::recv(*context.transport, 0, tag, {deadline, what});
    return std::string(transport::as_text(payload.bytes()));
  }
  for (const int rank : context.cluster.worker_ranks()) {
    if (rank != 0)
      transport::send(*context.transport, rank, tag, transport::as_bytes(text), {0, deadline, what});
  }
  return text;
}

transport::Payload recv_while_alive(Context& context, int peer, transport::Tag tag, std::string_view what) {
  return wait_while_alive(context, peer, what, [&](transport::Done done) {
    context.transport->post_recv(peer, tag, {}, {Deadline::never(), what}, std::move(done));
  });
}

// Rank 0 sends all of them on as one message: each text behind its size.
std::vector<std::string> exchange(Context& context, const std::string& own, transport::Tag tag,
                                  std::string_view what) {
  const auto workers = context.cluster.worker_ranks();
  std::string all;
  const auto add = [&](std::string_view text) {
    const uint64_t size = text.size();
    all.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(text);
  };
  if (context.rank() == 0) {
    add(own);
    for (const int rank : workers) {
      if (rank == 0) continue;
      const auto payload = recv_while_alive(context, rank, tag, what);
      add(transport::as_text(payload.bytes()));
    }
    for (const int rank : workers) {
      if (rank == 0) continue;
      send_while_alive(context, rank, tag, all, 0, what);
    }
  } else {
    send_while_alive(context, 0, tag, own, 0, what);
    const auto payload = recv_while_alive(context, 0, tag, what);
    all = transport::as_text(payload.bytes());
  }
  std::vector<std::string> texts;
  for (size_t at = 0; at < all.size();) {
    uint64_t size = 0;
    if (all.size() - at < sizeof(size)) fail("rank {}: {}: a message is cut off", context.rank(), what);
    std::memcpy(&size, all.data() + at, sizeof(size));
    texts.push_back(all.substr(at + sizeof(size), size));
    at += sizeof(size) + size;
  }
  return texts;
}

void await_all(Context& context, std::string_view what) {
  exchange(context, "", transport::tags::kAwaited, what);
}

}  // namespace entrain::job
