// Rank 0's word on what comes next: go on, stop (Ctrl-C reaches the ranks at different moments), or change.
#pragma once

#include "entrain/trainer/context.h"

namespace entrain {

enum class Word : char { kGo = 'g', kStop = 's', kChange = 'c' };

// Called from a signal handler: training ends after the step under way, writes a checkpoint if it has a
// folder for one, and reports.
void request_stop();
bool stop_was_requested();

// Said one call ahead, so that nobody waits for it. One a worker.
class Captain {
 public:
  explicit Captain(Context& context) : context_(context) {}

  // Called by every worker at the same points (the start of a step, or of every period): the word on what
  // comes now. `change`, `stop`: rank 0 wants that; the next word says so. A requested stop counts too.
  // `last`: there is no next call, so nobody would take its word.
  Word word(bool change, bool stop = false, bool last = false);

 private:
  Context& context_;
  bool started_ = false;   // the first call always says go
  Word next_ = Word::kGo;  // rank 0's word for the next call
};

}  // namespace entrain
