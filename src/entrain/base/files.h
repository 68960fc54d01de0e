// Files that are never half written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace entrain {

// The whole file. Throws InputError "cannot read PATH: reason".
std::string read_file(const std::filesystem::path& path);

// A file that appears under its name only when it is complete: written beside (PATH.tmp-PID), synced,
// renamed, its folder synced. After a crash at any instant PATH holds either the old or the new content.
// Destroyed without commit() it leaves PATH as it was. Errors are Error, naming the file. Not thread-safe.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view data);                      // at the end
  void write_at(uint64_t offset, std::string_view data);  // over what is there
  void commit();                                          // at most once; nothing may be written after it

 private:
  std::filesystem::path path_, beside_;
  int fd_;
  bool committed_ = false;
};

// Makes the folder and those above it, where they are missing. Throws InputError "cannot make folder PATH:
// reason".
void make_folders(const std::filesystem::path& folder);

// "PATH: No such file or directory": std::filesystem's error without the names of its functions.
std::string describe(const std::filesystem::filesystem_error& error);

// Makes the names in `folder` durable. Throws Error.
void sync_folder(const std::filesystem::path& folder);

// The whole content through an AtomicFile. Throws Error.
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
