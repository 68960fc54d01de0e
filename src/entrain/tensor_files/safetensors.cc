#include "entrain/tensor_files/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/sha256.h"

namespace entrain::tensor_files {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using nlohmann::json;

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr int kMaxDepth = 3;        // of the header's JSON: file, tensor, shape
constexpr size_t kMaxRank = 64;     // of a tensor
constexpr size_t kPiece = 1 << 20;  // hashed and written (or read) while it is in the cache
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kHeaderSum = "sha256.header";
constexpr const char* kDataSum = "sha256.data";
const std::string kNoSum(64, '0');

struct Dtype {
  const char* name;
  torch::ScalarType type;
};
constexpr Dtype kDtypes[] = {{"F64", torch::kDouble},    {"F32", torch::kFloat}, {"F16", torch::kHalf},
                             {"BF16", torch::kBFloat16}, {"I64", torch::kLong},  {"I32", torch::kInt},
                             {"I16", torch::kShort},     {"I8", torch::kChar},   {"U8", torch::kByte},
                             {"BOOL", torch::kBool}};

// ---- writing

const char* dtype_name(const std::string& name, const torch::Tensor& tensor) {
  if (!tensor.defined()) bad_input("tensor {} cannot be stored: it is undefined", name);
  if (tensor.layout() != torch::kStrided) bad_input("tensor {} cannot be stored: it is not dense", name);
  for (const auto& dtype : kDtypes) {
    if (dtype.type == tensor.scalar_type()) return dtype.name;
  }
  bad_input("tensor {} cannot be stored: its type is {}; allowed: floats, integers and bool", name,
            c10::toString(tensor.scalar_type()));
}

std::string dump(const json& header, const std::filesystem::path& path) {
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    bad_input("cannot write {}: a name or a metadata value is not UTF-8", path.string());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts aligned
  if (text.size() > kMaxHeader) bad_input("cannot write {}: its header exceeds 100 MB", path.string());
  return text;
}

json header_of(const std::vector<std::pair<std::string, torch::Tensor>>& tensors,
               const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  header[kMetadata] = metadata;
  header[kMetadata][kHeaderSum] = kNoSum;
  header[kMetadata][kDataSum] = kNoSum;
  uint64_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    const char* dtype = dtype_name(name, tensor);
    if (header.contains(name)) bad_input("tensor {} cannot be stored: its name is taken", name);
    const uint64_t end = begin + static_cast<uint64_t>(tensor.numel()) * tensor.element_size();
    header[name] = {{"dtype", dtype}, {"shape", tensor.sizes().vec()}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  return header;
}

// ---- reading

// An open file and what to blame.
class Input {
 public:
  explicit Input(const std::filesystem::path& path) : path_(path) {
    // O_NONBLOCK: opening a named pipe must not wait for its writer.
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) bad_input("cannot read {}: {}", path.string(), std::strerror(errno));
    struct stat status {};
    const bool regular = ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
    if (!regular) {
      ::close(fd_);
      bad_input("cannot read {}: it is not a regular file", path.string());
    }
    size_ = static_cast<uint64_t>(status.st_size);
  }
  ~Input() { ::close(fd_); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  uint64_t size() const { return size_; }

  // The next `size` bytes.
  void read(void* to, size_t size) {
    auto* out = static_cast<uint8_t*>(to);
    while (size > 0) {
      const ssize_t n = ::read(fd_, out, size);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) bad_input("cannot read {}: {}", path_.string(), std::strerror(errno));
      if (n == 0) wrong("it ends too early");
      out += n;
      size -= static_cast<size_t>(n);
    }
  }

  template <typename... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) const {
    bad_input("{} is damaged or not a safetensors file: {}", path_.string(),
              fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::filesystem::path path_;
  int fd_;
  uint64_t size_ = 0;
};

std::string read_header(Input& input) {
  uint64_t length = 0;
  if (input.size() < sizeof(length)) input.wrong("it has {} bytes", input.size());
  input.read(&length, sizeof(length));
  if (length > kMaxHeader) input.wrong("header length {} exceeds the limit of {}", length, kMaxHeader);
  if (length > input.size() - sizeof(length)) {
    input.wrong("header length {} exceeds the file's size of {}", length, input.size());
  }
  std::string header(length, '\0');
  input.read(header.data(), header.size());
  if (!header.starts_with('{')) input.wrong("its header is not a JSON object");
  return header;
}

json parse_header(const Input& input, const std::string& text) {
  const auto limit_depth = [&](int depth, json::parse_event_t, json&) {
    if (depth > kMaxDepth) input.wrong("its header is nested too deeply");
    return true;
  };
  try {
    return json::parse(text, limit_depth);
  } catch (const json::exception& e) {
    input.wrong("its header is not JSON ({})", e.what());
  }
}

uint64_t unsigned_number(const Input& input, const json& value, const std::string& field) {
  if (!value.is_number_unsigned()) input.wrong("{} is {}, not a count", field, value.dump());
  return value.get<uint64_t>();
}

struct Entry {
  std::string name;
  torch::ScalarType type;
  std::vector<int64_t> shape;
  uint64_t begin, end;  // in the data
};

torch::ScalarType parse_dtype(const Input& input, const std::string& name, const json& value) {
  for (const auto& dtype : kDtypes) {
    if (value == dtype.name) return dtype.type;
  }
  input.wrong("{}.dtype is {}, which is not known", name, value.dump());
}

// Fills entry.shape; returns the bytes that shape and type take.
uint64_t parse_shape(const Input& input, const json& shape, Entry& entry) {
  const std::string field = entry.name + ".shape";
  if (!shape.is_array() || shape.size() > kMaxRank) {
    input.wrong("{} is not a list of at most {}", field, kMaxRank);
  }
  // `room` multiplies empty dimensions as 1: torch computes strides from the others even where nothing is
  // stored.
  int64_t room = static_cast<int64_t>(c10::elementSize(entry.type));
  bool empty = false;
  for (const auto& dimension : shape) {
    const uint64_t extent = unsigned_number(input, dimension, field);
    if (extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
        __builtin_mul_overflow(room, std::max<int64_t>(static_cast<int64_t>(extent), 1), &room)) {
      input.wrong("{} is {}, which is too large", field, shape.dump());
    }
    empty |= extent == 0;
    entry.shape.push_back(static_cast<int64_t>(extent));
  }
  return empty ? 0 : static_cast<uint64_t>(room);
}

Entry parse_entry(const Input& input, const std::string& name, const json& value, uint64_t data_size) {
  if (!value.is_object()) input.wrong("{} is not an object", name);
  for (const char* field : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(field)) input.wrong("{}.{} is missing", name, field);
  }
  Entry entry{name, parse_dtype(input, name, value["dtype"]), {}, 0, 0};
  const uint64_t bytes = parse_shape(input, value["shape"], entry);
  const std::string field = name + ".data_offsets";
  const json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) input.wrong("{} is not [begin, end]", field);
  entry.begin = unsigned_number(input, offsets[0], field);
  entry.end = unsigned_number(input, offsets[1], field);
  if (entry.begin > entry.end || entry.end > data_size) {
    input.wrong("{} is {}, outside of the {} bytes of data", field, offsets.dump(), data_size);
  }
  if (entry.end - entry.begin != bytes) {
    input.wrong("{} spans {} bytes, but type and shape need {}", field, entry.end - entry.begin, bytes);
  }
  return entry;
}

