// A folder of a test's own, gone when the test is.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

namespace entrain::test {

class TempDir {
 public:
  TempDir() {
    static std::atomic<int> number = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("entrain-test-" + std::to_string(getpid()) + "-" + std::to_string(number++));
    std::filesystem::create_directories(path_);
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace entrain::test
