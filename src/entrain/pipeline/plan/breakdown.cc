#include "entrain/pipeline/plan/breakdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "entrain/pipeline/plan/timeline.h"

namespace entrain::pipeline {
namespace {

const char* name_of(Span::Kind kind) {
  switch (kind) {
    case Span::Kind::kForward:
      return "forward";
    case Span::Kind::kRecompute:
      return "recompute";
    case Span::Kind::kBackward:
      return "backward";
    case Span::Kind::kWait:
      return "wait";
    case Span::Kind::kTransfer:
      return "transfer";
    case Span::Kind::kUpdate:
      return "update";
  }
  return "";
}

void add_to(std::vector<double>& sums, int place, double seconds) {
  if (sums.size() <= static_cast<size_t>(place)) sums.resize(static_cast<size_t>(place) + 1);
  sums[static_cast<size_t>(place)] += seconds;
}

}  // namespace

void DeviceTimes::add(const std::vector<Span>& spans, double wall_s, int devices) {
  wall += wall_s;
  for (const Span& span : spans) {
    const double seconds = span.end_s - span.begin_s;
    const int place = std::max(span.cell, 0) / devices;
    switch (span.kind) {
      case Span::Kind::kForward:
        forward += seconds;
        add_to(cell_forward, place, seconds);
        break;
      case Span::Kind::kBackward:
        backward += seconds;
        add_to(cell_backward, place, seconds);
        break;
      case Span::Kind::kRecompute:
        recompute += seconds;
        add_to(cell_recompute, place, seconds);
        break;
      case Span::Kind::kWait:
        waited += seconds;
        break;
      case Span::Kind::kTransfer:
        transfer += seconds;
        break;
      case Span::Kind::kUpdate:
        update += seconds;
        break;
    }
  }
}

nlohmann::json to_json(const DeviceTimes& t) {
  return {{"wall", t.wall},
          {"forward", t.forward},
          {"backward", t.backward},
          {"recompute", t.recompute},
          {"waited", t.waited},
          {"transfer", t.transfer},
          {"update", t.update},
          {"cell_forward", t.cell_forward},
          {"cell_backward", t.cell_backward},
          {"cell_recompute", t.cell_recompute}};
}

DeviceTimes device_times_from_json(const nlohmann::json& json) {
  DeviceTimes t;
  json.at("wall").get_to(t.wall);
  json.at("forward").get_to(t.forward);
  json.at("backward").get_to(t.backward);
  json.at("recompute").get_to(t.recompute);
  json.at("waited").get_to(t.waited);
  json.at("transfer").get_to(t.transfer);
  json.at("update").get_to(t.update);
  json.at("cell_forward").get_to(t.cell_forward);
  json.at("cell_backward").get_to(t.cell_backward);
  json.at("cell_recompute").get_to(t.cell_recompute);
  return t;
}

Breakdown break_down(const Schedule& schedule, const std::vector<DeviceTimes>& devices) {
  Breakdown b;
  const auto count = static_cast<double>(devices.size());
  double waited = 0;
  std::vector<CellCost> costs(static_cast<size_t>(schedule.cells));
  for (size_t d = 0; d < devices.size(); ++d) {
    const DeviceTimes& t = devices[d];
    b.wall += t.wall / count;
    b.compute += (t.forward + t.backward) / count;
    b.recompute += t.recompute / count;
    b.transfer += t.transfer / count;
    b.update += t.update / count;
    waited += t.waited / count;
    for (size_t place = 0; place < t.cell_forward.size(); ++place) {
      CellCost& cost = costs.at(d + place * devices.size());
      cost.forward_s = t.cell_forward[place];
      cost.backward_s = place < t.cell_backward.size() ? t.cell_backward[place] : 0;
      cost.backward_s += place < t.cell_recompute.size() ? t.cell_recompute[place] : 0;
    }
  }
  const Timeline played = run_schedule(schedule, costs);
  const double idle = played.bubble_s + played.imbalance_s;
  b.bubble = idle > 0 ? waited * played.bubble_s / idle : 0;
  b.imbalance = waited - b.bubble;
  b.other = b.wall - b.sum();
  return b;
}

nlohmann::json to_json(const Breakdown& b) {
  return {{"wall_s", b.wall},     {"compute_s", b.compute},     {"recompute_s", b.recompute},
          {"bubble_s", b.bubble}, {"imbalance_s", b.imbalance}, {"transfer_s", b.transfer},
          {"update_s", b.update}, {"other_s", b.other}};
}

nlohmann::json to_json(const std::vector<std::vector<Span>>& spans) {
  auto result = nlohmann::json::array();
  for (const auto& of_device : spans) {
    auto list = nlohmann::json::array();
    for (const Span& s : of_device) {
      list.push_back({static_cast<int>(s.kind), s.cell, s.micro_batch, s.begin_s, s.end_s});
    }
    result.push_back(std::move(list));
  }
  return result;
}

std::vector<std::vector<Span>> spans_from_json(const nlohmann::json& json) {
  std::vector<std::vector<Span>> result;
  for (const auto& of_device : json) {
    result.emplace_back();
    for (const auto& s : of_device) {
      result.back().push_back({static_cast<Span::Kind>(s[0].get<int>()), s[1], s[2], s[3], s[4]});
    }
  }
  return result;
}

std::string chrome_trace(const std::vector<std::vector<Span>>& spans_by_device) {
  nlohmann::json events = nlohmann::json::array();
  for (size_t device = 0; device < spans_by_device.size(); ++device) {
    events.push_back({{"ph", "M"},
                      {"name", "process_name"},
                      {"pid", device},
                      {"args", {{"name", fmt::format("device {}", device)}}}});
    for (const Span& span : spans_by_device[device]) {
      nlohmann::json event = {{"ph", "X"},
                              {"cat", name_of(span.kind)},
                              {"pid", device},
                              {"tid", span.cell < 0 ? static_cast<int>(device) : span.cell},
                              {"ts", span.begin_s * 1e6},
                              {"dur", (span.end_s - span.begin_s) * 1e6}};
      event["name"] = span.micro_batch < 0 ? std::string(name_of(span.kind))
                                           : fmt::format("{} {}", name_of(span.kind), span.micro_batch);
      events.push_back(std::move(event));
    }
  }
  return nlohmann::json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump();
}

}  // namespace entrain::pipeline
