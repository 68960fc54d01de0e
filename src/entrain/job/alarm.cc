#include "entrain/job/alarm.h"

#include <mutex>

#include "entrain/base/error.h"
#include "entrain/job/control.h"
#include "entrain/transport/control_tags.h"

namespace entrain::job {
namespace {

constexpr double kPatience_s = 5;

}  // namespace

// Filled on the transport's thread, perhaps after the alarm is gone.
struct Alarm::Heard {
  std::mutex mutex;
  std::string why;  // the first one's
};

Alarm::Alarm(Context& context) : context_(context), heard_(std::make_shared<Heard>()) {
  if (context.rank() != 0) return;
  for (const int rank : context.cluster.worker_ranks()) {
    if (rank == 0) continue;
    context.transport->post_recv(rank, transport::tags::kAlarm, {}, {Deadline::never(), "alarm"},
                                 [heard = heard_](transport::Result result) {
                                   if (result.error) return;  // it is lost or has ended, without an alarm
                                   const std::lock_guard lock(heard->mutex);
                                   if (heard->why.empty())
                                     heard->why = transport::as_text(result.payload.bytes());
                                 });
  }
}

void Alarm::raise(const std::string& why) {
  if (context_.rank() == 0) return;  // the others end when rank 0 does
  try {
    transport::send(*context_.transport, 0, transport::tags::kAlarm, transport::as_bytes(why),
                    {-1, Deadline::after(kPatience_s), "alarm"});
  } catch (const Error&) {  // rank 0 is lost: the job ends anyway
  }
}

void Alarm::check() const {
  const std::lock_guard lock(heard_->mutex);
  if (!heard_->why.empty()) throw Error(heard_->why);
}

}  // namespace entrain::job
