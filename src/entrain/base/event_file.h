// Scalars for TensorBoard: an event file, readable while it is written.
//
// A record is  length (8 bytes, little-endian), masked CRC-32C of it (4), the data, masked CRC-32C of that
// (4). The data is a tensorflow.Event message:  1 wall_time (double), 2 step (int64), 3 file_version (string,
// in the first record only), 5 summary { 1 value { 1 tag (string), 2 simple_value (float) } }.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace entrain {

// Not thread-safe. Errors are Error, naming the file.
class EventFile {
 public:
  // Creates FOLDER/events.out.tfevents.SECONDS.NAME; TensorBoard takes the folder's path as the run's name.
  EventFile(const std::filesystem::path& folder, const std::string& name);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // `wall_s`: seconds since 1970.
  void scalar(std::string_view tag, int64_t step, double value, double wall_s);

 private:
  void append(std::string_view data);

  std::filesystem::path path_;
  int fd_;
};

// The polynomial of iSCSI, as TensorFlow's records have it.
uint32_t crc32c(std::string_view data);

}  // namespace entrain
