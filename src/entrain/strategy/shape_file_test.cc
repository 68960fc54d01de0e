#include "entrain/strategy/shape_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "entrain/base/error.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/strategy/stored.h"
#include "support/temp_dir.h"

namespace entrain::strategy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ShapeFile : public ::testing::Test {
 protected:
  std::string file(const std::string& content, const std::string& name = "shape") const {
    const auto path = dir_.path() / name;
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }
  static std::string refusal(const std::string& given) {
    try {
      shape_from(given, 16);
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  }
  const Shape expected_ = parse_shape("0-12@0*.1,1-3*.3 13-15@0 m=10", 16);

 private:
  test::TempDir dir_;
};

TEST_F(ShapeFile, MayBeTheTextItself) {
  EXPECT_EQ(shape_from("0-12@0*.1,1-3*.3 13-15@0 m=10", 16), expected_);
  EXPECT_EQ(shape_from("@2", 16), parse_shape("@2", 16));
}

TEST_F(ShapeFile, MayHoldTextOverSeveralLinesWithComments) {
  EXPECT_EQ(shape_from(file("# hosts 1 to 3 are faster\n0-12@0*.1,1-3*.3\n\t13-15@0  # dense\r\nm=10\n"), 16),
            expected_);
}

TEST_F(ShapeFile, MayHoldJsonOfAShapeOrOfAStrategy) {
  const char* cells =
      R"({"cells": [{"begin": 0, "end": 13, "ranks": [0, 1, 2, 3], "shares": [0.1, 0.3, 0.3, 0.3]},
                                    {"begin": 13, "end": 16, "ranks": [0]}], "micro_batches": 10})";
  EXPECT_EQ(shape_from(file(cells), 16), expected_);
  Strategy strategy;
  strategy.shape = expected_;
  EXPECT_EQ(shape_from(file(to_json(strategy)), 16), expected_);
  EXPECT_EQ(shape_from(file(to_binary(strategy)), 16), expected_);
}

TEST_F(ShapeFile, ThatIsWrongIsNamedInOneLine) {
  const auto wrong = [&](const std::string& content) { return refusal(file(content)); };
  EXPECT_THAT(wrong("0-12@0 14-15@1"),
              AllOf(HasSubstr("shape: cell 1 begins at layer 14, allowed: 13"), HasSubstr("/shape: ")));
  EXPECT_THAT(wrong("@0*.5,1*.4"), HasSubstr("shares sum to 0.9, allowed: 1"));
  EXPECT_THAT(wrong(R"({"cells": [{"end": 16, "ranks": [0, 0]}]})"), HasSubstr("lists rank 0 twice"));
  EXPECT_THAT(wrong(R"({"cells": 3})"), HasSubstr("cells"));
  EXPECT_THAT(wrong(" \n"), HasSubstr("no shape there"));
  EXPECT_THAT(wrong(to_json(Strategy{})), HasSubstr("a strategy without a shape"));
  EXPECT_THAT(refusal("no/such/file"), HasSubstr("'no/such/file' is neither a file nor a shape"));
}

}  // namespace
}  // namespace entrain::strategy
