#include "entrain/pipeline/plan/reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace entrain::pipeline {
namespace {

// Answers whether a model fits; each is looked at once.
class Judge {
 public:
  Judge(const ReachRequest& request, const MemberOf& member_of) : request_(request), member_of_(member_of) {}

  // If it fits, and has more parameters than what was reached so far, it takes its place.
  bool offer(const std::string& model, Reached& reached) {
    const Member& member = known(model);
    if (static_cast<int>(member.layers.layers.size()) < reached.devices) return true;  // more depth may help
    FitRequest fitted = member.layers;
    fitted.batch = request_.examples;
    fitted.devices.assign(static_cast<size_t>(reached.devices), {1, request_.memory_bytes});
    fitted.pipeline = reached.devices;
    fitted.optimizer_slots = request_.optimizer_slots;
    // What takes the least: every example a micro-batch, all recomputed.
    fitted.schedules = {"gpipe"};
    fitted.micro_batches = {reached.naive ? 1 : request_.examples};
    fitted.remats = {reached.naive ? Remat::kNever : Remat::kAlways};
    const Fit result = fit(fitted);
    if (result.plans.empty()) return false;
    if (member.parameters <= reached.parameters) return true;
    reached.model = model;
    reached.parameters = member.parameters;
    reached.peak_bytes = 0;
    for (const DeviceMemory& memory : result.plans.front().memory) {
      reached.peak_bytes = std::max(reached.peak_bytes, memory.total());
    }
    return true;
  }

 private:
  const Member& known(const std::string& model) {
    const auto found = known_.find(model);
    return found != known_.end() ? found->second : known_.emplace(model, member_of_(model)).first->second;
  }

  const ReachRequest& request_;
  const MemberOf& member_of_;
  std::map<std::string, Member> known_;
};

void search(const Family& family, Judge& judge, Reached& reached) {
  for (const int width : family.widths) {
    int fits = 0, too_much = family.most_depth / family.depth_step + 1;  // in steps
    while (too_much - fits > 1) {
      // Doubled first: the largest models are the slowest to look at.
      const int middle = fits == 0 ? 1 : std::min(2 * fits, (fits + too_much) / 2);
      const auto model = fmt::format("{}:{},{}", family.name, middle * family.depth_step, width);
      (judge.offer(model, reached) ? fits : too_much) = middle;
    }
  }
}

}  // namespace

std::vector<Reached> reach(const ReachRequest& request, const MemberOf& member_of) {
  Judge judge(request, member_of);
  std::vector<Reached> all = {{1, true, ""}};
  for (const int devices : request.devices) all.push_back({devices, false, ""});
  for (Reached& reached : all) {
    if (request.sizes.empty()) search(request.family, judge, reached);
    for (const auto& size : request.sizes) judge.offer(request.family.name + ":" + size, reached);
  }
  return all;
}

}  // namespace entrain::pipeline
