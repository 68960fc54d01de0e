// Compressors: what a dense gradient becomes on its way, chosen for a whole strategy.
//
//   none      as it is
//   fp16      16-bit floats on the wire, sums in float32: half the bytes
//   fp16-ef   the same with error feedback: what rounding takes from a worker's gradient it adds to the next
//   bf16      8 bits of mantissa, the exponents of float32: for gradients beyond 65504
//   powersgd  P Q^T of rank r for the matrix M (Vogels et al. 2019): r (n + m) numbers for n m, warm start,
//             error feedback; all-reduce only; variables that would not shrink travel as they are
//   topk      the share of the elements with the largest magnitude, error feedback; all-gather of
//             (index, value), so 12 bytes for each element and other worker
//
// All but none change the update: results equal those of an uncompressed run only in expectation.
#pragma once

#include <string>
#include <string_view>

#include "entrain/graph/graph.h"
#include "entrain/strategy/strategy.h"

namespace entrain::strategy {

std::string_view name_of(Compressor compressor);

// True for those whose bytes are the gradient's with fewer bits (fp16, fp16-ef, bf16).
bool is_cast(Compressor compressor);
bool has_error_feedback(Compressor compressor);

struct Compression {
  Compressor compressor = Compressor::kNone;
  int rank = 4;         // powersgd
  double share = 0.01;  // topk
  friend bool operator==(const Compression&, const Compression&) = default;
};

// True for a name that parse_compression() knows, whatever its setting.
bool is_compressor(std::string_view text);

// "none", "fp16", "fp16-ef", "bf16", "powersgd", "powersgd:8", "topk", "topk:0.001"; throws InputError.
Compression parse_compression(const std::string& text);

// What a part's synchronizer does.
Compression compression_of(const AllReduce& all_reduce);
void set_compression(Synchronizer& synchronizer, const Compression& compression);

// The strategy with every dense float32 part compressed so. Parameter servers know casts only: with powersgd
// or topk, parts that a server sums stay as they are.
Strategy compressed(Strategy strategy, const graph::Graph& graph, const Compression& compression);

// Numbers that PowerSGD sends for an [n, m] matrix: r (n + m), or n m when that is not more.
int64_t low_rank_elements(int64_t n, int64_t m, int rank);

}  // namespace entrain::strategy
