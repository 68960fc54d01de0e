// `entrain dataset stats|split|import|export`, run in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "collect_verb.h"
#include "entrain/base/error.h"
#include "entrain/dataset/testing.h"
#include "support/verb_output.h"
#include "verbs.h"

namespace entrain::app {

namespace dataset_verb {
void add_dataset(CLI::App& app, Action& action);
}
namespace collect_verb {
void add_dataset_collect(CLI::App&, Action&) {}  // needs ranks, and torch
}  // namespace collect_verb

namespace {

using dataset::testing::Folder;
using dataset::testing::small_domain;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// Its stdout. Throws what the verb throws.
std::string run(const std::string& arguments) {
  const auto output = testing::run_verb({dataset_verb::add_dataset}, "dataset " + arguments);
  EXPECT_EQ(output.code, 0);
  return output.text;
}

class DatasetVerb : public ::testing::Test {
 protected:
  DatasetVerb() {
    dataset::save({{small_domain("ncf", "lab:4x1gbit"), small_domain("vgg16", "lab:4x1gbit")}},
                  folder_ / "a.jsonl");
    dataset::save({{small_domain("vgg16", "lab:2x1gbit")}}, folder_ / "b.jsonl.gz");
  }
  std::string in(const std::string& name) const { return (folder_ / name).string(); }

  Folder folder_;
};

TEST_F(DatasetVerb, StatsHasTheNamesThatScriptsRelyOn) {
  const Json json = Json::parse(run("stats --json " + in("a.jsonl") + " " + in("b.jsonl.gz")));
  EXPECT_EQ(json.at("records"), 30);
  EXPECT_EQ(json.at("models"), 2);
  EXPECT_EQ(json.at("clusters"), 2);
  EXPECT_EQ(json.at("domains").size(), 3u);
  EXPECT_EQ(json.at("domains")[0].at("statuses").at("failed"), 1);
  EXPECT_EQ(Json::parse(run("stats --json " + folder_.path().string())).at("records"), 30)
      << "a folder is taken, too";
}

TEST_F(DatasetVerb, StatsTableNamesEveryDomain) {
  const std::string text = run("stats " + in("a.jsonl"));
  EXPECT_THAT(text, HasSubstr("20 records of 2 models on 1 clusters, 2 failed, 18 ok"));
  EXPECT_THAT(text, HasSubstr("vgg16@lab:4x1gbit"));
}

TEST_F(DatasetVerb, SplitWritesThreeFilesThatHoldEverything) {
  const Json json = Json::parse(run("split " + in("a.jsonl") + " --seed 3 --json --out " + in("parts")));
  size_t sum = 0;
  for (const char* part : {"training", "validation", "test"}) {
    const size_t records = dataset::load(json.at(part).at("file").get<std::string>()).records();
    EXPECT_EQ(json.at(part).at("records"), records);
    sum += records;
  }
  EXPECT_EQ(sum, 20u);
  run("split " + in("a.jsonl") + " --hold-out-model ncf --out " + in("held"));
  EXPECT_EQ(dataset::load(in("held/test.jsonl.gz")).domains.size(), 1u);
}

TEST_F(DatasetVerb, ExportJoinsFilesAndWritesTables) {
  run("export " + in("a.jsonl") + " " + in("b.jsonl.gz") + " --out " + in("all.jsonl.gz"));
  EXPECT_EQ(dataset::load(in("all.jsonl.gz")).records(), 30u);
  run("export " + in("a.jsonl") + " --out " + in("a.csv"));
  EXPECT_THAT(read_file(in("a.csv")),
              HasSubstr("domain,trial,id,origin,status,seconds\nncf@lab:4x1gbit,0,ps,"));
}

TEST_F(DatasetVerb, AutoDistsLayoutThereAndBack) {
  run("export " + in("a.jsonl") + " --autodist " + in("layout"));
  run("import --autodist " + in("layout") + " " + in("b.jsonl.gz") + " --out " + in("back.jsonl"));
  EXPECT_EQ(dataset::load(in("back.jsonl")).records(), 28u)
      << "2 x 9 good ones, and the 10 of the other file";
}

TEST_F(DatasetVerb, BadInputIsNamed) {
  EXPECT_THROW(run("stats"), InputError);
  EXPECT_THROW(run("stats " + in("none.jsonl")), InputError);
  EXPECT_THROW(run("export " + in("a.jsonl")), InputError);
  EXPECT_THROW(run("export " + in("a.jsonl") + " --out " + in("a.txt")), InputError);
  EXPECT_THROW(run("import --autodist " + in("nowhere") + " --out " + in("x.jsonl")), InputError);
  EXPECT_THROW(run("split " + in("a.jsonl") + " --hold-out-model bert --out " + in("p")), InputError);
}

}  // namespace
}  // namespace entrain::app
