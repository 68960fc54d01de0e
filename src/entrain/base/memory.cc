#include "entrain/base/memory.h"

#include <cstdlib>
#include <initializer_list>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace entrain {

void keep_freed_memory() {
#if defined(__GLIBC__)
  for (const char* name :
       {"GLIBC_TUNABLES", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"}) {
    if (std::getenv(name) != nullptr) return;
  }
  mallopt(M_MMAP_MAX, 0);                    // large blocks come from the heap too
  mallopt(M_TRIM_THRESHOLD, 2'000'000'000);  // and the heap does not shrink
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

}  // namespace entrain
