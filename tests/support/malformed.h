// Bad input is refused by one helpful line, within a GiB of memory.
#pragma once

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <fstream>
#include <string>
#include <vector>

#include "entrain/base/errors.h"

namespace entrain::test {

// While it lives this process gets at most a GiB more: std::bad_alloc is what comes then.
class OneGiB {
 public:
  OneGiB() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve much more
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    ::getrlimit(RLIMIT_AS, &before_);
    rlimit now = before_;
    now.rlim_cur = pages * 4096 + (size_t{1} << 30);
    ::setrlimit(RLIMIT_AS, &now);
#endif
  }
  ~OneGiB() {
    if (before_.rlim_cur > 0) ::setrlimit(RLIMIT_AS, &before_);
  }
  OneGiB(const OneGiB&) = delete;
  OneGiB& operator=(const OneGiB&) = delete;

 private:
  rlimit before_{};
};

struct Malformed {
  std::string input;
  std::string words;  // of the line
};

// Reads each with `read(input)`, which must throw InputError.
template <typename Read>
void expect_refused(const std::vector<Malformed>& inputs, Read read) {
  const OneGiB limit;
  for (const auto& [input, words] : inputs) {
    const std::string shown = input.substr(0, 200);
    try {
      read(input);
      ADD_FAILURE() << "accepted: " << shown;
    } catch (const InputError& error) {
      const std::string line = error.what();
      EXPECT_THAT(line, ::testing::HasSubstr(words)) << shown;
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
      EXPECT_LT(line.size(), 600u) << line;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "not InputError but " << error.what() << ": " << shown;
    }
  }
}

}  // namespace entrain::test
