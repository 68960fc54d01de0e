#include "entrain/base/blas.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "entrain/base/log.h"

namespace entrain {
namespace {

constexpr const char* kVariable = "OPENBLAS_CORETYPE";

// Empty: libtorch uses another BLAS.
std::string openblas_core() {
  using CoreName = char* (*)();
  const auto core_name = reinterpret_cast<CoreName>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return core_name == nullptr ? "" : core_name();
}

}  // namespace

Blas blas_in_use() {
  Blas blas;
  blas.kernels = openblas_core();
  Dl_info found{};
  void* product = dlsym(RTLD_DEFAULT, "sgemm_");
  if (product != nullptr && dladdr(product, &found) != 0 && found.dli_fname != nullptr) {
    blas.library = found.dli_fname;
  }
  return blas;
}

std::string detail::faster_kernels(const std::string& chosen, bool avx2, bool avx512) {
  // OpenBLAS's kernels without AVX2.
  constexpr std::array kOld = {"Prescott", "Core2",       "Penryn",   "Dunnington",
                               "Nehalem",  "Sandybridge", "Barcelona"};
  for (const char* old : kOld) {
    if (chosen == old) return avx512 ? "SkylakeX" : avx2 ? "Haswell" : "";
  }
  return "";
}

std::string better_blas_core() {
#ifdef __x86_64__
  if (std::getenv(kVariable) != nullptr) return "";
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return detail::faster_kernels(openblas_core(), avx2, avx512);
#else
  return "";
#endif
}

void ensure_fast_blas(char** argv) {
  const std::string core = better_blas_core();
  if (core.empty()) return;
  setenv(kVariable, core.c_str(), 1);
  execv("/proc/self/exe", argv);
  log_warn("cannot restart with {}={}: {}; going on with slower matrix products", kVariable, core,
           std::strerror(errno));
}

void warn_of_slow_blas() {
  const std::string core = better_blas_core();
  if (core.empty()) return;
  log_warn("OpenBLAS does not know this processor and computes as for a {}: {}={} would be faster",
           openblas_core(), kVariable, core);
}

}  // namespace entrain
