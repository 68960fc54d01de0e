#include "entrain/pipeline/plan/breakdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "entrain/base/trace.h"

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

nlohmann::json json_of(const DeviceTimes& t) {
  return {{"wall", t.wall},           {"forward", t.forward}, {"backward", t.backward},
          {"recompute", t.recompute}, {"waited", t.waited},   {"transfer", t.transfer},
          {"update", t.update}};
}

DeviceTimes device_times_of(const nlohmann::json& json) {
  DeviceTimes t;
  json.at("wall").get_to(t.wall);
  json.at("forward").get_to(t.forward);
  json.at("backward").get_to(t.backward);
  json.at("recompute").get_to(t.recompute);
  json.at("waited").get_to(t.waited);
  json.at("transfer").get_to(t.transfer);
  json.at("update").get_to(t.update);
  return t;
}

}  // namespace

void DeviceTimes::add(const std::vector<Span>& spans, double wall_s) {
  wall += wall_s;
  for (const Span& span : spans) {
    const double seconds = span.end_s - span.begin_s;
    switch (span.kind) {
      case Span::Kind::kForward:
        forward += seconds;
        break;
      case Span::Kind::kBackward:
        backward += seconds;
        break;
      case Span::Kind::kRecompute:
        recompute += seconds;
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

nlohmann::json to_json(const std::vector<DeviceTimes>& times) {
  auto result = nlohmann::json::array();
  for (const DeviceTimes& of_device : times) result.push_back(json_of(of_device));
  return result;
}

std::vector<DeviceTimes> device_times_from_json(const nlohmann::json& json) {
  std::vector<DeviceTimes> result;
  for (const auto& of_device : json) result.push_back(device_times_of(of_device));
  return result;
}

Breakdown break_down(const std::vector<DeviceTimes>& devices) {
  Breakdown b;
  const auto count = static_cast<double>(devices.size());
  double waited = 0, busy = 0, most_busy = 0;
  for (const DeviceTimes& t : devices) {
    b.wall += t.wall / count;
    b.compute += (t.forward + t.backward) / count;
    b.recompute += t.recompute / count;
    b.transfer += t.transfer / count;
    b.update += t.update / count;
    waited += t.waited / count;
    busy += t.busy() / count;
    most_busy = std::max(most_busy, t.busy());
  }
  b.imbalance = std::min(waited, most_busy - busy);
  b.bubble = waited - b.imbalance;
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
  Trace trace;
  for (size_t d = 0; d < spans_by_device.size(); ++d) {
    const auto device = static_cast<int>(d);
    trace.name_process(device, fmt::format("device {}", device));
    for (const Span& span : spans_by_device[d]) {
      const std::string kind(name_of(span.kind));
      trace.add(device, span.cell < 0 ? device : span.cell,
                span.micro_batch < 0 ? kind : fmt::format("{} {}", kind, span.micro_batch), span.begin_s,
                span.end_s, kind);
    }
  }
  return trace.document();
}

}  // namespace entrain::pipeline
