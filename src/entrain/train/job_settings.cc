#include "entrain/train/job_settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/base/sha256.h"
#include "entrain/job/control.h"
#include "entrain/models/script.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/strategy/stored.h"
#include "entrain/transport/control_tags.h"

namespace entrain::train {
namespace {

namespace fs = std::filesystem;

// Enough to tell two files apart without reading gigabytes: the size, the first and the last MiB.
std::string fingerprint(const fs::path& path) {
  constexpr std::streamoff kPart = 1 << 20;
  std::error_code error;
  if (fs::is_directory(path, error)) return "a folder";
  const auto size = static_cast<std::streamoff>(fs::file_size(path, error));
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return "not a file";
  Sha256 hash;
  for (const std::streamoff begin : {std::streamoff{0}, std::max<std::streamoff>(0, size - kPart)}) {
    std::string part(static_cast<size_t>(std::min(kPart, size - begin)), '\0');
    file.seekg(begin);
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    hash.update(part);
  }
  return fmt::format("a file of {} bytes ({}...)", size, hex(hash.finish()).substr(0, 12));
}

std::string text_of(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

class Collected {
 public:
  template <typename T>
  void add(const std::string& name, const T& value) {
    settings.push_back({name, fmt::format("{}", value)});
  }
  void add_file(const std::string& name, const fs::path& path) {
    settings.push_back({name, path.empty() ? "not given" : fingerprint(path), !path.empty()});
  }
  void add_given(const std::string& name, const fs::path& path) {
    settings.push_back({name, path.empty() ? "not given" : "given"});
  }
  std::vector<Setting> settings;
};

void add_strategy(Collected& to, const TrainOptions& options) {
  if (options.strategy.is_builder()) {
    to.add("strategy", options.strategy.text());
  } else {
    to.add_file("strategy", options.strategy.file());
    to.add("strategy's compressor", options.strategy.compressor());
  }
  strategy::Strategy parts;
  parts.optimizer = options.optimizer;
  parts.pipeline = options.pipeline;
  const auto json = nlohmann::json::parse(strategy::to_json(parts));
  for (const char* part : {"optimizer", "pipeline"}) {
    for (const auto& [field, value] : json.at(part).items()) {
      to.add(fmt::format("{}.{}", part, field), text_of(value));
    }
  }
  to.add("shape", options.shape ? strategy::to_text(*options.shape) : "none");
  std::vector<std::string> reshapes;
  for (const auto& [step, shape] : options.reshapes) {
    reshapes.push_back(fmt::format("{}={}", step, strategy::to_text(shape)));
  }
  to.add("shapes_advised", options.shapes_advised);
  to.add("reshapes", fmt::format("[{}]", fmt::join(reshapes, ", ")));
  std::vector<std::string> switches;
  for (const auto& [step, wanted] : options.switches) {
    switches.push_back(fmt::format("{}={}", step, wanted.text()));
  }
  to.add("switches", fmt::format("[{}]", fmt::join(switches, ", ")));
}

// "cifar10:/data" is "cifar10" and what there is at /data.
void add_data(Collected& to, const std::string& data) {
  if (data.empty()) return to.add("data", "made up");
  const size_t colon = data.find(':');
  const bool has_kind = colon != std::string::npos && colon > 0 && data[0] != '/' && data[0] != '.';
  if (has_kind) to.add("kind of data", data.substr(0, colon));
  to.add_file("data", has_kind ? data.substr(colon + 1) : data);
}

void add_ranks(Collected& to, const cluster::Cluster& cluster) {
  to.add("ranks that train", fmt::format("[{}]", fmt::join(cluster.worker_ranks(), ", ")));
  std::vector<int> hosts;
  for (int rank = 0; rank < cluster.world(); ++rank) hosts.push_back(cluster.host_of(rank));
  to.add("hosts of the ranks", fmt::format("[{}]", fmt::join(hosts, ", ")));
}

std::string to_text(const std::vector<Setting>& settings) {
  nlohmann::json list = nlohmann::json::array();
  for (const Setting& s : settings) list.push_back({s.name, s.value, s.of_file});
  return list.dump();
}

std::vector<Setting> from_text(const std::string& text) {
  std::vector<Setting> settings;
  for (const auto& s : nlohmann::json::parse(text)) {
    settings.push_back({s.at(0).get<std::string>(), s.at(1).get<std::string>(), s.at(2).get<bool>()});
  }
  return settings;
}

const Setting* find(const std::vector<Setting>& settings, const std::string& name) {
  const auto at =
      std::find_if(settings.begin(), settings.end(), [&](const Setting& s) { return s.name == name; });
  return at == settings.end() ? nullptr : &*at;
}

// Empty: none that matters to this rank.
std::string differences(const std::vector<Setting>& own, const std::vector<Setting>& first, int rank,
                        bool trains) {
  std::vector<std::string> found;
  const auto note = [&](const std::string& name, const Setting* here, const Setting* there) {
    const bool of_file = (here && here->of_file) || (there && there->of_file);
    if ((of_file && !trains) || (here && there && here->value == there->value)) return;
    found.push_back(fmt::format("{} is {} on rank {} and {} on rank 0", name, here ? here->value : "unknown",
                                rank, there ? there->value : "unknown"));
  };
  for (const Setting& setting : own) note(setting.name, &setting, find(first, setting.name));
  for (const Setting& setting : first) {
    if (!find(own, setting.name)) note(setting.name, nullptr, &setting);
  }
  if (found.empty()) return "";
  return fmt::format("{}; all ranks of a job need the same settings", fmt::join(found, ", "));
}

}  // namespace

std::vector<Setting> deciding_settings(const job::Context& context, const TrainOptions& options) {
  Collected all;
  if (models::is_script(options.model)) {
    all.add_file("model", options.model);
  } else {
    all.add("model", options.model);
  }
  all.add("compute", options.replay ? "replayed" : "real");
  add_strategy(all, options);
  add_data(all, options.data);
  all.add("batch_size", options.batch_size);
  all.add("global_batch", options.global_batch);
  all.add("seed", options.seed);
  all.add("steps", options.steps);
  all.add("seconds", options.seconds);
  all.add("test_every", options.test_every);
  all.add("bn_recompute", options.bn_recompute);
  all.add("compare_every", options.compare_every);
  all.add("checkpoint_every", options.checkpoint_every);
  all.add("on_nonfinite", to_string(options.on_nonfinite));
  all.add_file("init", options.init);
  all.add_given("out", options.out);
  all.add_given("resume", options.resume);
  all.add_given("save", options.save);
  all.add_given("save_model", options.save_model);
  add_ranks(all, context.cluster);
  return all.settings;
}

void agree_on_settings(job::Context& context, const TrainOptions& options) {
  if (context.world() == 1) return;
  const std::vector<Setting> own = deciding_settings(context, options);
  const Deadline deadline = Deadline::after(context.job.timeout_s);
  transport::Transport& transport = *context.transport;
  const std::string first = transport::broadcast(transport, 0, to_text(own), transport::tags::kSettings,
                                                 deadline, "agreement on the settings");
  const auto all =
      transport::gather(transport, 0, differences(own, from_text(first), context.rank(), context.trains()),
                        transport::tags::kSettingsDifference, deadline, "agreement on the settings");
  const auto other = std::find_if(all.begin(), all.end(), [](const auto& text) { return !text.empty(); });
  const std::string verdict =
      transport::broadcast(transport, 0, other == all.end() ? "" : *other, transport::tags::kSettingsVerdict,
                           deadline, "agreement on the settings");
  if (verdict.empty()) return;
  try {  // rank 0 ends the job when everyone knows why
    transport::gather(transport, 0, "", transport::tags::kSettingsVerdict, deadline,
                      "agreement on the settings");
  } catch (const Error&) {
    // A rank that has left knows it, too.
  }
  bad_input("{}", verdict);
}

}  // namespace entrain::train
