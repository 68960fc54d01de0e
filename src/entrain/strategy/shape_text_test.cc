#include "entrain/strategy/shape_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/base/error.h"

namespace entrain::strategy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kLayers = 16;

std::string error_of(const std::string& text) {
  try {
    parse_shape(text, kLayers);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no InputError";
}

TEST(ShapeText, ACellWithoutLayersHasThemAll) {
  EXPECT_EQ(parse_shape("@0-3", kLayers), (Shape{{{0, 16, {0, 1, 2, 3}}}}));
  EXPECT_EQ(parse_shape("@2", kLayers), (Shape{{{0, 16, {2}}}}));
}

TEST(ShapeText, CellsKeepTheOrderOfTheirRanks) {
  EXPECT_EQ(parse_shape("0-7@2,0 8-15@1,3;m=8", kLayers), (Shape{{{0, 8, {2, 0}}, {8, 16, {1, 3}}}, 8}));
}

TEST(ShapeText, SharesStandBehindTheirRanks) {
  EXPECT_EQ(parse_shape("0-12@0*.1,1-3*.3 13-15@0 m=10", kLayers),
            (Shape{{{0, 13, {0, 1, 2, 3}, {.1, .3, .3, .3}}, {13, 16, {0}}}, 10}));
}

TEST(ShapeText, SettingsAreNamed) {
  const Shape shape = parse_shape("@0 m=4 schedule=gpipe remat=always", kLayers);
  EXPECT_EQ(shape.micro_batches, 4);
  EXPECT_EQ(shape.schedule, "gpipe");
  EXPECT_EQ(shape.remat, pipeline::Remat::kAlways);
}

TEST(ShapeText, WhatIsWrittenIsReadBack) {
  for (const char* text : {"@0-3", "0-7@0,2 8-15@1,3 m=8", "0-12@0*0.1,1-3*0.3 13-15@0 m=10",
                           "0@0 1-15@1 m=2 schedule=gpipe remat=never"}) {
    EXPECT_EQ(to_text(parse_shape(text, kLayers)), text);
  }
}

TEST(ShapeText, RefusesWhatCannotBeReadByNamingThePart) {
  for (const char* part :
       {"0-x@1", "3-1@0", "0-7@", "0-7@0,", "@0*x", "m", "m=", "m=x", "speed=2", "@0-9999999"}) {
    EXPECT_THAT(error_of(part), AllOf(HasSubstr(std::string("'") + part + "'"), HasSubstr("allowed:")))
        << part;
  }
}

TEST(ShapeText, RefusesAShapeThatCannotBe) {
  EXPECT_THAT(error_of("0-7@0 9-15@1"), HasSubstr("begins at layer 9"));
  EXPECT_THAT(error_of(""), HasSubstr("no cells"));
  EXPECT_THAT(error_of("@0 remat=some"),
              AllOf(HasSubstr("remat is 'some'"), HasSubstr("allowed: never, except-last, always")));
}

}  // namespace
}  // namespace entrain::strategy
