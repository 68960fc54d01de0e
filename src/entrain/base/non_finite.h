// What a job does about values that are infinite or not a number.
#pragma once

namespace entrain {

// When a loss, a gradient or a parameter is not finite.
enum class NonFinite {
  kStop,   // the job ends with an Error that names variable, step and rank; nothing is saved after that
  kSkip,   // the update is not made, and the job goes on
  kAllow,  // nobody looks, as in libtorch
};

}  // namespace entrain
