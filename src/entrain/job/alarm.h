// Asynchronous rules go on without a worker that is lost. A worker whose training has failed (its loss is not
// finite) must still end the job: it tells rank 0, without which the others end.
#pragma once

#include <memory>
#include <string>

#include "entrain/job/context.h"

namespace entrain::job {

// One per worker; the transport tolerates losses. One thread.
class Alarm {
 public:
  explicit Alarm(Context& context);

  // Why this worker ends; it throws next. Waits until the text is on its way, a few seconds at most.
  void raise(const std::string& why);

  // Rank 0, between two steps: throws Error with another worker's text, if there is one. Nothing elsewhere.
  void check() const;

 private:
  struct Heard;
  Context& context_;
  std::shared_ptr<Heard> heard_;
};

}  // namespace entrain::job
