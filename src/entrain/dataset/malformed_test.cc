// Data sets that are wrong, each refused by one line that says how.
#include <gtest/gtest.h>

#include "entrain/dataset/gzip.h"
#include "entrain/dataset/record.h"
#include "entrain/dataset/testing.h"
#include "support/malformed.h"

namespace entrain::dataset {
namespace {

using test::expect_refused;

std::string domain_with(const std::string& graph, const std::string& cluster,
                        const std::string& settings = "{}") {
  return R"({"domain": "d", "graph": )" + graph + R"(, "cluster": )" + cluster + R"(, "settings": )" +
         settings + "}";
}
std::string trial_with(const std::string& fields) {
  return R"({"trial": 0, "of": "d", "strategy": {}, )" + fields + "}";
}

TEST(Malformed, RecordsOfDataSets) {
  const std::string cluster = R"("nodes: [{address: a}]")";
  expect_refused(
      {{"", "not JSON"},
       {"{", "not JSON"},
       {"[]", "not a JSON object"},
       {"3", "not a JSON object"},
       {"\xff", "not JSON"},
       {"{}", "\"domain\" or \"trial\" is missing"},
       {std::string(100'000, '['), "nested too deeply, allowed: 64"},
       {R"({"trial": )" + std::string(1'000'000, '['), "nested too deeply"},
       {R"({"a": ")" + std::string(20 << 20, 'x') + "\"}", "bytes, allowed: up to 16777216"},
       {R"({"domain": 3})", "\"domain\" is 3"},
       {R"({"domain": ""})", "\"domain\" is empty"},
       {R"({"domain": "d"})", "\"graph\" is missing"},
       {domain_with("[]", cluster), "\"graph\" is missing or no object"},
       {domain_with(R"({"variables": [{}]})", cluster), "name is empty"},
       {domain_with("{}", "3"), "\"cluster\" is 3"},
       {domain_with("{}", R"("{")"), "malformed YAML"},
       {domain_with("{}", R"("nodes: []")"), "nodes is missing or empty"},
       {domain_with("{}", cluster, "3"), "\"settings\" is missing or no object"},
       {domain_with("{}", cluster, R"({"batch_size": 1e300})"), "\"batch_size\" is 1e+300"},
       {domain_with("{}", cluster, R"({"batch_size": -1})"), "\"batch_size\" is -1"},
       {domain_with("{}", cluster, R"({"batch_size": "x"})"), "\"batch_size\" is"},
       {domain_with("{}", cluster, R"({"seed": -1})"), "\"seed\" is -1"},
       {domain_with("{}", cluster, R"({"seed": 0.5})"), "\"seed\" is 0.5"},
       {domain_with("{}", cluster, R"({"least_segment_bytes": 0})"), "\"least_segment_bytes\" is 0"},
       {domain_with("{}", cluster, R"({"machine": []})"), "\"machine\" is"},
       {R"({"trial": 0})", "\"of\" is missing"},
       {R"({"trial": -1, "of": "d", "strategy": {}})", "\"trial\" is -1"},
       {R"({"trial": 2147483648, "of": "d", "strategy": {}})", "\"trial\" is 2147483648"},
       {R"({"trial": 1e300, "of": "d", "strategy": {}})", "\"trial\" is 1e+300"},
       {R"({"trial": 0, "of": 1, "strategy": {}})", "\"of\" is 1"},
       {R"({"trial": 0, "of": "d"})", "\"strategy\" is missing"},
       {R"({"trial": 0, "of": "d", "strategy": {"node_config": [{}]}})", "var_name is empty"},
       {trial_with(R"("seconds": 3)"), "\"seconds\" is 3"},
       {trial_with(R"("seconds": ["x"])"), "\"seconds\" is"},
       {trial_with(R"("seconds": [null])"), "\"seconds\" is"},
       {trial_with(R"("seconds": [0])"), "\"seconds\" has 0"},
       {trial_with(R"("seconds": [-1])"), "\"seconds\" has -1"},
       {trial_with(R"("seconds": [1e400])"), "not JSON"},
       {trial_with(R"("status": "great")"), "\"status\" is \"great\""},
       {trial_with(R"("status": 3)"), "\"status\" is 3"},
       {trial_with(R"("error": {})"), "\"error\" is"}},
      parse_line);
}

TEST(Malformed, CompressedDataSets) {
  const std::string whole = gzip(std::string(30 << 20, '0'));
  expect_refused({{"", "ends early"},
                  {"plain", "not readable as gzip"},
                  {"\x1f\x8b", "ends early"},
                  {std::string("\x1f\x8b\x08\xff\xff\xff", 6), "not readable as gzip"},
                  {whole, "allowed: 100 times as much"},  // 30 MB in 30 KB
                  {whole + whole, "allowed: 100 times as much"},
                  {whole.substr(0, 5000), "ends early"}},
                 [](const std::string& bytes) { gunzip(bytes, "x.gz"); });
}

TEST(Malformed, ALineThatIsNestedDeeplyIsNotWhole) { EXPECT_FALSE(is_whole(std::string(1'000'000, '['))); }

}  // namespace
}  // namespace entrain::dataset
