// Is the BLAS that libtorch computes with the fast one of this processor? An OpenBLAS older than the
// processor does not know it and takes its oldest kernels: on an Emerald Rapids, Debian 12's takes those of a
// Prescott, and a matrix product runs at a third of its speed.
#pragma once

#include <string>

namespace entrain {

// The file that matrix products come from, and the processor that its kernels are for ("SkylakeX"; OpenBLAS
// only). Empty: unknown.
struct Blas {
  std::string library, kernels;
};
Blas blas_in_use();

// The OPENBLAS_CORETYPE under which this process would be faster; empty where nothing is to gain: another
// BLAS, kernels that use what the processor has, or a choice of the user's.
std::string better_blas_core();

// Restarts this program with better_blas_core(), since OpenBLAS chooses once, before main(). Returns only
// where that is not needed or fails. The programs that this one starts inherit the choice.
void ensure_fast_blas(char** argv);

// For programs that are not ours to restart: warns, with what to set, where better_blas_core() names
// something.
void warn_of_slow_blas();

namespace detail {
// The kernels to take instead of `chosen`, on a processor with these instructions; empty: none is better.
std::string faster_kernels(const std::string& chosen, bool avx2, bool avx512);
}  // namespace detail

}  // namespace entrain
