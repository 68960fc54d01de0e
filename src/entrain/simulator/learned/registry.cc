#include "entrain/simulator/learned/registry.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/simulator/boosted/boosted.h"
#include "entrain/simulator/learned/neural_ranker.h"
#include "entrain/simulator/schema.h"

namespace entrain::simulator {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Ranker> (*make)();
  std::unique_ptr<Ranker> (*load)(const std::filesystem::path&);
};

template <const char* kName>
std::unique_ptr<Ranker> neural() {
  return std::make_unique<NeuralRanker>(kName);
}
std::unique_ptr<Ranker> load_neural(const std::filesystem::path& path) { return NeuralRanker::load(path); }
std::unique_ptr<Ranker> boosted() { return std::make_unique<Boosted>(); }
std::unique_ptr<Ranker> load_boosted(const std::filesystem::path& path) { return Boosted::load(path); }

constexpr char kLinear[] = "linear", kRnn[] = "rnn", kGat[] = "gat";
constexpr Entry kEntries[] = {
    {kLinear, neural<kLinear>, load_neural},
    {kRnn, neural<kRnn>, load_neural},
    {kGat, neural<kGat>, load_neural},
    {"boosted", boosted, load_boosted},
};

const Entry& find(const std::string& name, const std::string& where) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry;
  }
  bad_input("{}ranker \"{}\" is unknown; allowed: {}", where, name, fmt::join(ranker_names(), ", "));
}

}  // namespace

std::span<const std::string_view> ranker_names() {
  static constexpr std::string_view kNames[] = {kLinear, kRnn, kGat, "boosted"};
  return kNames;
}

std::unique_ptr<Ranker> make_ranker(const std::string& name) { return find(name, "").make(); }

std::unique_ptr<Ranker> load_ranker(const std::filesystem::path& path) {
  const auto header = read_header(read_file(path), path);
  return find(header["ranker"].get<std::string>(), path.string() + ": ").load(path);
}

}  // namespace entrain::simulator
