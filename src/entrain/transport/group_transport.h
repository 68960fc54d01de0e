// Some ranks of a job as a job of their own: rank i of the group is ranks[i] of the whole.
#pragma once

#include "entrain/transport/transport.h"

namespace entrain::transport {

// For groups that share no pair of ranks on the same tags (the replicas of each cell of a pipeline): tags are
// those of the whole. An orderly end leaves the whole as it is; a failure ends it. Receives name their peer.
// The whole outlives this.
class GroupTransport : public Transport {
 public:
  // Requires: `ranks` ascending, this rank among them.
  GroupTransport(Transport& whole, std::vector<int> ranks);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  void post_send(int peer, Tag tag, std::vector<ConstBytes> data, SendOptions options, Done done) override;
  void post_recv(int peer, Tag tag, std::vector<Bytes> into, RecvOptions options, Done done) override;
  void close(const std::string& reason) override {
    if (!reason.empty()) whole_.close(reason);
  }
  void give_up(int suspect, const std::string& what) override { whole_.give_up(ranks_.at(suspect), what); }
  void tolerate_losses() override { whole_.tolerate_losses(); }
  double silence_s(int peer) const override { return whole_.silence_s(ranks_.at(peer)); }
  uint64_t bytes_sent() const override { return whole_.bytes_sent(); }

 private:
  Transport& whole_;
  std::vector<int> ranks_;
  int rank_;
};

}  // namespace entrain::transport
