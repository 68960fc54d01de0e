#include "entrain/pipeline/run/cores.h"

#include <dlfcn.h>

namespace entrain::pipeline {

void share_blas(int callers) {
  if (callers < 2) return;
  using SetThreads = void (*)(int);
  const auto set_threads = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set_threads != nullptr) set_threads(1);
}

}  // namespace entrain::pipeline
