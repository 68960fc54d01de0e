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

constexpr size_t kMostOfDevice = 64 << 20;

void write_all(int fd, std::string_view data, const std::filesystem::path& path) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(fmt::format("cannot write {}", path.string()));
    data.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) bad_input("cannot read {}: it is a folder", path.string());
  std::ifstream in(path, std::ios::binary);
  if (!in) bad_input("cannot read {}: {}", path.string(), std::strerror(errno));
  // A pipe or a device may never end.
  const bool endless = !std::filesystem::is_regular_file(path, error);
  std::ostringstream content;
  if (!endless) {
    content << in.rdbuf();
    return std::move(content).str();
  }
  std::string text(kMostOfDevice + 1, 0);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMostOfDevice) {
    bad_input("cannot read {}: it is no regular file and has more than {} bytes", path.string(),
              kMostOfDevice);
  }
  return text;
}

void make_folders(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && !std::filesystem::is_directory(folder, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) bad_input("cannot make folder {}: {}", folder.string(), error.message());
}

std::string describe(const std::filesystem::filesystem_error& error) {
  std::string text;
  for (const auto& path : {error.path1(), error.path2()}) {
    if (!path.empty()) text += (text.empty() ? "" : ", ") + path.string();
  }
  return fmt::format("{}{}{}", text, text.empty() ? "" : ": ", error.code().message());
}

AtomicFile::AtomicFile(const std::filesystem::path& path)
    : path_(path), beside_(path.string() + fmt::format(".tmp-{}", ::getpid())) {
  // Its name can be guessed: what is there already is a dead process's of our number, or a link that somebody
  // laid so that we write elsewhere. It is not written to, nor followed.
  ::unlink(beside_.c_str());
  fd_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_errno(fmt::format("cannot write {}", beside_.string()));
}

AtomicFile::~AtomicFile() {
  ::close(fd_);
  if (!committed_) ::unlink(beside_.c_str());
}

void AtomicFile::write(std::string_view data) { write_all(fd_, data, beside_); }

void AtomicFile::write_at(uint64_t offset, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::pwrite(fd_, data.data(), data.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(fmt::format("cannot write {}", beside_.string()));
    offset += static_cast<uint64_t>(n);
    data.remove_prefix(static_cast<size_t>(n));
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail_errno(fmt::format("cannot sync {}", beside_.string()));
  if (::rename(beside_.c_str(), path_.c_str()) != 0) {
    fail_errno(fmt::format("cannot rename {} to {}", beside_.string(), path_.string()));
  }
  committed_ = true;
  sync_folder(path_.parent_path());  // a rename is only durable once the folder that holds the name is
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path name = folder.empty() ? std::filesystem::path(".") : folder;
  const int fd = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == EACCES) return;  // a folder that one may write to but not list
    fail_errno(fmt::format("cannot open folder {}", name.string()));
  }
  const int result = ::fsync(fd);
  const int code = errno;
  ::close(fd);
  errno = code;
  if (result != 0 && code != EINVAL) {  // EINVAL: a file system that does not sync folders
    fail_errno(fmt::format("cannot sync folder {}", name.string()));
  }
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

LineLog::LineLog(const std::filesystem::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_errno(fmt::format("cannot append to {}", path.string()));
}

LineLog::~LineLog() { ::close(fd_); }

void LineLog::append(std::string_view line) { write_all(fd_, std::string(line) + '\n', path_); }

}  // namespace entrain
