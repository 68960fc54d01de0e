// Mail: how values go from cell to cell. The same worker runs over both kinds: cells that are threads of this
// process (thread_mail.h) and cells that are ranks (rank_mail.h).
#pragma once

#include <torch/torch.h>

#include <cstddef>

namespace entrain::pipeline {

// A value on its way: along edge `edge` (a number of Cut::edges), forward, or its gradient backward.
struct Parcel {
  size_t edge;
  int micro_batch;
  bool backward;

  friend auto operator<=>(const Parcel&, const Parcel&) = default;
};

// How long the receiver stood still: before the value was sent off, and while it was on its way.
struct Waited {
  double for_sender = 0;
  double for_transfer = 0;
};

class Mail {
 public:
  virtual ~Mail() = default;
  // Never blocks.
  virtual void send(const Parcel& parcel, torch::Tensor value) = 0;
  // It will be received soon: a receive may be posted now. Optional.
  virtual void expect(const Parcel& parcel) = 0;
  // Blocks. Adds to `waited`. Throws what ended the job.
  virtual torch::Tensor receive(const Parcel& parcel, Waited& waited) = 0;
};

}  // namespace entrain::pipeline
