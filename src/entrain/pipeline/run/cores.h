// Threads that work inside an operation, where several operations run at once.
#pragma once

namespace entrain::pipeline {

// Several threads are about to compute: OpenBLAS knows one number of threads for the whole process, and its
// callers wait for each other when that is more than one. Does nothing for one caller or another BLAS.
void share_blas(int callers);

}  // namespace entrain::pipeline
