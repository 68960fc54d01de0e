#include "entrain/checkpoint/checkpoint.h"

#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>
#include <map>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/limits.h"
#include "entrain/base/log.h"
#include "entrain/checkpoint/optimizer_state.h"
#include "entrain/tensor_files/safetensors.h"

namespace entrain::checkpoint {
namespace {

namespace fs = std::filesystem;
using Saved = std::map<std::string, torch::Tensor>;

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kBeside = ".safetensors.tmp-";  // as AtomicFile names them
constexpr const char* kFormat = "entrain-checkpoint";
constexpr const char* kVersion = "1";

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// ---- the file's content

tensor_files::TensorFile read_checked(const fs::path& path) {
  tensor_files::TensorFile file = tensor_files::read_safetensors(path);
  if (!file.checked) bad_input("{} has no checksums", path.string());
  return file;
}

tensor_files::TensorFile describe(const CheckpointInfo& info, const torch::nn::Module& module,
                                  const torch::optim::Optimizer& optimizer) {
  tensor_files::TensorFile file;
  file.metadata = {{"format", kFormat},
                   {"format_version", kVersion},
                   {"step", std::to_string(info.step)},
                   {"data_position", std::to_string(info.data_position)},
                   {"world", std::to_string(info.world)},
                   {"model", info.model},
                   {"seed", std::to_string(info.seed)},
                   {"strategy", info.strategy},
                   {"optimizer", optimizer_name(optimizer)}};
  for (const auto& item : module.named_parameters()) {
    file.tensors.emplace_back("model." + item.key(), item.value());
  }
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) file.tensors.emplace_back("model." + item.key(), item.value());
  }
  for (auto& item : collect_optimizer_state(optimizer, module)) file.tensors.push_back(std::move(item));
  for (size_t rank = 0; rank < info.rng.size(); ++rank) {
    if (info.rng[rank].defined()) file.tensors.emplace_back(fmt::format("rng.{}", rank), info.rng[rank]);
  }
  for (const auto& [name, tensor] : info.rule) file.tensors.emplace_back("rule." + name, tensor);
  return file;
}

// Takes the tensors whose names begin with `prefix` out of `all`.
Saved extract(Saved& all, const std::string& prefix) {
  Saved part;
  for (auto it = all.lower_bound(prefix); it != all.end() && it->first.starts_with(prefix);) {
    part.insert(all.extract(it++));
  }
  return part;
}

const std::string& text_field(const tensor_files::TensorFile& file, const fs::path& path,
                              const std::string& field) {
  const auto found = file.metadata.find(field);
  if (found == file.metadata.end()) bad_input("checkpoint {}: {} is missing", path.string(), field);
  return found->second;
}

template <typename T>
T number_field(const tensor_files::TensorFile& file, const fs::path& path, const std::string& field) {
  const std::string& text = text_field(file, path, field);
  const auto value = parse_number<T>(text);
  if (!value) bad_input("checkpoint {}: {} is '{}', not a number", path.string(), field, text);
  return *value;
}

CheckpointInfo parse_info(const tensor_files::TensorFile& file, const fs::path& path, Saved& tensors) {
  if (text_field(file, path, "format") != kFormat || text_field(file, path, "format_version") != kVersion) {
    bad_input("checkpoint {}: format is {} version {}; this program reads {} version {}", path.string(),
              text_field(file, path, "format"), text_field(file, path, "format_version"), kFormat, kVersion);
  }
  CheckpointInfo info;
  info.step = number_field<int64_t>(file, path, "step");
  info.data_position = number_field<int64_t>(file, path, "data_position");
  info.world = number_field<int>(file, path, "world");
  if (info.step < 0 || info.data_position < 0 || info.world < 1 || info.world > kMaxRanks) {
    bad_input("checkpoint {}: step {}, data_position {}, world {}; allowed: 0 or more, and 1 to {} ranks",
              path.string(), info.step, info.data_position, info.world, kMaxRanks);
  }
  info.model = text_field(file, path, "model");
  info.seed = number_field<uint64_t>(file, path, "seed");
  info.strategy = text_field(file, path, "strategy");
  for (const auto& [name, state] : extract(tensors, "rng.")) {
    const auto rank = parse_number<size_t>(std::string_view(name).substr(std::string_view("rng.").size()));
    if (!rank || *rank >= static_cast<size_t>(info.world)) {
      bad_input("checkpoint {}: {} is not of one of its {} ranks", path.string(), name, info.world);
    }
    info.rng.resize(std::max(info.rng.size(), *rank + 1));
    info.rng[*rank] = state;
  }
  for (const auto& [name, tensor] : extract(tensors, "rule.")) {
    info.rule.emplace_back(name.substr(std::string_view("rule.").size()), tensor);
  }
  return info;
}

