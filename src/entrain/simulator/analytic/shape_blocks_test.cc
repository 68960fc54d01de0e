#include "entrain/simulator/analytic/shape_blocks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "entrain/base/error.h"
#include "entrain/simulator/analytic/testing.h"

namespace entrain::simulator {
namespace {

using testing::slow_layers;

class ShapeBlocksTest : public ::testing::Test {
 protected:
  // "U F0/0 B0/0 ..." of a rank; numbers are seconds.
  std::string drawn(const std::string& shape, int rank, int64_t examples) {
    const std::vector<double> update(g.variables.size(), 0.5);
    const ShapedJob job(g, d, 1, update, examples);
    blocks.make(job, strategy::parse_shape(shape, static_cast<int>(g.layers.size())));
    std::string text;
    for (int b = blocks.first(rank); b < blocks.first(rank + 1); ++b) {
      const Block& block = blocks.blocks()[static_cast<size_t>(b)];
      const auto at = fmt::format("{}/{}", block.micro_batch, block.cell);
      if (!text.empty()) text += " ";
      text += block.kind == Block::Kind::kUpdate ? "U" : "UFRB"[static_cast<int>(block.kind)] + at;
      text += fmt::format(":{:.1f}", block.seconds);
    }
    return text;
  }
  int completes(int rank, int variable) const {
    return blocks.completes(rank, variable) - blocks.first(rank);
  }

  graph::Graph g = slow_layers(2);
  cluster::Cluster d = cluster::parse("lab:3x1gbit/speed=1");
  ShapeBlocks blocks;
};

TEST_F(ShapeBlocksTest, TheLastBackwardIsCutWhereGradientsAreComplete) {
  EXPECT_EQ(drawn("@1 m=2 remat=never", 1, 2), "U:1.0 F0/0:2.0 B0/0:4.0 F1/0:2.0 B1/0:2.0 B1/0:2.0");
  EXPECT_EQ(completes(1, 1), 4);
  EXPECT_EQ(completes(1, 0), 5);
  EXPECT_EQ(blocks.first(1), 0);
  EXPECT_EQ(blocks.first(2), blocks.first(3));
}

TEST_F(ShapeBlocksTest, LayersWithoutVariablesAreNotCutOff) {
  g.layers[1].variables.clear();
  EXPECT_EQ(drawn("@1 m=1 remat=never", 1, 1), "U:0.5 F0/0:2.0 B0/0:4.0");
  g.layers[0].variables.clear();
  g.layers[1].variables = {0, 1};
  EXPECT_EQ(drawn("@1 m=1 remat=never", 1, 1), "U:1.0 F0/0:2.0 B0/0:2.0 B0/0:2.0");
  EXPECT_EQ(completes(1, 0), 2);
}

TEST_F(ShapeBlocksTest, ATiedVariableIsCompleteWhenTheLastOfItsBackwardsIsThrough) {
  g = slow_layers(3);
  g.layers[2].variables = {0, 2};
  EXPECT_EQ(drawn("0@0 1@1 2@0 m=1 remat=never", 0, 1), "U:1.0 F0/0:1.0 F0/2:1.0 B0/2:2.0 B0/0:2.0");
  EXPECT_EQ(completes(0, 2), 3);
  EXPECT_EQ(completes(0, 0), 4);
  drawn("0@0 1-2@1 m=1 remat=never", 1, 1);
  EXPECT_LT(completes(1, 0), completes(1, 1));  // layer 2 of rank 1 reads it
}

TEST_F(ShapeBlocksTest, AVariableThatNoLayerReadsIsThereAtTheEnd) {
  g.layers[1].variables.clear();
  drawn("@0 m=1 remat=never", 0, 1);
  EXPECT_EQ(completes(0, 1), 2);
}

TEST_F(ShapeBlocksTest, RecomputingIsABlockThatNeedsNothing) {
  EXPECT_EQ(drawn("0@0 1@1 m=2 remat=except-last", 0, 2),
            "U:0.5 F0/0:1.0 F1/0:1.0 R0/0:1.0 B0/0:2.0 B1/0:2.0");
  EXPECT_EQ(blocks.blocks()[3].needs, 0);
  EXPECT_EQ(blocks.blocks()[4].needs, 1);
}

TEST_F(ShapeBlocksTest, ParcelsGoFromTheEndOfAPassToTheBeginningOfAnother) {
  drawn("0@0,1 1@2 m=2 remat=never", 2, 4);
  ASSERT_EQ(blocks.parcels().size(), 4u);
  for (const Parcel& parcel : blocks.parcels()) {
    EXPECT_EQ(parcel.bytes, 2 * g.layers[0].output_bytes);
    EXPECT_EQ(parcel.backward, parcel.from == 2);
    const Block& to = blocks.blocks()[static_cast<size_t>(parcel.block)];
    EXPECT_GE(parcel.block, blocks.first(parcel.to));
    EXPECT_LT(parcel.block, blocks.first(parcel.to + 1));
    EXPECT_EQ(to.micro_batch, parcel.micro_batch);
    EXPECT_EQ(to.cell, parcel.to_cell);
    EXPECT_EQ(to.kind, parcel.backward ? Block::Kind::kBackward : Block::Kind::kForward);
    EXPECT_EQ(to.needs, 1);
  }
}

TEST_F(ShapeBlocksTest, AnotherJobWithTheSameShapeIsMadeAnew) {
  EXPECT_EQ(drawn("@0 m=1 remat=never", 0, 1), "U:1.0 F0/0:2.0 B0/0:2.0 B0/0:2.0");
  EXPECT_EQ(drawn("@0 m=1 remat=never", 0, 2), "U:1.0 F0/0:4.0 B0/0:4.0 B0/0:4.0");
}

TEST_F(ShapeBlocksTest, AnUpdateWithoutExamplesIsRefused) {
  EXPECT_THROW(drawn("@0", 0, 0), InputError);
  g.layers.clear();
  EXPECT_THROW(LayerSums{g}, InputError);
}

}  // namespace
}  // namespace entrain::simulator
