#include "entrain/transport/group_transport.h"

#include <algorithm>

#include "entrain/base/error.h"

namespace entrain::transport {

GroupTransport::GroupTransport(Transport& whole, std::vector<int> ranks)
    : whole_(whole),
      ranks_(std::move(ranks)),
      rank_(static_cast<int>(std::find(ranks_.begin(), ranks_.end(), whole.rank()) - ranks_.begin())) {
  if (rank_ == size()) fail("rank {} is not of the group", whole.rank());
}

void GroupTransport::post_send(int peer, Tag tag, std::vector<ConstBytes> data, SendOptions options,
                               Done done) {
  whole_.post_send(ranks_.at(peer), tag, std::move(data), options, std::move(done));
}

void GroupTransport::post_recv(int peer, Tag tag, std::vector<Bytes> into, RecvOptions options, Done done) {
  if (peer == kAnyPeer) fail("a group's receive names its peer");
  whole_.post_recv(ranks_.at(peer), tag, std::move(into), options,
                   [peer, done = std::move(done)](Result result) {
                     result.peer = peer;
                     done(std::move(result));
                   });
}

}  // namespace entrain::transport
