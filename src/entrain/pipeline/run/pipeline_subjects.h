// Shared by tests of pipelines and shapes: models to cut, what they give without a pipeline, every setting.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "entrain/models/model.h"
#include "entrain/pipeline/run/thread_pipeline.h"

namespace entrain::pipeline {

constexpr int kSteps = 3;
constexpr double kRate = 0.05;
constexpr uint64_t kSeed = 11;

struct Subject {
  std::string name;
  std::function<std::shared_ptr<models::Model>()> make;  // the same parameters each time
  models::Batch batch;
  int layers;
};

using Tensors = std::vector<torch::Tensor>;

struct Outcome {
  std::vector<double> losses;  // by step
  Tensors gradients;           // of the last step
  Tensors state;               // parameters and buffers after the last
};

std::vector<std::string> subject_names();
Subject make_subject(const std::string& name);

Tensors gradients_of(const torch::nn::Module& model);
Tensors state_of(const torch::nn::Module& model);

// A plain loop over layers and micro-batches.
Outcome reference(const Subject& subject, int micro_batches);

// Cells as even as can be; interleaved: two a device where there are layers enough.
Options options_for(const Subject& subject, int devices, int micro_batches, const std::string& schedule,
                    Remat remat);
std::string describe(const Options& options);

// K in {1, 2, 3, 4, 8} x M in {1, 2, 5, 8, 32} x schedules x rematerializations.
void for_each_setting(const Subject& subject,
                      const std::function<void(const Options&, const Outcome& expected)>& check);

// Within 1e-5 of the largest value of each tensor.
void expect_same(const Outcome& outcome, const Outcome& expected, const std::string& what);

}  // namespace entrain::pipeline
