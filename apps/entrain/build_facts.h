// What the build knows of itself. In a file of their own, so that another version compiles one small file
// again.
#pragma once

namespace entrain::app {

extern const char* const kVersion;
extern const char* const kBuildType;
extern const bool kNcclBuilt;

}  // namespace entrain::app
