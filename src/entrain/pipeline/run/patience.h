// Looking before sleeping: a pass of a small cell takes a millisecond, and waking a thread 50 us or more.
#pragma once

#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "entrain/base/clock.h"

namespace entrain::pipeline {

// Some microseconds in which this core asks for little, since its hyperthread's sibling may be computing, and
// is anyone's who needs it.
inline void pause() {
#if defined(__x86_64__)
  for (int i = 0; i < 32; ++i) _mm_pause();
#endif
  std::this_thread::yield();
}

// Until it is there, at most for `patience`. Keeps a core busy: without one to spare, a patience of 0 is
// right.
template <class There>
void look_for(Seconds patience, There there) {
  const Deadline until = Deadline::after(patience);
  while (!there() && !until.passed()) pause();
}

}  // namespace entrain::pipeline
