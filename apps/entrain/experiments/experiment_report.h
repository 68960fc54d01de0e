// Experiments as tables, JSON documents and pictures. Pure: numbers in, texts out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "entrain/simulator/evaluation/evaluation.h"
#include "entrain/tuner/search_curves.h"

namespace entrain::app {

struct Picture {
  std::string name;  // of the file, without ".svg"
  std::string svg;
};

struct ExperimentReport {
  std::string text;  // what a person reads: mean +- std over seeds
  nlohmann::ordered_json document;
  std::vector<Picture> pictures;
};

// AutoSync's Tables 1 and 2: each simulator in each domain, by model and by cluster.
ExperimentReport ranking_report(const simulator::Evaluation& evaluation, const dataset::Dataset& data,
                                const std::vector<std::string>& simulators);

// Table 3. `sources`: of simulator::transfer; `matrix`: of transfer_matrix, summed up by model and by
// cluster; may be empty.
ExperimentReport transfer_report(const std::vector<simulator::TransferCell>& sources,
                                 const std::vector<simulator::TransferCell>& matrix,
                                 const dataset::Dataset& data);

// Figures 2 and 3.
ExperimentReport search_report(const std::vector<tuner::Curves>& curves);

}  // namespace entrain::app
