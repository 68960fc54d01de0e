// What a device did when, for the breakdown and the trace.
#pragma once

namespace entrain::pipeline {

// Seconds since the step began.
struct Span {
  enum class Kind { kForward, kRecompute, kBackward, kWait, kTransfer, kUpdate };
  Kind kind;
  int cell;         // -1: all of the device's
  int micro_batch;  // -1: none
  double begin_s;
  double end_s;
};

}  // namespace entrain::pipeline
