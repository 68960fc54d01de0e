// The tags of all control messages: everything that ranks tell each other beside gradients and parameters.
// One list, so that no two subjects share a tag.
#pragma once

#include "entrain/transport/transport.h"

namespace entrain::transport::tags {

enum Control : Tag {
  // Joining a job, and agreement at its start (job, parallel, train).
  kToken = kControlTags + 1,  // the secret, where MPI brings it
  kLayout,                    // which host a rank is on
  kSettings,                  // what decides the update
  kSettingsDifference,
  kSettingsVerdict,
  kModelOutline,   // names and shapes of what is trained
  kModelValues,    // rank 0's parameters and buffers
  kGradientKinds,  // sparse, dense or none
  kGraph,          // G
  kStrategy,       // S
  kGpuPlace,       // which GPU a worker has
  kNcclId,
  kResumedStep,
  // While it runs.
  kOrder,        // rank 0 to each rank: what comes next (job/control.h)
  kText,         // small values by way of rank 0 (collectives for programs)
  kAwaited,      // a test or a file that others wait for
  kStateHashes,  // of what several ranks hold
  kAlarm,        // a worker that must end the job
  kStopRequest,  // a rank that was told to end, or leaves
  kRandomState,  // for a checkpoint
  kTestState,    // losses and buffers for a test
  kSavesThere,   // which saves a worker can read
  kResumePoint,  // which save all go back to
  kRejoin,       // rank 0's parameters, for a worker that was lost
  kBalance,      // layers per cell
  kCellOutline,  // of a cell's state that comes to rank 0
  kSummary,      // what every rank measured
  kTuned,        // what a tune has found
  kTrialShape,   // of the trial that comes next
  // Probing the links.
  kProbePing,
  kProbeBulk,
  kProbeTurn,
  kProbeResult,
};

// Each of these is the first of many: the low bits number a message.
inline constexpr Tag kBroadcast = kControlTags + (Tag{1} << 40);         // collectives for programs
inline constexpr Tag kReduce = kControlTags + (Tag{1} << 41);            // likewise
inline constexpr Tag kOrderStream = kControlTags + (Tag{1} << 42);       // orders for one handle's steps
inline constexpr Tag kCellValue = kControlTags + (Tag{1} << 50);         // activations and their gradients
inline constexpr Tag kCellValueOutline = kControlTags + (Tag{1} << 51);  // their shapes
inline constexpr Tag kCellSum = kControlTags + (Tag{1} << 53);
inline constexpr Tag kCellState = kControlTags + (Tag{1} << 54);  // a part of the model on its way to a rank

}  // namespace entrain::transport::tags
