#include "entrain/pipeline/run/rank_mail.h"

#include <fmt/format.h>

#include <cstring>

#include "entrain/base/clock.h"
#include "entrain/base/error.h"
#include "entrain/transport/control_tags.h"

namespace entrain::pipeline {
namespace {

using transport::Tag;

// Above every tag of gradients' exchanges; below: edge (16 bits), direction, micro-batch.

Tag tag_of(Tag base, const Parcel& parcel) {
  return base | Tag{parcel.edge} << 33 | Tag{parcel.backward} << 32 | static_cast<Tag>(parcel.micro_batch);
}

// Of values of so many examples: whichever of them is sent, or waited for, first.
Tag outline_tag_of(const Parcel& parcel, int64_t examples) {
  return transport::tags::kCellValueOutline | Tag{parcel.edge} << 33 | static_cast<Tag>(examples);
}

double steady_seconds() { return Seconds(Clock::now().time_since_epoch()).count(); }

}  // namespace

struct RankMail::Incoming {
  torch::Tensor value;         // empty outline: undefined, see payload
  double sent = 0;             // by the sender's clock, after the value
  transport::Payload payload;  // of an outline
  std::string what;
  bool done = false;         // guarded by RankMail::mutex_
  std::exception_ptr error;  // guarded by RankMail::mutex_
};

RankMail::RankMail(transport::Transport& transport, const Cut& cut, std::vector<std::vector<int>> rank_of,
                   torch::Device device, double timeout_s)
    : transport_(transport),
      cut_(cut),
      rank_of_(std::move(rank_of)),
      device_(device),
      timeout_s_(timeout_s) {}

// Callbacks of messages under way would meet a dead object: close() returns when none will come.
RankMail::~RankMail() {
  bool under_way = false;
  {
    const std::lock_guard lock(mutex_);
    under_way = leaving_ + posted_ > 0;
  }
  if (under_way) transport_.close(fmt::format("rank {} ended in the middle of a step", transport_.rank()));
}

void RankMail::end_step() {
  std::unique_lock lock(mutex_);
  const auto left = [&] { return leaving_ == 0 || error_; };
  if (!changed_.wait_for(lock, std::chrono::duration<double>(timeout_s_), left)) {
    lock.unlock();
    transport_.give_up(last_peer_, "the end of a step's sends");
    lock.lock();
    changed_.wait(lock, left);
  }
  if (error_) std::rethrow_exception(error_);
}

int RankMail::peer_of(const Parcel& parcel, bool sending) const {
  const Edge& edge = cut_.edges[parcel.edge];
  const int cell = sending != parcel.backward ? edge.to : edge.from;
  return rank_of_[static_cast<size_t>(cell)][static_cast<size_t>(parcel.micro_batch)];
}

std::string RankMail::name_of(const Parcel& parcel) const {
  const Edge& edge = cut_.edges[parcel.edge];
  return fmt::format("{}{} of micro-batch {} from cell {} to cell {}", parcel.backward ? "gradient of " : "",
                     edge.skip.empty() ? "activation" : "skip '" + edge.skip + "'", parcel.micro_batch,
                     parcel.backward ? edge.to : edge.from, parcel.backward ? edge.from : edge.to);
}

RankMail::ShapeKey RankMail::shape_key(const Parcel& parcel, int peer, bool value_leaves) const {
  return {parcel.edge, sizes_.at(static_cast<size_t>(parcel.micro_batch)), peer, value_leaves};
}

void RankMail::send_bytes(int peer, Tag tag, std::shared_ptr<void> owner,
                          std::vector<transport::ConstBytes> data, std::shared_ptr<std::string> what) {
  {
    const std::lock_guard lock(mutex_);
    ++leaving_;
  }
  last_peer_ = peer;
  const std::string_view name = *what;
  transport_.post_send(peer, tag, std::move(data), {0, Deadline::never(), name},
                       [this, owner = std::move(owner), what = std::move(what)](transport::Result result) {
                         const std::lock_guard lock(mutex_);
                         --leaving_;
                         if (result.error && !error_) error_ = result.error;
                         changed_.notify_all();
                       });
}

void RankMail::send(const Parcel& parcel, torch::Tensor value) {
  const int peer = peer_of(parcel, true);
  if (peer == transport_.rank()) {
    own_.emplace(parcel, std::move(value));
    return;
  }
  // No number, no gradient: the other end does not wait for one.
  if (parcel.backward && !value.defined()) return;
  struct Outgoing {
    torch::Tensor value;
    std::string outline;
    double sent;
  };
  auto outgoing = std::make_shared<Outgoing>();
  auto what = std::make_shared<std::string>(name_of(parcel));
  outgoing->value = value.to(torch::kCPU).contiguous();
  const torch::Tensor& tensor = outgoing->value;
  if (!parcel.backward && !outlines_.contains(shape_key(parcel, peer, true))) {
    outlines_[shape_key(parcel, peer, true)] = {tensor.scalar_type(), tensor.sizes().vec()};
    std::vector<int64_t> outline = {static_cast<int64_t>(tensor.scalar_type())};
    outline.insert(outline.end(), tensor.sizes().begin(), tensor.sizes().end());
    outgoing->outline.assign(reinterpret_cast<const char*>(outline.data()), 8 * outline.size());
    send_bytes(peer, outline_tag_of(parcel, sizes_.at(static_cast<size_t>(parcel.micro_batch))), outgoing,
               {transport::as_bytes(outgoing->outline)}, what);
  }
  outgoing->sent = steady_seconds();
  send_bytes(peer, tag_of(transport::tags::kCellValue, parcel), outgoing,
             {{static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()},
              {reinterpret_cast<const std::byte*>(&outgoing->sent), sizeof(double)}},
             what);
}

void RankMail::post(int peer, Tag tag, std::shared_ptr<Incoming> incoming) {
  std::vector<transport::Bytes> into;
  if (incoming->value.defined()) {
    into = {{static_cast<std::byte*>(incoming->value.data_ptr()), incoming->value.nbytes()},
            {reinterpret_cast<std::byte*>(&incoming->sent), sizeof(double)}};
  }
  {
    const std::lock_guard lock(mutex_);
    ++posted_;
  }
  const std::string_view name = incoming->what;
  transport_.post_recv(peer, tag, std::move(into), {Deadline::never(), name},
                       [this, incoming](transport::Result result) {
                         const std::lock_guard lock(mutex_);
                         --posted_;
                         incoming->payload = std::move(result.payload);
                         incoming->error = result.error;
                         incoming->done = true;
                         changed_.notify_all();
                       });
}

void RankMail::expect(const Parcel& parcel) {
  const int peer = peer_of(parcel, false);
  if (peer == transport_.rank() || incoming_.contains(parcel)) return;
  const auto outline = outlines_.find(shape_key(parcel, peer, parcel.backward));
  if (outline == outlines_.end()) return;  // its first time: see receive()
  if (parcel.backward && !isFloatingType(outline->second.type)) return;
  auto incoming = std::make_shared<Incoming>();
  incoming->value = torch::empty(outline->second.sizes, outline->second.type);
  incoming->what = name_of(parcel);
  incoming_[parcel] = incoming;
  post(peer, tag_of(transport::tags::kCellValue, parcel), incoming);
}

void RankMail::wait_for(Incoming& incoming, int peer) {
  std::unique_lock lock(mutex_);
  const auto limit = std::chrono::duration<double>(timeout_s_);
  if (!changed_.wait_for(lock, limit, [&] { return incoming.done; })) {
    lock.unlock();
    transport_.give_up(peer, incoming.what);
    lock.lock();
    changed_.wait(lock, [&] { return incoming.done; });
  }
  if (incoming.error) std::rethrow_exception(incoming.error);
}

void RankMail::learn_outline(const Parcel& parcel) {
  const int peer = peer_of(parcel, false);
  auto incoming = std::make_shared<Incoming>();
  incoming->what = "outline of " + name_of(parcel);
  post(peer, outline_tag_of(parcel, sizes_.at(static_cast<size_t>(parcel.micro_batch))), incoming);
  wait_for(*incoming, peer);
  const auto bytes = incoming->payload.bytes();
  std::vector<int64_t> outline(bytes.size() / 8);
  std::memcpy(outline.data(), bytes.data(), 8 * outline.size());
  if (outline.empty() || outline[0] < 0 ||
      outline[0] >= static_cast<int64_t>(torch::ScalarType::NumOptions)) {
    fail("rank {}: {} makes no sense", transport_.rank(), incoming->what);
  }
  outlines_[shape_key(parcel, peer, parcel.backward)] = {static_cast<torch::ScalarType>(outline[0]),
                                                         {outline.begin() + 1, outline.end()}};
}

torch::Tensor RankMail::receive(const Parcel& parcel, Waited& waited) {
  const int peer = peer_of(parcel, false);
  if (peer == transport_.rank()) {
    auto value = own_.extract(parcel);
    if (value.empty()) fail("rank {}: {} was not computed yet", peer, name_of(parcel));
    return std::move(value.mapped());
  }
  const double since = steady_seconds();
  if (!outlines_.contains(shape_key(parcel, peer, parcel.backward))) learn_outline(parcel);
  expect(parcel);
  const auto found = incoming_.find(parcel);
  if (found == incoming_.end()) return {};  // the gradient of what is no number
  const auto incoming = found->second;
  incoming_.erase(found);
  wait_for(*incoming, peer);
  // Clocks of one machine agree; those of others may not, so the split is kept within the wait.
  const double until = steady_seconds();
  const double for_sender = std::clamp(incoming->sent - since, 0.0, until - since);
  waited.for_sender += for_sender;
  waited.for_transfer += until - since - for_sender;
  return incoming->value.to(device_);
}

}  // namespace entrain::pipeline
