// Files that are never half written.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace entrain {

// The whole file. Throws InputError "cannot read PATH: reason".
std::string read_file(const std::filesystem::path& path);

// Writes beside (PATH.tmp-PID), syncs file and folder, renames: after a crash at any
// instant PATH holds either the old or the new content. Throws Error.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Appends whole lines at once, unbuffered: a killed process loses no finished record.
class LineLog {
 public:
  explicit LineLog(const std::filesystem::path& path);  // created or continued
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  void append(std::string_view line);

 private:
  std::filesystem::path path_;
  int fd_;
};

}  // namespace entrain
