// What `entrain simulator` shares: its options, and the experiments that it runs.
#pragma once

#include <string>
#include <vector>

#include "entrain/dataset/dataset.h"
#include "entrain/simulator/ranker.h"

namespace entrain::app {

struct SimulatorCommand {
  std::string data;
  std::vector<std::string> only;  // parts of domain names
  std::vector<std::string> rankers;
  std::string save;
  std::string out;
  int seeds = 3;
  int target_trials = 0;
  double margin = 0;
  bool matrix = false;
  bool json_output = false;
  simulator::LearnOptions learn;
};

// The domains that --only names, or all. Throws InputError when there is none.
dataset::Dataset load_data(const SimulatorCommand& command);

// Throws InputError unless each is one of `allowed`.
void check_ranker_names(const std::vector<std::string>& names, const std::vector<std::string>& allowed);
std::vector<std::string> learning_rankers();

// Each prints its table (or JSON), and with --out writes JSON and plots.
int evaluate_simulators(const SimulatorCommand& command);
int transfer_rankers(const SimulatorCommand& command);

}  // namespace entrain::app
