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
  g.layers = {{"first", {0}, {{1, 0.1, 0.2}, {8, 0.5, 1.25}}, 64, 128}, {"none", {}}, {"last", {0, 1, 2}}};
  g.skips = {{0, 2, 32}};
  g.input_bytes = 16;
  return g;
}

void expect_equal(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.batch_size, b.batch_size);
  EXPECT_EQ(a.edges, b.edges);
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.skips, b.skips);
  EXPECT_EQ(a.input_bytes, b.input_bytes);
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
  EXPECT_EQ(g.find("embed"), 0);
  EXPECT_EQ(g.find("w"), 1);
  EXPECT_EQ(g.find("v"), -1);
}

TEST(Graph, ALayersTimeIsLinearBetweenMeasuredSizesAndInProportionBeyond) {
  const Layer layer{"l", {}, {{2, 0.1, 0.2}, {4, 0.3, 0.4}, {8, 0.4, 0.8}}};
  const auto expect = [&](int64_t examples, double forward_s, double backward_s) {
    const LayerTime time = layer.time_of(examples);
    EXPECT_EQ(time.examples, examples);
    EXPECT_DOUBLE_EQ(time.forward_s, forward_s) << examples;
    EXPECT_DOUBLE_EQ(time.backward_s, backward_s) << examples;
  };
  expect(1, 0.1, 0.2);  // a pass with fewer examples takes no less that anyone knows of
  expect(2, 0.1, 0.2);
  expect(3, 0.2, 0.3);
  expect(4, 0.3, 0.4);
  expect(6, 0.35, 0.6);
  expect(16, 0.8, 1.6);
}

TEST(Graph, BadLayersAreNamed) {
  Graph g = small_graph();
  g.layers[1].times = {{4, 1, 1}, {4, 2, 2}};
  EXPECT_NE(message_of([&] { graph_from_json(to_json(g)); }).find("layer none: times of 4 examples"),
            std::string::npos);
  g = small_graph();
  g.layers[1].times = {{4, -1, 1}};
  EXPECT_NE(message_of([&] { graph_from_json(to_json(g)); }).find("are -1 and 1"), std::string::npos);
  for (const Skip skip : {Skip{-1, 1, 4}, Skip{1, 1, 4}, Skip{0, 3, 4}}) {
    g = small_graph();
    g.skips = {skip};
    EXPECT_NE(message_of([&] { graph_from_json(to_json(g)); }).find("ascending indices of the 3 layers"),
              std::string::npos);
  }
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

TEST(Graph, VariablesMayBeEmptyAndAsLargeAsBytesCanCount) {
  const auto variable = [](const std::string& fields) {
    return graph_from_json(R"({"variables": [{"name": "w", )" + fields + "}]}").variables[0];
  };
  const Variable empty = variable(R"("shape": [0, 7], "sparse": true, "rows_per_step": 3)");
  EXPECT_EQ(empty.elements(), 0);
  EXPECT_EQ(empty.step_bytes(), 0);
  const Variable large = variable(R"("shape": ["576460752303423487"], "dtype": "float64")");
  EXPECT_EQ(large.bytes(), 576460752303423487 * 8);
  EXPECT_EQ(variable(R"("shape": [3], "dtype": "bfloat16")").bytes(), 6);
  EXPECT_EQ(variable(R"("shape": [3], "dtype": "float16")").bytes(), 6);
  EXPECT_EQ(variable(R"("shape": [1], "sparse": true, "rows_per_step": 1)").step_bytes(), 4 + 8);
}

TEST(Graph, VariablesOutOfRangeAreNamed) {
  const auto variable = [](const std::string& fields) {
    return message_of([&] { graph_from_json("{\"variables\": [{" + fields + "}]}"); });
  };
  EXPECT_THAT(variable(R"("shape": [1])"), HasSubstr("variables[0]: name is empty"));
  EXPECT_THAT(variable(R"("name": "w", "ready_order": -1)"), HasSubstr("ready_order is -1"));
  EXPECT_THAT(variable(R"("name": "w", "rows_per_step": -1)"), HasSubstr("rows_per_step is -1"));
  EXPECT_THAT(variable(R"("name": "w", "sparse": true)"), HasSubstr("sparse needs a shape"));
  EXPECT_THAT(variable(R"("name": "w", "shape": [1, 576460752303423488])"), HasSubstr("too many"));
}

TEST(Graph, BytesOfAnUnknownTypeAreAnError) {
  Variable v;
  v.name = "w";
  v.dtype = "int8";
  EXPECT_THAT(message_of([&] { v.bytes(); }), AllOf(HasSubstr("variable w"), HasSubstr("int8")));
}

TEST(Graph, EdgesAndLayersNameVariablesOnly) {
  const auto with = [](const std::string& rest) {
    return message_of(
        [&] { graph_from_json(R"({"variables": [{"name": "v"}, {"name": "w"}], )" + rest + "}"); });
  };
  for (const char* edge : {R"("from": -1, "to": 0)", R"("from": 2, "to": 0)", R"("from": 0, "to": -1)",
                           R"("from": 0, "to": 2)"}) {
    EXPECT_THAT(with(R"("edges": [{"from": 0, "to": 1}, {)" + std::string(edge) + "}]"),
                AllOf(HasSubstr("edges[1]"), HasSubstr("of the 2 variables")));
  }
  EXPECT_EQ(with(R"("edges": [{"from": 1, "to": 0}])"), "no InputError");
  for (const char* v : {"-1", "2"}) {
    EXPECT_THAT(with(R"("layers": [{"name": "l", "variables": [0, 1, )" + std::string(v) + "]}]"),
                HasSubstr("layer l: variable " + std::string(v)));
  }
}

TEST(Graph, TextThatIsNoUtf8IsWrittenAllTheSame) {
  Graph g = small_graph();
  g.model = "ti\xffny";
  EXPECT_EQ(nlohmann::json::parse(to_json(g))["variables"].size(), 3U);
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
  EXPECT_THAT(
      message_of([] {
        graph_from_json(R"({"variables": [{"name": "w"}], "layers": [{"name": "l", "variables": [1]}]})");
      }),
      HasSubstr("layer l: variable 1"));
  EXPECT_THAT(message_of([] { graph_from_json("{"); }), Not(HasSubstr("\n")));
  EXPECT_THAT(message_of([] { graph_from_binary("\xff\xff"); }), HasSubstr("binary"));
}

}  // namespace
}  // namespace entrain::graph
