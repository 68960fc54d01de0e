#include "entrain/base/error.h"

#include <cerrno>
#include <cstring>

namespace entrain {

void fail_errno(const std::string& what) {
  const int code = errno;
  throw Error(fmt::format("{}: {}", what, std::strerror(code)));
}

}  // namespace entrain
