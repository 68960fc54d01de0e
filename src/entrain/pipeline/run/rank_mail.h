// Mail between cells that are ranks, over the transport.
//
// Shapes are told once: the first time a value of so many examples crosses an edge to a rank, an outline
// (type and sizes) goes ahead of it; afterwards both ends know, and a receive is posted before it is needed,
// into memory of its own, while the device computes. A gradient has the shape of its value.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "entrain/pipeline/run/border.h"
#include "entrain/pipeline/run/mail.h"
#include "entrain/transport/transport.h"

namespace entrain::pipeline {

// One thread, but for the transport's callbacks.
class RankMail : public Mail {
 public:
  // `rank_of`: by cell, by micro-batch: the rank that takes it through that cell. A value is received on
  // `device`. Waits of more than `timeout_s` end the job.
  RankMail(transport::Transport& transport, const Cut& cut, std::vector<std::vector<int>> rank_of,
           torch::Device device, double timeout_s);
  // Ends the job when messages are still under way: a step was not finished.
  ~RankMail() override;

  // Examples of each micro-batch of the coming step: what tells an uneven one's shapes.
  void begin_step(std::vector<int64_t> sizes) { sizes_ = std::move(sizes); }
  // Waits until what was sent has left, so that buffers do not pile up. Throws what ended the job.
  void end_step();

  void send(const Parcel& parcel, torch::Tensor value) override;
  void expect(const Parcel& parcel) override;
  torch::Tensor receive(const Parcel& parcel, Waited& waited) override;

 private:
  struct Outline {
    torch::ScalarType type;
    std::vector<int64_t> sizes;
  };
  struct Incoming;  // a posted receive

  int peer_of(const Parcel& parcel, bool sending) const;
  std::string name_of(const Parcel& parcel) const;
  // Edge, examples, peer, and whether the value goes there or comes from there.
  using ShapeKey = std::tuple<size_t, int64_t, int, bool>;
  ShapeKey shape_key(const Parcel& parcel, int peer, bool value_leaves) const;
  void post(int peer, transport::Tag tag, std::shared_ptr<Incoming> incoming);
  void send_bytes(int peer, transport::Tag tag, std::shared_ptr<void> owner,
                  std::vector<transport::ConstBytes> data, std::shared_ptr<std::string> what);
  void wait_for(Incoming& incoming, int peer);
  void learn_outline(const Parcel& parcel);

  transport::Transport& transport_;
  const Cut& cut_;
  std::vector<std::vector<int>> rank_of_;  // by cell, by micro-batch
  torch::Device device_;
  double timeout_s_;
  std::vector<int64_t> sizes_;
  std::map<ShapeKey, Outline> outlines_;
  std::map<Parcel, std::shared_ptr<Incoming>> incoming_;
  std::map<Parcel, torch::Tensor> own_;  // between two cells of this rank, which never waits for itself

  std::mutex mutex_;
  std::condition_variable changed_;
  int leaving_ = 0;           // sends under way          guarded by mutex_
  int posted_ = 0;            // receives under way       guarded by mutex_
  int last_peer_ = -1;        // that was sent something
  std::exception_ptr error_;  // of a send, the first     guarded by mutex_
};

}  // namespace entrain::pipeline
