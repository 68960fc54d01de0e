// The trace event format that Perfetto and chrome://tracing read: processes with threads, and what each
// thread did when.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace entrain {

class Trace {
 public:
  void name_process(int process, const std::string& name);
  void name_thread(int process, int thread, const std::string& name);
  // Spans of one thread must not overlap, but may lie within each other.
  void add(int process, int thread, const std::string& name, double begin_s, double end_s,
           const std::string& category = "");
  std::string document() const;

 private:
  nlohmann::json events_ = nlohmann::json::array();
};

}  // namespace entrain
