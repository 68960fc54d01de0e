#include "entrain/pipeline/cores.h"

#include <dlfcn.h>
#include <torch/torch.h>

namespace entrain::pipeline {

void use_threads(int threads, int callers) {
  torch::set_num_threads(threads);
  // Torch does not tell OpenBLAS, and may have been built with another BLAS.
  using SetThreads = void (*)(int);
  const auto set_blas = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set_blas != nullptr) set_blas(callers > 1 ? 1 : threads);
}

}  // namespace entrain::pipeline
