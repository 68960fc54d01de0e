#include "entrain/base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "entrain/base/error.h"

namespace entrain {
namespace {

void write_all(int fd, std::string_view data, const std::filesystem::path& path) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(fmt::format("cannot write {}", path.string()));
    data.remove_prefix(static_cast<size_t>(n));
  }
}

// A rename is only durable once the folder that holds the name is.
void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) bad_input("cannot read {}: it is a folder", path.string());
  std::ifstream in(path, std::ios::binary);
  if (!in) bad_input("cannot read {}: {}", path.string(), std::strerror(errno));
  std::ostringstream content;
  content << in.rdbuf();
  return std::move(content).str();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  const std::filesystem::path beside = path.string() + fmt::format(".tmp-{}", ::getpid());
  const int fd = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail_errno(fmt::format("cannot write {}", beside.string()));
  try {
    write_all(fd, content, beside);
    if (::fsync(fd) != 0) fail_errno(fmt::format("cannot sync {}", beside.string()));
  } catch (...) {
    ::close(fd);
    ::unlink(beside.c_str());
    throw;
  }
  ::close(fd);
  if (::rename(beside.c_str(), path.c_str()) != 0) {
    fail_errno(fmt::format("cannot rename {} to {}", beside.string(), path.string()));
  }
  sync_folder(path.parent_path());
}

LineLog::LineLog(const std::filesystem::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_errno(fmt::format("cannot append to {}", path.string()));
}

LineLog::~LineLog() { ::close(fd_); }

void LineLog::append(std::string_view line) { write_all(fd_, std::string(line) + '\n', path_); }

}  // namespace entrain
