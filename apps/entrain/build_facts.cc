#include "build_facts.h"

namespace entrain::app {

const char* const kVersion = ENTRAIN_VERSION;
const char* const kBuildType = ENTRAIN_BUILD_TYPE;
const bool kNcclBuilt = ENTRAIN_NCCL_BUILT != 0;

}  // namespace entrain::app