// In the order of their bytes, which they must cover without gap or overlap.
std::vector<Entry> parse_entries(const Input& input, const json& header, uint64_t data_size) {
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name != kMetadata) entries.push_back(parse_entry(input, name, value, data_size));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t covered = 0;
  for (const auto& entry : entries) {
    if (entry.begin != covered) {
      input.wrong("{}.data_offsets begins at {} where {} was expected", entry.name, entry.begin, covered);
    }
    covered = entry.end;
  }
  if (covered != data_size) input.wrong("its tensors take {} bytes, but it has {}", covered, data_size);
  return entries;
}

std::map<std::string, std::string> parse_metadata(const Input& input, const json& header) {
  std::map<std::string, std::string> metadata;
  if (!header.contains(kMetadata)) return metadata;
  if (!header[kMetadata].is_object()) input.wrong("{} is not an object", kMetadata);
  for (const auto& [key, value] : header[kMetadata].items()) {
    if (!value.is_string()) input.wrong("{}.{} is not a string", kMetadata, key);
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

torch::Tensor read_tensor(Input& input, const Entry& entry, Sha256& sum) {
  // A bool that is neither 0 nor 1 is undefined behaviour, so bools are read as bytes and converted.
  const auto stored = entry.type == torch::kBool ? torch::kByte : entry.type;
  torch::Tensor tensor = torch::empty(entry.shape, stored);
  auto* to = static_cast<uint8_t*>(tensor.data_ptr());
  for (uint64_t left = entry.end - entry.begin; left > 0;) {
    const size_t n = std::min<uint64_t>(left, kPiece);
    input.read(to, n);
    sum.update({to, n});
    to += n;
    left -= n;
  }
  return stored == entry.type ? tensor : tensor.to(entry.type);
}

// Verifies the header against the sum it carries.
void check_header(const Input& input, std::string text, const std::string& stated) {
  const std::string field = fmt::format("\"{}\":\"", kHeaderSum);
  const size_t at = text.find(field + stated + '"');
  if (stated.size() != kNoSum.size() || at == std::string::npos) input.wrong("{} is malformed", kHeaderSum);
  text.replace(at + field.size(), kNoSum.size(), kNoSum);
  if (hex(sha256(text)) != stated) input.wrong("{} does not match", kHeaderSum);
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  auto tensors = file.tensors;
  for (const auto& [name, tensor] : tensors) dtype_name(name, tensor);  // before their sizes are asked for
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return a.second.element_size() > b.second.element_size();
  });
  json header = header_of(tensors, file.metadata);
  std::string text = dump(header, path);
  const uint64_t length = text.size();

  AtomicFile out(path);
  out.write({reinterpret_cast<const char*>(&length), sizeof(length)});
  out.write(text);
  Sha256 sum;
  for (const auto& entry : tensors) {
    const torch::Tensor tensor = entry.second.detach().cpu().contiguous();
    std::string_view bytes(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, kPiece);
      sum.update(piece);
      out.write(piece);
      bytes.remove_prefix(piece.size());
    }
  }
  // The sums are known only now; they take exactly the room of the zeros before them.
  header[kMetadata][kDataSum] = hex(sum.finish());
  header[kMetadata][kHeaderSum] = hex(sha256(dump(header, path)));
  text = dump(header, path);
  out.write_at(sizeof(length), text);
  out.commit();
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  Input input(path);
  const std::string text = read_header(input);
  const json header = parse_header(input, text);
  TensorFile file;
  file.metadata = parse_metadata(input, header);
  const auto header_sum = file.metadata.extract(kHeaderSum);
  const auto data_sum = file.metadata.extract(kDataSum);
  file.checked = !header_sum.empty() && !data_sum.empty();
  if (file.checked) check_header(input, text, header_sum.mapped());
  Sha256 sum;
  for (const auto& entry : parse_entries(input, header, input.size() - sizeof(uint64_t) - text.size())) {
    file.tensors.emplace_back(entry.name, read_tensor(input, entry, sum));
  }
  if (file.checked && hex(sum.finish()) != data_sum.mapped()) input.wrong("{} does not match", kDataSum);
  return file;
}

}  // namespace entrain::tensor_files
