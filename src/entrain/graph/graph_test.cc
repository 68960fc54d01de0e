#include "entrain/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/base/files.h"

namespace entrain::graph {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Graph small_graph() {
  Graph g;
  g.model = "tiny";
  g.batch_size = 8;
  g.variables = {{"embed", {1000, 16}, "float32", true, 2, 0.001, 0.002, 1e6, 24},
                 {"w", {16, 4}, "float64", false, 1, 0.1, 0.2, 3.5e9, 0},
                 {"scale", {}, "float16", false, 0, 0, 0, 0, 0}};
  g.edges = {{0, 1}, {1, 2}};
  return g;
}

void expect_equal(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.batch_size, b.batch_size);
  EXPECT_EQ(a.edges, b.edges);
  ASSERT_EQ(a.variables.size(), b.variables.size());
  for (size_t i = 0; i < a.variables.size(); ++i) {
    const Variable &x = a.variables[i], &y = b.variables[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.shape, y.shape);
    EXPECT_EQ(x.dtype, y.dtype);
    EXPECT_EQ(x.sparse, y.sparse);
    EXPECT_EQ(x.ready_order, y.ready_order);
    EXPECT_EQ(x.forward_s, y.forward_s);
    EXPECT_EQ(x.backward_s, y.backward_s);
    EXPECT_EQ(x.flops, y.flops);
    EXPECT_EQ(x.rows_per_step, y.rows_per_step);
  }
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no InputError";
}

// As sync/sparse_rows sends them: values and an index for each row.
TEST(Graph, OfASparseVariableTheTouchedRowsTravel) {
  Variable embed = small_graph().variables[0];
  EXPECT_EQ(embed.step_bytes(), 24 * (16 * 4 + 8));
  embed.rows_per_step = 5000;  // some are touched twice
  EXPECT_EQ(embed.step_bytes(), 1000 * (16 * 4 + 8));
  embed.rows_per_step = 0;
  EXPECT_EQ(embed.step_bytes(), 0);
  embed.sparse = false;
  EXPECT_EQ(embed.step_bytes(), 64000);
}

TEST(Graph, CountsBytes) {
  const Graph g = small_graph();
  EXPECT_EQ(g.variables[0].bytes(), 64000);
  EXPECT_EQ(g.variables[2].bytes(), 2);  // a scalar has one element
  EXPECT_EQ(g.variables[2].step_bytes(), 2);
  EXPECT_EQ(g.variables[1].step_bytes(), 16 * 4 * 8);
  EXPECT_EQ(g.bytes(), 64000 + 512 + 2);
  EXPECT_DOUBLE_EQ(g.compute_s(), 0.303);
  EXPECT_EQ(g.find("w"), 1);
  EXPECT_EQ(g.find("v"), -1);
}

TEST(Graph, RoundTripsBothForms) {
  const Graph g = small_graph();
  expect_equal(g, graph_from_json(to_json(g)));
  expect_equal(g, graph_from_binary(to_binary(g)));
}

TEST(Graph, SavesByTheSuffix) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("entrain_graph_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  for (const char* name : {"g.json", "g.pb"}) {
    save(small_graph(), folder / name);
    expect_equal(small_graph(), load(folder / name));
  }
  EXPECT_EQ(read_file(folder / "g.json").front(), '{');
  write_file_atomically(folder / "bad.json", R"({"variables": [{"name": "w", "shape": ["x"]}]})");
  EXPECT_THAT(message_of([&] { load(folder / "bad.json"); }),
              AllOf(HasSubstr("bad.json"), HasSubstr("shape")));
  std::filesystem::remove_all(folder);
}

// Scripts read these; protobuf itself would print "shape": ["16", "4"] and drop zeros.
TEST(Graph, JsonHasNumbersAndEveryField) {
  const auto json = nlohmann::json::parse(to_json(small_graph()));
  const auto& w = json["variables"][1];
  EXPECT_EQ(w["shape"], nlohmann::json::array({16, 4}));
  EXPECT_TRUE(w["shape"][0].is_number_integer());
  EXPECT_EQ(w["bytes"], 512);
  EXPECT_EQ(json["variables"][2]["ready_order"], 0);
  EXPECT_EQ(json["edges"][0]["to"], 1);
  for (const char* key : {"name", "dtype", "sparse", "forward_s", "backward_s", "flops", "rows_per_step"}) {
    EXPECT_TRUE(w.contains(key)) << key;
  }
}

TEST(Graph, ReadsInt64AsStringsToo) {
  const Graph g = graph_from_json(R"({"variables": [{"name": "w", "shape": ["3", 4], "bytes": "48"}]})");
  EXPECT_EQ(g.variables[0].bytes(), 48);
}

TEST(Graph, ErrorsNameTheField) {
  const auto json = [](const std::string& variables, const std::string& edges = "") {
    return message_of(
        [&] { graph_from_json("{\"variables\": [" + variables + "], \"edges\": [" + edges + "]}"); });
  };
  EXPECT_THAT(json(R"({"name": "w", "dtype": "int8"})"),
              AllOf(HasSubstr("w"), HasSubstr("int8"), HasSubstr("bfloat16")));
  EXPECT_THAT(json(R"({"name": "w", "shape": [-1]})"), HasSubstr("shape has -1"));
  EXPECT_THAT(json(R"({"name": "w", "shape": [4294967296, 4294967296]})"), HasSubstr("too many"));
  EXPECT_THAT(json(R"({"name": "w"}, {"name": "w"})"), HasSubstr("twice"));
  EXPECT_THAT(json(R"({"name": "w", "colour": 1})"), HasSubstr("colour"));
  EXPECT_THAT(json(R"({"name": "w"})", R"({"from": 0, "to": 1})"), HasSubstr("edges[0]"));
  EXPECT_THAT(message_of([] { graph_from_json("{"); }), Not(HasSubstr("\n")));
  EXPECT_THAT(message_of([] { graph_from_binary("\xff\xff"); }), HasSubstr("binary"));
}

}  // namespace
}  // namespace entrain::graph
