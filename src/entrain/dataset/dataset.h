// The data set: (G, D, S, run-times) records, by domain.
//
// A domain is one (G, D) with the settings it was run under; its trials are strategies with their measured
// steps. The stored form is lines of JSON (compressed when the path ends in .gz), so that the tuner's trial
// log, a collection under way and the shipped data set are one format:
//
//   {"domain": "vgg16-32@lab:4x1gbit#2", "graph": {...}, "cluster": "yaml", "settings": {...}}
//   {"trial": 0, "of": "vgg16-32@lab:4x1gbit#2", "status": "ok", "seconds": [...], "origin": "random",
//    "error": "when it failed", "strategy": {...}}
//
// A domain's line comes before its trials. Unknown keys are left alone, not refused. The graph is that of
// graph::to_json, the strategy protobuf's JSON of strategy.proto without its defaults (README.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "entrain/base/files.h"
#include "entrain/cluster/cluster.h"
#include "entrain/graph/graph.h"
#include "entrain/strategy/strategy.h"

namespace entrain::dataset {

enum class Status { kOk, kFailed, kDeadline };

struct Trial {
  int number = 0;  // within its domain, from 0
  strategy::Strategy strategy;
  std::vector<double> seconds;  // of each measured step; warm-up left out
  Status status = Status::kOk;
  std::string origin;  // who proposed it: "builder", "random", "mutation", "crossover", "import"
  std::string error;   // when it failed

  bool ok() const { return status == Status::kOk && !seconds.empty(); }
  // What a step takes: the mean without the fifth of the steps at each end. Not the median: ranks run ahead
  // of one another, so a long step is followed by a short one, which only a mean evens out. Requires: ok().
  double step_s() const;
  friend bool operator==(const Trial&, const Trial&) = default;
};

struct Settings {
  int64_t batch_size = 0;        // per rank
  std::string compute = "real";  // real, or replay
  std::string machine;           // "2 cores, tc" in words
  uint64_t seed = 0;
  // Pieces that messages of one chunk were cut into (collective/executor.h), which the simulation must know.
  // Absent in a file: it is of the time when they were 512 KB.
  int64_t least_segment_bytes = 64 << 10;
  friend bool operator==(const Settings&, const Settings&) = default;
};

struct Domain {
  std::string name;  // unique in a data set: MODEL@CLUSTER, with a suffix when settings differ
  graph::Graph graph;
  cluster::Cluster cluster;
  Settings settings;
  std::vector<Trial> trials;
};

// The name of a model's domain on a cluster, at so many examples per rank: MODEL@CLUSTER#BATCH.
std::string domain_name(const std::string& model, const std::string& cluster, int64_t batch_size);

struct Dataset {
  std::vector<Domain> domains;

  size_t records() const;
  Domain* find(const std::string& name);
  const Domain* find(const std::string& name) const;
};

// One file, or every *.jsonl and *.jsonl.gz in a folder, in order of name. Domains of one name are joined:
// the first description stands, a trial whose number is taken gets the next free one, and the same record
// twice counts once. A last line that was cut off (kill -9) is left out. Throws InputError naming file and
// line.
Dataset load(const std::filesystem::path& path);
Dataset load(const std::vector<std::filesystem::path>& paths);

// Compressed when the path ends in .gz. Atomic.
void save(const Dataset& dataset, const std::filesystem::path& path);

// Throws InputError where trials measured under `now` do not belong to those of `domain`: it computed in
// another way, or drew from another seed.
void check_continues(const Domain& domain, const Settings& now);

// Appends to a .jsonl file, flushed record by record: a kill loses nothing that was reported as done.
class TrialLog {
 public:
  // Created, or continued: a half line at its end is cut away first. An empty path: nothing is written.
  // Throws InputError for a .gz.
  explicit TrialLog(const std::filesystem::path& path);

  // The domain's line; its trials are not written. Again, for a log that is continued, does no harm.
  void begin(const Domain& domain);
  void append(const std::string& domain, const Trial& trial);

 private:
  std::optional<LineLog> log_;
};

}  // namespace entrain::dataset
