#include "entrain/base/trace.h"

#include <gtest/gtest.h>

namespace entrain {
namespace {

using Json = nlohmann::json;

TEST(Trace, TimesAreMicrosecondsAndNamesAreMetadata) {
  Trace trace;
  trace.name_process(1, "ps");
  trace.name_thread(1, 2, "link");
  trace.add(1, 2, "fc1", 0.5, 0.75);
  trace.add(1, 2, "B0", 1, 3, "backward");
  const auto document = Json::parse(trace.document());
  EXPECT_EQ(document.at("displayTimeUnit"), "ms");
  const Json expected = {
      {{"ph", "M"}, {"name", "process_name"}, {"pid", 1}, {"tid", 0}, {"args", {{"name", "ps"}}}},
      {{"ph", "M"}, {"name", "thread_name"}, {"pid", 1}, {"tid", 2}, {"args", {{"name", "link"}}}},
      {{"ph", "X"}, {"name", "fc1"}, {"pid", 1}, {"tid", 2}, {"ts", 0.5e6}, {"dur", 0.25e6}},
      {{"ph", "X"}, {"name", "B0"}, {"pid", 1}, {"tid", 2}, {"ts", 1e6}, {"dur", 2e6}, {"cat", "backward"}}};
  EXPECT_EQ(document.at("traceEvents"), expected);
}

TEST(Trace, OfNothingHasNoEvents) { EXPECT_TRUE(Json::parse(Trace().document()).at("traceEvents").empty()); }

}  // namespace
}  // namespace entrain
