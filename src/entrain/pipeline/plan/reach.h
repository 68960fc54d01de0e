// The largest model of a family that fits on so many devices: GPipe's Table 1.
//
// A family is all models NAME:DEPTH,WIDTH. For each width the deepest that fits is found by doubling and then
// bisecting the depth, since a deeper one takes more; the answer is the one with the most parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "entrain/pipeline/plan/fit.h"

namespace entrain::pipeline {

struct Family {
  std::string name;
  std::vector<int> widths;
  int depth_step = 1;
  int most_depth = 1;
};

// A member: its layers' costs, and how many numbers it learns.
struct Member {
  FitRequest layers;  // devices, batch and what is tried are reach()'s
  int64_t parameters = 0;
};
// Asked once per model.
using MemberOf = std::function<Member(const std::string& model)>;

struct ReachRequest {
  Family family;
  std::vector<std::string> sizes = {};  // only these, as "6,72"; empty: all widths and depths
  std::vector<int> devices;             // numbers of them, each answered
  int64_t memory_bytes = 0;             // of each device
  int examples = 1;                     // per step, each a micro-batch
  int optimizer_slots = 0;
};

struct Reached {
  int devices = 1;
  bool naive = false;  // one device, one micro-batch, everything kept: no pipeline
  std::string model;   // empty: none fits
  int64_t parameters = 0;
  int64_t peak_bytes = 0;  // of the fullest device
};

// The naive one first, then one for each of `devices`.
std::vector<Reached> reach(const ReachRequest& request, const MemberOf& member_of);

}  // namespace entrain::pipeline
