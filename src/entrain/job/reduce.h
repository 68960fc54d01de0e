// How the tensors of several workers become one.
#pragma once

namespace entrain::job {

enum class Reduce { kSum, kMean, kMin, kMax };

}  // namespace entrain::job
