#include "entrain/dataset/dataset.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "entrain/base/error.h"
#include "entrain/dataset/gzip.h"
#include "entrain/dataset/record.h"

namespace entrain::dataset {
namespace {

namespace fs = std::filesystem;

bool compressed(const fs::path& path) { return path.extension() == ".gz"; }

bool is_log(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".jsonl") || name.ends_with(".jsonl.gz");
}

std::vector<fs::path> files_of(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file() && is_log(entry.path())) files.push_back(entry.path());
  }
  if (files.empty()) bad_input("{}: no data set in this folder, allowed: *.jsonl, *.jsonl.gz", path.string());
  std::sort(files.begin(), files.end());
  return files;
}

// Puts records together; a domain may come in several files.
class Joiner {
 public:
  void add(Record record) {
    std::visit([&](auto& r) { add(std::move(r)); }, record);
  }
  Dataset take() { return std::move(dataset_); }

 private:
  void add(Domain domain) {
    const Domain* before = dataset_.find(domain.name);
    if (before == nullptr) {
      dataset_.domains.push_back(std::move(domain));
      numbers_.emplace_back();
      return;
    }
    // Its times may have been profiled again, its links probed again: the first are kept.
    const auto same = [](const graph::Variable& a, const graph::Variable& b) {
      return a.name == b.name && a.shape == b.shape;
    };
    const auto& a = before->graph.variables;
    const auto& b = domain.graph.variables;
    if (!std::equal(a.begin(), a.end(), b.begin(), b.end(), same)) {
      bad_input("domain \"{}\" has other variables than before; give it another name", domain.name);
    }
    if (before->cluster.world() != domain.cluster.world()) {
      bad_input("domain \"{}\" has {} ranks, before {}; give it another name", domain.name,
                domain.cluster.world(), before->cluster.world());
    }
  }

  // Two logs of a domain both count from 0: the later one goes on counting. The same record twice is one.
  void add(TrialLine line) {
    Domain* domain = dataset_.find(line.domain);
    if (domain == nullptr) bad_input("field \"of\" is \"{}\", which no line before describes", line.domain);
    std::set<int>& numbers = numbers_[static_cast<size_t>(domain - dataset_.domains.data())];
    if (numbers.contains(line.trial.number)) {
      if (std::find(domain->trials.begin(), domain->trials.end(), line.trial) != domain->trials.end()) return;
      line.trial.number = *numbers.rbegin() + 1;
    }
    numbers.insert(line.trial.number);
    domain->trials.push_back(std::move(line.trial));
  }

  Dataset dataset_;
  std::vector<std::set<int>> numbers_;  // taken, by domain
};

void read_into(Joiner& joiner, const fs::path& path) {
  std::string text = read_file(path);
  if (compressed(path)) text = gunzip(text, path.string());
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const bool cut_off = end == std::string::npos;
    const std::string_view line = std::string_view(text).substr(at, cut_off ? end : end - at);
    at = cut_off ? text.size() : end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (cut_off && !is_whole(line)) return;
    try {
      joiner.add(parse_line(line));
    } catch (const InputError& error) {
      bad_input("{}:{}: {}", path.string(), number, error.what());
    }
  }
}

// The log's path, once it ends with a whole line.
const fs::path& repaired(const fs::path& path) {
  if (compressed(path)) {
    bad_input("{}: trials cannot be appended to a compressed file; allowed: .jsonl", path.string());
  }
  if (!fs::exists(path)) return path;
  const std::string text = read_file(path);
  if (text.empty() || text.back() == '\n') return path;
  const size_t last = text.rfind('\n') + 1;  // npos + 1 is 0
  if (is_whole(std::string_view(text).substr(last))) {
    LineLog(path).append("");  // only its end is missing
  } else {
    fs::resize_file(path, last);
  }
  return path;
}

}  // namespace

double Trial::step_s() const {
  if (seconds.empty()) fail("trial {} of strategy {} has no measured step", number, strategy.id);
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const auto cut = static_cast<std::ptrdiff_t>(sorted.size() / 5);
  const double sum = std::accumulate(sorted.begin() + cut, sorted.end() - cut, 0.0);
  return sum / static_cast<double>(sorted.size() - 2 * cut);
}

std::string domain_name(const std::string& model, const std::string& cluster, int64_t batch_size) {
  return fmt::format("{}@{}#{}", model, cluster, batch_size);
}

size_t Dataset::records() const {
  size_t sum = 0;
  for (const Domain& domain : domains) sum += domain.trials.size();
  return sum;
}

const Domain* Dataset::find(const std::string& name) const {
  for (const Domain& domain : domains) {
    if (domain.name == name) return &domain;
  }
  return nullptr;
}

Domain* Dataset::find(const std::string& name) {
  return const_cast<Domain*>(std::as_const(*this).find(name));
}

Dataset load(const fs::path& path) { return load(std::vector<fs::path>{path}); }

Dataset load(const std::vector<fs::path>& paths) {
  Joiner joiner;
  for (const fs::path& path : paths) {
    for (const fs::path& file : files_of(path)) read_into(joiner, file);
  }
  return joiner.take();
}

void save(const Dataset& dataset, const fs::path& path) {
  std::string text;
  for (const Domain& domain : dataset.domains) {
    text += line_of(domain) + '\n';
    for (const Trial& trial : domain.trials) text += line_of(domain.name, trial) + '\n';
  }
  write_file_atomically(path, compressed(path) ? gzip(text) : text);
}

void check_continues(const Domain& domain, const Settings& now) {
  const Settings& then = domain.settings;
  if (then.compute != now.compute) {
    bad_input("{}: its trials are of compute {}, not {}", domain.name, then.compute, now.compute);
  }
  if (then.seed != now.seed)
    bad_input("{}: its trials are of `seed` {}, not {}", domain.name, then.seed, now.seed);
}

TrialLog::TrialLog(const fs::path& path) {
  if (!path.empty()) log_.emplace(repaired(path));
}

void TrialLog::begin(const Domain& domain) {
  if (log_) log_->append(line_of(domain));
}

void TrialLog::append(const std::string& domain, const Trial& trial) {
  if (log_) log_->append(line_of(domain, trial));
}

}  // namespace entrain::dataset
