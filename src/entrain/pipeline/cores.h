// How many threads torch may use inside an operation, where several operations run at once.
#pragma once

namespace entrain::pipeline {

// For operations that the calling thread starts from now on. OpenBLAS knows one number for the whole process,
// and callers of its threads wait for each other: it gets one thread each when there are several callers.
void use_threads(int threads, int callers);

}  // namespace entrain::pipeline
