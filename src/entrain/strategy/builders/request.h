// What a user asks for where a strategy is wanted: a builder's name or a strategy file, with `+COMPRESSOR`
// behind it when gradients are to be compressed: "allreduce+fp16", "best.json+powersgd:8". The text is read
// once, where it comes in; from there on the request is a value, and a strategy as soon as G and D are known.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "entrain/strategy/compression.h"
#include "entrain/strategy/tuned_for.h"

namespace entrain::strategy {

class Request {
 public:
  // A file is read now, if it is there: a rank that only serves may lack it. Throws InputError for a text
  // that is neither a builder's name nor a file's, and for a file that cannot be understood.
  Request(const std::string&
              text);  // NOLINT(google-explicit-constructor): options hold requests, users write texts
  Request(const char* text) : Request(std::string(text)) {}  // NOLINT(google-explicit-constructor)

  const std::string& text() const { return text_; }  // as it was written
  bool is_builder() const { return file_.empty(); }
  const std::filesystem::path& file() const { return file_; }    // empty: a builder
  const std::string& compressor() const { return compressor_; }  // as it was written; empty: none named
  // What the file holds, whatever the model. Nothing: a builder, or the file is not on this host.
  const std::optional<Strategy>& stored() const { return stored_; }
  // Throws InputError where the file is not on this host.
  void check() const;
  std::optional<TunedFor> tuned_for() const { return tuned_for_; }

  // (G, D) -> S, complete and valid. The same seed gives the same strategy. Throws InputError.
  Strategy made_for(const graph::Graph& graph, const cluster::Cluster& cluster, uint64_t seed = 0) const;
  // The same where G is a part of the model: what a file says of other variables is left out.
  Strategy made_for_part(const graph::Graph& part, const cluster::Cluster& cluster, uint64_t seed = 0) const;

 private:
  std::string text_, name_, compressor_;
  std::filesystem::path file_;
  std::optional<Compression> compression_;  // none named: a file keeps its own; "+none" takes it away
  std::optional<Strategy> stored_;
  std::optional<TunedFor> tuned_for_;
};

// Where text, G and D meet.
inline Strategy load_or_build(const Request& request, const graph::Graph& graph,
                              const cluster::Cluster& cluster, uint64_t seed = 0) {
  return request.made_for(graph, cluster, seed);
}

}  // namespace entrain::strategy