struct OneCheckpoint {
  tensor_files::TensorFile file;  // without its tensors
  Saved tensors;
  CheckpointInfo info;
};

// Nothing, with a warning and the reason in `why`, when the file is damaged. Throws InputError for a file of
// another format or step.
std::optional<OneCheckpoint> read_or_warn(const fs::path& path, int64_t step, std::string& why) {
  OneCheckpoint one;
  try {
    one.file = read_checked(path);
  } catch (const Error& e) {
    why = e.what();
    log_warn("checkpoint skipped: {}", why);
    return std::nullopt;
  }
  one.tensors = Saved(one.file.tensors.begin(), one.file.tensors.end());
  one.file.tensors.clear();
  one.info = parse_info(one.file, path, one.tensors);
  if (one.info.step != step) {
    bad_input("checkpoint {}: its step is {}, not as its name says", path.string(), one.info.step);
  }
  return one;
}

// ---- putting it back

std::string describe(const torch::Tensor& tensor) {
  return fmt::format("[{}] {}", fmt::join(tensor.sizes(), ", "), c10::toString(tensor.scalar_type()));
}

// Checks `saved` against the module; returns what to copy where.
std::vector<std::pair<torch::Tensor, torch::Tensor>> match_module(const fs::path& path, Saved saved,
                                                                  const torch::nn::Module& module) {
  std::vector<std::pair<torch::Tensor, torch::Tensor>> copies;
  const auto match = [&](const std::string& name, const torch::Tensor& variable) {
    const auto entry = saved.extract("model." + name);
    if (entry.empty()) {
      bad_input("checkpoint {} is of another model: variable {} {} is not in it", path.string(), name,
                describe(variable));
    }
    const torch::Tensor& value = entry.mapped();
    if (value.sizes() != variable.sizes() || value.scalar_type() != variable.scalar_type()) {
      bad_input("checkpoint {} is of another model: variable {} is {} there, but {} in the model",
                path.string(), name, describe(value), describe(variable));
    }
    copies.emplace_back(variable, value);
  };
  for (const auto& item : module.named_parameters()) match(item.key(), item.value());
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) match(item.key(), item.value());
  }
  if (!saved.empty()) {
    bad_input("checkpoint {} is of another model: its variable {} {} is not in the model", path.string(),
              saved.begin()->first.substr(std::string_view("model.").size()),
              describe(saved.begin()->second));
  }
  return copies;
}

// All checks come before the first change.
void restore(const tensor_files::TensorFile& file, const fs::path& path, Saved& tensors,
             torch::nn::Module& module, torch::optim::Optimizer& optimizer) {
  const auto copies = match_module(path, extract(tensors, "model."), module);
  const std::string stored = text_field(file, path, "optimizer");
  if (stored != optimizer_name(optimizer)) {
    bad_input("checkpoint {}: optimizer is {} there, but {} now", path.string(), stored,
              optimizer_name(optimizer));
  }
  std::function<void()> put_optimizer_state;
  try {
    put_optimizer_state = prepare_optimizer_state(extract(tensors, "optimizer."), optimizer, module);
  } catch (const InputError& e) {
    bad_input("checkpoint {}: {}", path.string(), e.what());
  }
  const torch::NoGradGuard no_grad;
  for (auto [variable, value] : copies) variable.copy_(value);
  put_optimizer_state();
}

}  // namespace

Checkpoints::Checkpoints(fs::path folder, int keep) : folder_(std::move(folder)), keep_(keep) {
  if (keep_ < 1) bad_input("checkpoints to keep is {}; allowed: 1 or more", keep_);
}

fs::path Checkpoints::path_of(int64_t step) const {
  return folder_ / fmt::format("{}{:08}{}", kPrefix, step, kSuffix);
}

