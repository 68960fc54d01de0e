#include "entrain/base/trace.h"

namespace entrain {

void Trace::name_process(int process, const std::string& name) {
  events_.push_back(
      {{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"tid", 0}, {"args", {{"name", name}}}});
}

void Trace::name_thread(int process, int thread, const std::string& name) {
  events_.push_back(
      {{"ph", "M"}, {"name", "thread_name"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}});
}

void Trace::add(int process, int thread, const std::string& name, double begin_s, double end_s,
                const std::string& category) {
  nlohmann::json event = {{"ph", "X"},     {"name", name},        {"pid", process},
                          {"tid", thread}, {"ts", begin_s * 1e6}, {"dur", (end_s - begin_s) * 1e6}};
  if (!category.empty()) event["cat"] = category;
  events_.push_back(std::move(event));
}

std::string Trace::document() const {
  return nlohmann::json{{"traceEvents", events_}, {"displayTimeUnit", "ms"}}.dump();
}

}  // namespace entrain
