// What was recorded is what is read, also from a file that a killed process left.
#include "entrain/dataset/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/dataset/record.h"
#include "entrain/dataset/testing.h"

namespace entrain::dataset {
namespace {

using ::testing::AllOf;
using testing::Folder;
using ::testing::HasSubstr;
using testing::small_domain;

void expect_same(const Domain& a, const Domain& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(graph::to_json(a.graph), graph::to_json(b.graph));
  EXPECT_EQ(cluster::to_yaml(a.cluster), cluster::to_yaml(b.cluster));
  EXPECT_EQ(a.settings, b.settings);
  EXPECT_EQ(a.trials, b.trials);
}

void expect_same(const Dataset& a, const Dataset& b) {
  ASSERT_EQ(a.domains.size(), b.domains.size());
  for (size_t i = 0; i < a.domains.size(); ++i) expect_same(a.domains[i], b.domains[i]);
}

Dataset two_domains() {
  return {{small_domain("ncf", "lab:4x1gbit"), small_domain("vgg16", "lab:2x1gbit+1x10gbit/server")}};
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string error_of(const std::filesystem::path& path) {
  try {
    load(path);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Dataset, SavedPlainOrCompressedIsLoadedAsItWas) {
  const Folder folder;
  const Dataset dataset = two_domains();
  EXPECT_EQ(dataset.records(), 20u);
  for (const char* name : {"a.jsonl", "a.jsonl.gz"}) {
    save(dataset, folder / name);
    expect_same(load(folder / name), dataset);
  }
  EXPECT_LT(5 * std::filesystem::file_size(folder / "a.jsonl.gz"),
            std::filesystem::file_size(folder / "a.jsonl"));
  const std::string first = read_file(folder / "a.jsonl.gz");
  save(dataset, folder / "a.jsonl.gz");
  EXPECT_EQ(read_file(folder / "a.jsonl.gz"), first) << "the same data gives the same file";
}

TEST(Dataset, AStepTakesTheMeanOfMostOfThem) {
  Trial trial;
  EXPECT_FALSE(trial.ok());
  EXPECT_THROW(trial.step_s(), Error);
  trial.seconds = {3, 1, 2};
  EXPECT_TRUE(trial.ok());
  EXPECT_EQ(trial.step_s(), 2);
  trial.seconds = {3, 1, 3, 1000, 2};
  EXPECT_NEAR(trial.step_s(), 8.0 / 3, 1e-12) << "a step that hung a while says nothing";
  trial.seconds = {1, 2, 3, 10};
  EXPECT_EQ(trial.step_s(), 4) << "of four none is left out";
  trial.seconds = {100, 1, 2, 3, 4, 5, 6, 7, 8, 0.001};
  EXPECT_EQ(trial.step_s(), 4.5) << "of ten two at each end";
  trial.status = Status::kDeadline;
  EXPECT_FALSE(trial.ok());
}

TEST(Dataset, ARecordOfAHundredPartsTakesAFewKilobytes) {
  Domain domain = small_domain("ncf", "lab:4x1gbit");
  domain.graph.variables = {testing::variable("fc.weight", {4000, 25000}, 0)};
  Trial trial;
  trial.strategy = strategy::build("byteps", domain.graph, domain.cluster);
  ASSERT_GT(trial.strategy.variables[0].parts.size(), 90u);
  EXPECT_LT(line_of(domain.name, trial).size(), 10'000u);
  EXPECT_THAT(line_of(domain.name, trial), HasSubstr("\"node_config\":[{\"var_name\":\"fc.weight\""));
}

// The shipped data set does not say how its messages were cut.
TEST(Dataset, WithoutASegmentSizeItIsThatOfItsTime) {
  Domain domain = small_domain("ncf", "lab:4x1gbit");
  domain.settings.least_segment_bytes = 1234;
  const std::string line = line_of(domain);
  EXPECT_EQ(std::get<Domain>(parse_line(line)).settings.least_segment_bytes, 1234);
  auto json = nlohmann::json::parse(line);
  json["settings"].erase("least_segment_bytes");
  EXPECT_EQ(std::get<Domain>(parse_line(json.dump())).settings.least_segment_bytes, 512 << 10);
}

TEST(Dataset, LogWithACutOffLastLineLosesOnlyThatLine) {
  const Folder folder;
  const Domain domain = small_domain("ncf", "lab:4x1gbit");
  {
    TrialLog log(folder / "log.jsonl");
    log.begin(domain);
    for (int i = 0; i < 3; ++i) log.append(domain.name, domain.trials[i]);
  }
  const std::string whole = read_file(folder / "log.jsonl");
  const size_t third = whole.rfind('\n', whole.size() - 2) + 1;
  for (size_t length = third; length <= whole.size(); length += length + 20 < whole.size() ? 13 : 1) {
    write(folder / "cut.jsonl", whole.substr(0, length));
    const size_t kept = length + 1 >= whole.size() ? 3 : 2;  // without the line's end it is still whole
    const Dataset loaded = load(folder / "cut.jsonl");
    ASSERT_EQ(loaded.records(), kept) << "cut at byte " << length << " of " << whole.size();
    {
      TrialLog log(folder / "cut.jsonl");  // the next run goes on after the last whole line
      log.begin(domain);
      log.append(domain.name, domain.trials[4]);
    }
    const Dataset resumed = load(folder / "cut.jsonl");
    ASSERT_EQ(resumed.records(), kept + 1);
    EXPECT_EQ(resumed.domains[0].trials.back(), domain.trials[4]);
  }
}

TEST(Dataset, FolderJoinsDomainsAndCountsARecordOnce) {
  const Folder folder;
  const Dataset dataset = two_domains();
  save(dataset, folder / "a.jsonl");
  save(dataset, folder / "copy.jsonl.gz");
  write(folder / "notes.txt", "not a record\n");
  std::filesystem::create_directory(folder / "old.jsonl");
  expect_same(load(folder.path()), dataset);

  Dataset other = dataset;
  other.domains.pop_back();
  for (Trial& trial : other.domains[0].trials) trial.seconds = {1};
  save(other, folder / "z.jsonl");
  const Dataset joined = load(folder.path());
  ASSERT_EQ(joined.records(), 30u);
  const auto& trials = joined.find("ncf@lab:4x1gbit")->trials;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(trials[i].number, i) << "the second log goes on counting";
}

TEST(Dataset, BadLinesAreNamedByFileAndLine) {
  const Folder folder;
  const std::string domain = line_of(small_domain("ncf", "lab:4x1gbit")) + "\n";
  const std::string of = R"("of": "ncf@lab:4x1gbit")";
  const std::pair<std::string, std::string> cases[] = {
      {"{\"trial\": 0,\n", "not JSON"},
      {"[]\n", "not a JSON object"},
      {"{\"trail\": 0}\n", "\"domain\" or \"trial\" is missing"},
      {"{\"trial\": \"x\", " + of + "}\n", "field \"trial\" is \"x\", allowed: 0, 1, ..."},
      {"{\"trial\": 0, \"of\": \"else\", \"strategy\": {}}\n", "field \"of\" is \"else\""},
      {"{\"trial\": 0, " + of + "}\n", "field \"strategy\" is missing"},
      {"{\"trial\": 0, " + of + ", \"strategy\": {\"ID\": 1}}\n", "not a strategy in JSON"},
      {"{\"trial\": 0, " + of + ", \"strategy\": {}, \"seconds\": [0]}\n", "field \"seconds\" has 0"},
      {"{\"trial\": 0, " + of + ", \"strategy\": {}, \"seconds\": [null]}\n", "field \"seconds\" is [null]"},
      {"{\"trial\": 0, " + of + ", \"strategy\": {}, \"status\": \"good\"}\n",
       "allowed: ok, failed, deadline"},
      {"{\"domain\": \"d\", \"graph\": {}, \"cluster\": \"nodes: 3\"}\n", "nodes must be a list"},
  };
  for (const auto& [line, expected] : cases) {
    write(folder / "bad.jsonl", domain + "\n" + line);
    EXPECT_THAT(error_of(folder / "bad.jsonl"), AllOf(HasSubstr("bad.jsonl:3: "), HasSubstr(expected)));
  }
  Domain changed = small_domain("ncf", "lab:4x1gbit");
  changed.graph.variables.pop_back();
  changed.graph.edges.pop_back();
  write(folder / "bad.jsonl", domain + line_of(changed) + "\n");
  EXPECT_THAT(error_of(folder / "bad.jsonl"),
              AllOf(HasSubstr("bad.jsonl:2: "), HasSubstr("other variables")));
}

TEST(Dataset, ADomainIsTheSameByItsVariablesAndRanks) {
  const Folder folder;
  const Domain first = small_domain("ncf", "lab:4x1gbit");
  const auto joined_with = [&](const Domain& second) {
    write(folder / "two.jsonl", line_of(first) + "\n" + line_of(second) + "\n");
    return error_of(folder / "two.jsonl");
  };
  Domain again = first;
  again.graph.variables[0].backward_s = 7;  // profiled again
  again.cluster.links = {{0, 1, 0.5, 1e-4}};
  EXPECT_EQ(joined_with(again), "no error");
  EXPECT_EQ(load(folder / "two.jsonl").domains[0].graph.variables[0].backward_s,
            first.graph.variables[0].backward_s);
  again = first;
  again.graph.variables[1].shape = {1, 2};
  EXPECT_THAT(joined_with(again), HasSubstr("other variables"));
  again = first;
  again.graph.variables[1].name = "other";
  EXPECT_THAT(joined_with(again), HasSubstr("other variables"));
  again = first;
  again.cluster = cluster::parse("lab:3x1gbit");
  EXPECT_THAT(joined_with(again), HasSubstr("has 3 ranks, before 4"));
}

TEST(Dataset, TrialsContinueOnlyThoseOfTheSameKind) {
  const Domain domain = small_domain("ncf", "lab:4x1gbit");
  const auto error = [&](const Settings& now) -> std::string {
    try {
      check_continues(domain, now);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  Settings now = domain.settings;
  now.batch_size = 99;
  EXPECT_EQ(error(now), "");
  now.compute = "real";
  EXPECT_EQ(error(now), "ncf@lab:4x1gbit: its trials are of compute replay, not real");
  now = domain.settings;
  now.seed = 8;
  EXPECT_EQ(error(now), "ncf@lab:4x1gbit: its trials are of `seed` 7, not 8");
}

TEST(Dataset, UnknownKeysAreLeftAlone) {
  const Folder folder;
  const std::string line =
      R"({"trial": 3, "of": "ncf@lab:4x1gbit", "strategy": {"id": "s"}, "weather": [1]})";
  write(folder / "new.jsonl", line_of(small_domain("ncf", "lab:4x1gbit")) + "\n" + line + "\n");
  const Dataset dataset = load(folder / "new.jsonl");
  ASSERT_EQ(dataset.records(), 1u);
  EXPECT_EQ(dataset.domains[0].trials[0].strategy.id, "s");
  EXPECT_EQ(dataset.domains[0].trials[0].status, Status::kOk);
}

TEST(Dataset, WhatCannotBeReadOrAppendedIsSaid) {
  const Folder folder;
  EXPECT_THAT(error_of(folder.path()), HasSubstr("no data set in this folder"));
  EXPECT_THAT(error_of(folder / "none.jsonl"), HasSubstr("none.jsonl"));
  EXPECT_THROW(TrialLog(folder / "log.jsonl.gz"), InputError);
}

}  // namespace
}  // namespace entrain::dataset
