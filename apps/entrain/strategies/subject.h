// What a verb that simulates is about: (G, D), and a calibration where trials were measured.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "entrain/dataset/dataset.h"
#include "entrain/simulator/simulator.h"
#include "graph_verb.h"

namespace entrain::app {

struct SubjectOptions {
  ProfileRequest profile;  // .model is empty unless --model was given
  std::string graph;       // file
  std::string data;        // data set or trial log
  std::string domain;      // in `data`
  std::string cluster;
};

struct SimulationSubject {
  graph::Graph graph;
  cluster::Cluster cluster;
  simulator::Calibration calibration;
  std::string calibrated;                 // where that is from, in words
  std::optional<dataset::Domain> domain;  // with its trials, when there is data
};

// --model, --batch-size, --graph, --data, --domain, --cluster.
void add_subject_options(CLI::App& verb, SubjectOptions& options);

// What can be told from the command line alone: throws InputError for an unknown strategy, or when the
// options do not say what G and D are. Profiling a model takes a while.
void check_subject(const SubjectOptions& options, const std::vector<std::string>& strategies);

// G: the file's, else the profiled model's, else the domain's. D: --cluster, else the domain's. The
// calibration is that of the domain's builders, if it has any. Throws InputError, also when fewer than
// `least_ranks` train.
SimulationSubject load_subject(const SubjectOptions& options, int least_ranks = 2);

struct NamedStrategy {
  strategy::Strategy strategy;
  std::optional<double> measured_s;  // a trial's median
};

// A builder's name, a strategy file, or "trial:17" of the domain. Throws InputError unless it fits (G, D).
NamedStrategy find_strategy(const std::string& text, const SimulationSubject& subject);

}  // namespace entrain::app
