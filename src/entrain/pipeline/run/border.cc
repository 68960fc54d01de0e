#include "entrain/pipeline/run/border.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "entrain/base/error.h"

namespace entrain::pipeline {
namespace {

std::vector<size_t> matching(const std::vector<Edge>& edges, int Edge::*end, int cell) {
  std::vector<size_t> result;
  for (size_t e = 0; e < edges.size(); ++e) {
    if (edges[e].*end == cell) result.push_back(e);
  }
  return result;
}

}  // namespace

std::vector<size_t> Cut::into(int cell) const { return matching(edges, &Edge::to, cell); }
std::vector<size_t> Cut::out_of(int cell) const { return matching(edges, &Edge::from, cell); }

Cut cut(const std::vector<layers::Layer>& layers, const std::vector<int>& balance) {
  const auto count = static_cast<int>(layers.size());
  const bool empty = std::any_of(balance.begin(), balance.end(), [](int n) { return n < 1; });
  if (balance.empty() || empty || std::accumulate(balance.begin(), balance.end(), 0) != count) {
    bad_input("balance {} does not cut {} layers into cells of one layer or more", fmt::join(balance, ","),
              count);
  }
  layers::check_skips(layers);
  Cut result;
  result.first = {0};
  for (const int n : balance) result.first.push_back(result.first.back() + n);
  for (int cell = 0; cell + 1 < result.cells(); ++cell) result.edges.push_back({cell, cell + 1});
  std::map<std::string, int> stashed;  // skip: the cell
  for (int cell = 0; cell < result.cells(); ++cell) {
    for (int i = result.first[cell]; i < result.first[cell + 1]; ++i) {
      for (const std::string& skip : layers[i].pops) {
        if (stashed[skip] != cell) result.edges.push_back({stashed[skip], cell, skip});
      }
      for (const std::string& skip : layers[i].stashes) stashed[skip] = cell;
    }
  }
  return result;
}

}  // namespace entrain::pipeline
