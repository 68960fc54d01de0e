// What happens to a job when one of its ranks fails.
#pragma once

#include <exception>
#include <utility>

#include "entrain/base/error.h"
#include "entrain/base/reason.h"
#include "entrain/job/context.h"

namespace entrain::job {

// Runs `work`. When it fails on this rank, the job ends and the others learn why: whatever is under way here
// is torn down as the error passes, and would end the job in words of its own. Another rank's failure, and
// bad input, which every rank finds alike, are only passed on.
template <typename Work>
auto named_failure(Context& context, Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const PeerError&) {
    throw;
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& e) {
    context.transport->close(reason_of(e));
    throw;
  }
}

}  // namespace entrain::job
