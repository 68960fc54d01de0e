#include "entrain/cluster/environment.h"

#include <cstdlib>

#include "entrain/base/error.h"

namespace entrain::cluster {
namespace {

constexpr size_t kPiece = 100'000;  // bytes of a variable
constexpr size_t kMost = 900'000;  // of all; the rest of a program's environment and arguments need room, too

std::string name_of_piece(size_t i) {
  return i == 0 ? "ENTRAIN_CLUSTER_TEXT" : fmt::format("ENTRAIN_CLUSTER_TEXT_{}", i);
}

}  // namespace

std::vector<std::string> to_environment(const Cluster& cluster) {
  const std::string text = to_yaml(cluster);
  if (text.size() > kMost) {
    bad_input("cluster {}: {} bytes as text; at most {} can be sent to other hosts. Leave out its links",
              cluster.name, text.size(), kMost);
  }
  std::vector<std::string> variables;
  for (size_t i = 0; i * kPiece < text.size(); ++i) {
    variables.push_back(name_of_piece(i) + "=" + text.substr(i * kPiece, kPiece));
  }
  return variables;
}

std::optional<Cluster> from_environment() {
  std::string text;
  for (size_t i = 0; const char* piece = std::getenv(name_of_piece(i).c_str()); ++i) text += piece;
  if (text.empty()) return std::nullopt;
  return cluster_from_yaml(text, "ENTRAIN_CLUSTER_TEXT");
}

}  // namespace entrain::cluster
