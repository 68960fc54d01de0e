// Sparse gradients: row-wise parameter server, and all-gather.
#pragma once

#include <memory>
#include <vector>

#include "entrain/sync/synchronizer.h"

namespace entrain::sync {

// What the exchanges share: rows in, rows out, one error, one end. Each message is
// at most one to and one from each peer in a phase.
class SparseExchange : public Synchronizer {
 public:
  // `variable`: whose rows they are.
  SparseExchange(const plan::Message& message, graph::Variable variable, transport::Transport& transport,
                 EventLoop& loop);
  Rows rows() override { return std::move(result_); }
  int waiting_for() const override;
  void start(transport::Tag tag, std::vector<torch::Tensor> gradients, Done done) override;

 protected:
  virtual Rows rows_of(const std::vector<torch::Tensor>& gradients);  // this rank's own
  virtual void exchange() = 0;                                        // posts the first phase
  virtual void received(int peer, Rows rows) = 0;
  virtual void finished() {}  // all is well, and result_ whole

  void send_rows(int peer, const Rows& rows);
  void receive_rows(int peer);
  bool trains() const { return trains_; }

  const plan::Message& message_;
  const std::vector<int>& workers_;
  const graph::Variable variable_;
  transport::Transport& transport_;
  Rows own_;     // this rank's rows of the slice
  Rows result_;  // the sum

 private:
  void finish_one(std::exception_ptr error);

  EventLoop& loop_;
  bool trains_;
  transport::Tag tag_ = 0;
  Done done_;
  std::vector<int> expected_;  // peers whose rows have not come
  size_t outstanding_ = 0;
};

// Everyone sends its rows to everyone: (n-1) r bytes out of each rank for r bytes of rows.
class SparseAllGather : public SparseExchange {
 public:
  using SparseExchange::SparseExchange;

 private:
  void exchange() override;
  void received(int peer, Rows rows) override;

  std::vector<Rows> parts_;  // by place in workers_
  size_t missing_ = 0;
};

// Workers push to the root (r bytes each), which sums and sends the union (up to n r) back.
class SparseServer : public SparseExchange {
 public:
  using SparseExchange::SparseExchange;

 private:
  void exchange() override;
  void received(int peer, Rows rows) override;
  void answer();

  std::vector<Rows> parts_;
  size_t missing_ = 0;
};

}  // namespace entrain::sync
