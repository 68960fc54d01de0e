#include "entrain/parallel/compared_state.h"

#include <fmt/ranges.h>

#include <array>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/job/control.h"
#include "entrain/transport/control_tags.h"

namespace entrain::parallel {
namespace {

constexpr const char* kWhat = "comparison of parameters";
constexpr int kPlanSet = -1;
constexpr const char* kPlanName = "the plan of the messages";

// Odd, with bits all over: 2^64 / the golden ratio.
constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;

uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * kFactor;
  return hash ^ (hash >> 32);
}

// Every step is a bijection of the hash, so one word that differs always shows. Four chains, so that memory
// and not the multiplications take the time.
uint64_t hash_of(const std::byte* data, size_t size) {
  std::array<uint64_t, 4> lanes = {1, 2, 3, 4};
  size_t at = 0;
  for (; size - at >= sizeof(lanes); at += sizeof(lanes)) {
    std::array<uint64_t, 4> words{};
    std::memcpy(words.data(), data + at, sizeof(words));
    for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = mixed(lanes[i], words[i]);
  }
  std::array<uint64_t, 4> rest{};
  std::memcpy(rest.data(), data + at, size - at);
  uint64_t hash = size;
  for (size_t i = 0; i < lanes.size(); ++i) hash = mixed(hash, mixed(lanes[i], rest[i]));
  return hash;
}

// By set; `hashes`: by value.
std::string text_of_sets(const std::vector<HeldValue>& held, const std::vector<uint64_t>& hashes,
                         uint64_t plan) {
  std::map<int64_t, uint64_t> sets = {{kPlanSet, plan}};
  for (size_t i = 0; i < held.size(); ++i) {
    uint64_t& hash = sets.try_emplace(held[i].set, 0).first->second;
    hash = mixed(hash, hashes[i]);
  }
  std::string text;
  for (const auto& [set, hash] : sets) {
    text.append(reinterpret_cast<const char*>(&set), sizeof(set));
    text.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
  }
  return text;
}

bool sets_agree(const std::vector<std::string>& texts) {
  std::map<int64_t, uint64_t> first;
  for (const std::string& text : texts) {
    for (size_t at = 0; text.size() - at >= 16; at += 16) {
      int64_t set = 0;
      uint64_t hash = 0;
      std::memcpy(&set, text.data() + at, sizeof(set));
      std::memcpy(&hash, text.data() + at + 8, sizeof(hash));
      if (first.try_emplace(set, hash).first->second != hash) return false;
    }
  }
  return true;
}

// Those whose hash is not that of more than half of the ranks; all of them when there is no such hash.
std::vector<int> odd_ranks(const std::map<int, uint64_t>& hash_by_rank) {
  std::map<uint64_t, size_t> counts;
  for (const auto& [rank, hash] : hash_by_rank) ++counts[hash];
  std::vector<int> odd;
  for (const auto& [rank, hash] : hash_by_rank) {
    if (2 * counts[hash] <= hash_by_rank.size()) odd.push_back(rank);
  }
  return odd;
}

std::string verdict(const job::Context& context, const std::vector<std::string>& texts) {
  const std::vector<int> workers = context.cluster.worker_ranks();
  std::map<std::string, std::map<int, uint64_t>> hashes;
  for (size_t w = 0; w < texts.size(); ++w) {
    const auto by_name = nlohmann::json::parse(texts[w]);
    for (const auto& [name, hash] : by_name.items()) {
      hashes[name][workers[w]] = hash.get<uint64_t>();
    }
  }
  std::string text;
  size_t more = 0;
  for (const auto& [name, hash_by_rank] : hashes) {
    const std::vector<int> odd = odd_ranks(hash_by_rank);
    if (odd.empty()) continue;
    if (!text.empty()) {
      ++more;
      continue;
    }
    const bool all = odd.size() == hash_by_rank.size();
    text = fmt::format("{} {} {}in {}", odd.size() == 1 ? "rank" : "ranks", fmt::join(odd, ", "),
                       all               ? "differ "
                       : odd.size() == 1 ? "differs from most others "
                                         : "differ from most others ",
                       name);
  }
  return more == 0 ? text : fmt::format("{} (and {} more)", text, more);
}

}  // namespace

uint64_t hash_of(const torch::Tensor& tensor) {
  const torch::Tensor host = tensor.detach().to(torch::kCPU).contiguous();
  return hash_of(static_cast<const std::byte*>(host.data_ptr()), host.nbytes());
}

uint64_t hash_of(const plan::Plan& plan) {
  uint64_t hash = plan.messages.size();
  const auto add = [&](auto value) { hash = mixed(hash, static_cast<uint64_t>(value)); };
  for (const plan::Message& message : plan.messages) {
    add(message.exchange);
    add(message.priority);
    add(message.type);
    add(message.root);
    add(message.compressor);
    add(message.rank);
    for (const int rank : *message.ranks) add(rank);
    for (const plan::Slice& slice : message.slices) {
      add(slice.variable);
      add(slice.axis);
      add(slice.begin);
      add(slice.end);
    }
    if (!message.schedule) continue;
    for (const auto& transfer : message.schedule->transfers) {
      add(transfer.from);
      add(transfer.to);
    }
  }
  return hash;
}

void compare_state(job::Context& context, int64_t step, const std::vector<HeldValue>& held,
                   const plan::Plan& plan) {
  if (context.workers() == 1) return;
  std::vector<uint64_t> hashes;
  for (const HeldValue& value : held) hashes.push_back(hash_of(value.tensor));
  const uint64_t plan_hash = hash_of(plan);
  const auto sets =
      job::exchange(context, text_of_sets(held, hashes, plan_hash), transport::tags::kStateHashes, kWhat);
  if (sets_agree(sets)) return;
  nlohmann::json by_name = {{kPlanName, plan_hash}};
  for (size_t i = 0; i < held.size(); ++i) by_name[held[i].name] = hashes[i];
  const auto texts = job::exchange(context, by_name.dump(), transport::tags::kStateHashes, kWhat);
  fail("step {}: {}, which all ranks should hold alike: a fault of a host's memory, processor or link", step,
       verdict(context, texts));
}

}  // namespace entrain::parallel
