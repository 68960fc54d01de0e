#include "entrain/sync/sparse.h"

#include <torch/torch.h>

#include <algorithm>

#include "entrain/base/error.h"

namespace entrain::sync {
namespace {

size_t place_of(int rank, const std::vector<int>& workers) {
  return static_cast<size_t>(std::find(workers.begin(), workers.end(), rank) - workers.begin());
}

}  // namespace

SparseExchange::SparseExchange(const plan::Message& message, graph::Variable variable,
                               transport::Transport& transport, EventLoop& loop)
    : message_(message),
      workers_(*message.ranks),
      variable_(std::move(variable)),
      transport_(transport),
      loop_(loop),
      trains_(place_of(transport.rank(), workers_) < workers_.size()) {}

void SparseExchange::start(transport::Tag tag, std::vector<torch::Tensor> gradients, Done done) {
  const torch::NoGradGuard no_grad;
  tag_ = tag;
  done_ = std::move(done);
  outstanding_ = 1;  // held open until the first phase is posted
  if (trains_) own_ = rows_of(gradients);
  exchange();
  finish_one(nullptr);
}

Rows SparseExchange::rows_of(const std::vector<torch::Tensor>& gradients) {
  const plan::Slice& slice = message_.slices.front();
  return select_rows(gradients.front(), slice.begin, slice.end);
}

int SparseExchange::waiting_for() const { return expected_.empty() ? -1 : expected_.front(); }

void SparseExchange::send_rows(int peer, const Rows& rows) {
  ++outstanding_;
  transport_.post_send(peer, tag_, wire_form(rows), {message_.priority, Deadline::never(), message_.what},
                       [this, rows](transport::Result result) {
                         loop_.post([this, error = result.error] { finish_one(error); });
                       });
}

void SparseExchange::receive_rows(int peer) {
  ++outstanding_;
  expected_.push_back(peer);
  transport_.post_recv(
      peer, tag_, {}, {Deadline::never(), message_.what}, [this, peer](transport::Result result) {
        auto shared = std::make_shared<transport::Result>(std::move(result));
        loop_.post([this, peer, shared] {
          const torch::NoGradGuard no_grad;
          std::exception_ptr error = shared->error;
          try {
            std::erase(expected_, peer);
            if (!error) received(peer, from_wire(shared->payload.bytes(), variable_));
          } catch (const std::exception& e) {
            transport_.give_up(peer, fmt::format("rank {}, {}, from rank {}: {}", transport_.rank(),
                                                 message_.what, peer, e.what()));
            error = std::current_exception();
          }
          finish_one(error);
        });
      });
}

void SparseExchange::finish_one(std::exception_ptr error) {
  if (!done_) return;
  if (!error && --outstanding_ > 0) return;
  const Done done = std::move(done_);
  done_ = nullptr;
  own_ = {};
  if (!error) finished();
  done(error);
}

void SparseAllGather::exchange() {
  parts_.assign(workers_.size(), {});
  missing_ = 0;
  if (!trains()) return;
  for (const int worker : workers_) {
    if (worker == transport_.rank()) {
      parts_[place_of(worker, workers_)] = own_;
      continue;
    }
    ++missing_;
    receive_rows(worker);
    send_rows(worker, own_);
  }
  if (missing_ == 0) result_ = own_;
}

void SparseAllGather::received(int peer, Rows rows) {
  parts_[place_of(peer, workers_)] = std::move(rows);
  if (--missing_ > 0) return;
  result_ = merge_rows(parts_, variable_);
  parts_.clear();
}

void SparseServer::exchange() {
  if (transport_.rank() != message_.root) {
    if (!trains()) return;
    receive_rows(message_.root);
    send_rows(message_.root, own_);
    return;
  }
  parts_.clear();
  missing_ = 0;
  for (const int worker : workers_) {
    parts_.push_back(worker == transport_.rank() ? own_ : Rows{});
    if (worker == transport_.rank()) continue;
    ++missing_;
    receive_rows(worker);
  }
  if (missing_ == 0) answer();
}

void SparseServer::received(int peer, Rows rows) {
  if (transport_.rank() != message_.root) {
    result_ = std::move(rows);
    return;
  }
  parts_[place_of(peer, workers_)] = std::move(rows);
  if (--missing_ == 0) answer();
}

void SparseServer::answer() {
  result_ = merge_rows(parts_, variable_);
  parts_.clear();
  for (const int worker : workers_) {
    if (worker != transport_.rank()) send_rows(worker, result_);
  }
}

}  // namespace entrain::sync
