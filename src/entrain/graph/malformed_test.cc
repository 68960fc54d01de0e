// Graphs and profiles from outside that are wrong, each refused by one line that says how.
#include <gtest/gtest.h>

#include "entrain/graph/graph.h"
#include "support/malformed.h"

namespace entrain::graph {
namespace {

using test::expect_refused;

std::string variable(const std::string& fields) {
  return R"({"variables": [{"name": "w", )" + fields + "}]}";
}
std::string layer(const std::string& fields) { return R"({"layers": [{"name": "l", )" + fields + "}]}"; }

TEST(Malformed, GraphsInJson) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += R"({"variables":[)";
  expect_refused(
      {{"", "not a graph in JSON"},
       {"[]", "not a graph in JSON"},
       {"{\"model\":", "not a graph in JSON"},
       {deep, "not a graph in JSON"},
       {R"({"model": ")" + std::string(20 << 20, 'x') + "\"}", "a graph of 2097"},
       {R"({"colour": 1})", "colour"},
       {R"({"batch_size": -1})", "batch_size is -1"},
       {R"({"input_bytes": -1})", "input_bytes is -1"},
       {R"({"variables": [{}]})", "name is empty"},
       {R"({"variables": [{"name": "w"}, {"name": "w"}]})", "name appears twice"},
       {variable(R"("dtype": "int3")"), "dtype is \"int3\""},
       {variable(R"("shape": [-1])"), "shape has -1"},
       {variable(R"("shape": ["x"])"), "shape"},
       {variable(R"("shape": ["4294967296", "4294967296"])"), "too many elements"},
       {variable(R"("shape": ["9223372036854775807"])"), "too many elements"},
       {variable(R"("shape": [0)" + std::string(200, ' ') + R"(,"9223372036854775808"])"), "shape"},
       {R"({"variables": [{"name": "v", "shape": ["400000000000000000"]},)"
        R"({"name": "w", "shape": ["400000000000000000"]}]})",
        "too many elements with those before it"},
       {variable(R"("sparse": true)"), "sparse needs a shape with rows"},
       {variable(R"("ready_order": -1)"), "ready_order is -1"},
       {variable(R"("rows_per_step": -1)"), "rows_per_step is -1"},
       {variable(R"("forward_s": "NaN")"), "forward_s is nan"},
       {variable(R"("forward_s": -1)"), "forward_s is -1"},
       {variable(R"("forward_s": 1e300)"), "forward_s is 1e+300"},
       {variable(R"("backward_s": "NaN")"), "backward_s is nan"},
       {variable(R"("backward_s": "Infinity")"), "backward_s is inf"},
       {variable(R"("flops": "NaN")"), "flops is nan"},
       {variable(R"("flops": "-Infinity")"), "flops is -inf"},
       {R"({"edges": [{"from": 0, "to": 1}]})", "indices of the 0 variables"},
       {R"({"edges": [{"from": -1, "to": 0}]})", "indices of the 0 variables"},
       {layer(R"("variables": [0])"), "indices of the 0 variables"},
       {layer(R"("variables": [-1])"), "indices of the 0 variables"},
       {layer(R"("output_bytes": -1)"), "output_bytes is -1"},
       {layer(R"("kept_bytes": -1)"), "kept_bytes is -1"},
       {layer(R"("times": [{"examples": 0}])"), "ascending examples"},
       {layer(R"("times": [{"examples": 2}, {"examples": 2}])"), "ascending examples"},
       {layer(R"("times": [{"examples": 1, "forward_s": "NaN"}])"), "are nan and 0"},
       {layer(R"("times": [{"examples": 1, "backward_s": "Infinity"}])"), "are 0 and inf"},
       {R"({"skips": [{"from": 0, "to": 1}]})", "indices of the 0 layers"},
       {R"({"skips": [{"from": 0, "to": 1, "bytes": -1}]})", "bytes is -1"}},
      graph_from_json);
}

TEST(Malformed, GraphsInBinary) {
  std::string many;
  for (int i = 0; i < 9'000'000; ++i) many += std::string("\x1a\0", 2);
  expect_refused({{"x", "not a graph in protobuf's binary form"},
                  {"\x0a\xff", "not a graph in protobuf's binary form"},
                  {std::string(1000, '\xff'), "not a graph in protobuf's binary form"},
                  {std::string("\x1a\0", 2), "name is empty"},
                  {many, "a graph of 18000000 bytes"}},
                 graph_from_binary);
}

}  // namespace
}  // namespace entrain::graph