std::vector<int64_t> Checkpoints::steps() const {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string file_name = entry.path().filename().string();
    std::string_view name = file_name;
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    name.remove_prefix(kPrefix.size());
    name.remove_suffix(kSuffix.size());
    const auto step = parse_number<int64_t>(name);
    if (step && path_of(*step).filename() == file_name) steps.push_back(*step);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    bad_input("cannot read checkpoint folder {}: {}", folder_.string(), error.message());
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

std::optional<int64_t> Checkpoints::newest_step() const {
  const auto all = steps();
  if (all.empty()) return std::nullopt;
  return all.front();
}

// A later step is of another run, unless it is the damaged file that this run could not resume from.
void Checkpoints::refuse_later_steps(int64_t now) {
  for (const int64_t step : steps()) {
    if (step <= now || damaged_.contains(step)) continue;
    try {
      read_checked(path_of(step));
    } catch (const Error&) {
      damaged_.insert(step);
      continue;
    }
    bad_input(
        "cannot save step {}: folder {} holds step {} of another run; resume from it or name another folder",
        now, folder_.string(), step);
  }
}

void Checkpoints::save(const CheckpointInfo& info, const torch::nn::Module& module,
                       const torch::optim::Optimizer& optimizer) {
  refuse_later_steps(info.step);
  const tensor_files::TensorFile file = describe(info, module, optimizer);
  std::error_code error;
  if (fs::create_directories(folder_, error)) sync_folder(fs::absolute(folder_).parent_path());
  if (error) fail("cannot create checkpoint folder {}: {}", folder_.string(), error.message());
  remove_leftovers();
  tensor_files::write_safetensors(path_of(info.step), file);
  damaged_.erase(info.step);
  remove_old(info.step);
  damaged_.clear();
}

// Keeps `newest` and the keep_ - 1 before it. A failure here costs room on the disk only.
void Checkpoints::remove_old(int64_t newest) const {
  int kept = 0;
  for (const int64_t step : steps()) {
    if (step <= newest && !damaged_.contains(step) && kept++ < keep_) continue;
    std::error_code error;
    fs::remove(path_of(step), error);
    if (error) log_warn("cannot remove checkpoint {}: {}", path_of(step).string(), error.message());
  }
}

std::optional<fs::path> Checkpoints::set_aside(int64_t step) const {
  fs::path aside = path_of(step);
  aside += ".not-finite";
  std::error_code error;
  fs::rename(path_of(step), aside, error);
  if (error) return std::nullopt;
  sync_folder(folder_);
  return aside;
}

void Checkpoints::remove_before(int64_t step, const std::set<int64_t>& kept) const {
  for (const int64_t earlier : steps()) {
    if (earlier >= step || kept.contains(earlier)) continue;
    std::error_code error;
    fs::remove(path_of(earlier), error);
    if (error) log_warn("cannot remove checkpoint {}: {}", path_of(earlier).string(), error.message());
  }
}

std::vector<CheckpointInfo> Checkpoints::readable() const {
  std::vector<CheckpointInfo> result;
  std::string why;
  for (const int64_t step : steps()) {
    if (auto one = read_or_warn(path_of(step), step, why)) result.push_back(std::move(one->info));
  }
  return result;
}

void Checkpoints::remove_after(int64_t step) {
  for (const int64_t later : steps()) {
    if (later > step) fs::remove(path_of(later));
  }
}

// Files of processes that died while writing; the room they take may be what the next one needs.
void Checkpoints::remove_leftovers() const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    const size_t at = name.find(kBeside);
    if (!name.starts_with(kPrefix) || at == std::string::npos) continue;
    const auto pid = parse_number<pid_t>(std::string_view(name).substr(at + kBeside.size()));
    if (!pid || *pid <= 0) continue;
    // Our own number can only be that of an earlier process: we are not writing now.
    const bool dead = *pid == ::getpid() || (::kill(*pid, 0) != 0 && errno == ESRCH);
    std::error_code ignored;
    if (dead) fs::remove(entry.path(), ignored);
  }
}

std::optional<CheckpointInfo> Checkpoints::load_newest(torch::nn::Module& module,
                                                       torch::optim::Optimizer& optimizer, int64_t at_most) {
  std::string newest_reason;
  auto all = steps();
  std::erase_if(all, [&](int64_t step) { return step > at_most; });
  for (const int64_t step : all) {
    const fs::path path = path_of(step);
    std::string why;
    auto read = read_or_warn(path, step, why);
    if (!read) {
      if (newest_reason.empty()) newest_reason = why;
      damaged_.insert(step);
      continue;
    }
    restore(read->file, path, read->tensors, module, optimizer);
    return read->info;
  }
  if (all.empty()) return std::nullopt;
  fail("none of the {} checkpoints in {} can be read; the newest: {}", all.size(), folder_.string(),
       newest_reason);
}

}  // namespace entrain::checkpoint
