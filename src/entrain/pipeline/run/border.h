// Where a sequence is cut: which layers make which cell, and which values cross from cell to cell.
#pragma once

#include <string>
#include <vector>

#include "entrain/layers/layer.h"

namespace entrain::pipeline {

// A value that crosses: the flow from a cell to the next, or a skip from its producer straight to its
// consumer.
struct Edge {
  int from;
  int to;
  std::string skip = {};  // empty: the flow

  friend bool operator==(const Edge&, const Edge&) = default;
};

struct Cut {
  std::vector<int> first;   // by cell: its first layer; one more: the number of layers
  std::vector<Edge> edges;  // an edge's number is its place here, the same on every rank

  int cells() const { return static_cast<int>(first.size()) - 1; }
  // Numbers of the edges that end or begin at a cell, ascending. The flow is the first.
  std::vector<size_t> into(int cell) const;
  std::vector<size_t> out_of(int cell) const;
};

// `balance`: layers a cell. Throws InputError when it is no cut of these layers, or a skip is misused.
Cut cut(const std::vector<layers::Layer>& layers, const std::vector<int>& balance);

}  // namespace entrain::pipeline
