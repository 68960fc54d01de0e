#include "entrain/train/common_saves.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/job/control.h"
#include "entrain/transport/control_tags.h"

namespace entrain::train {
namespace {

using optim::Channel;

constexpr double kGoneSilent_s = 5;  // of a process that says something every second
constexpr const char* kMembers = "members";

enum Kind { kSave, kLastSave, kComplete, kSaved };  // of a message; its number: the save's

// A save, and the complete one before it (-1: none).
struct Complete {
  int64_t number, former;
};

std::vector<int> without(std::vector<int> ranks, int rank) {
  std::erase(ranks, rank);
  return ranks;
}

}  // namespace

// Filled on the transport's thread.
struct CommonSaves::Heard {
  std::mutex mutex;  // guards the group below
  std::condition_variable changed;
  std::map<int64_t, std::set<int>> saved;  // at rank 0: who has, by number
  std::set<int> ended;                     // at rank 0: lost, or at their end
  std::optional<Order> order;              // elsewhere: the newest, not given out yet
  std::optional<Complete> complete;        // likewise
  bool rank0_ended = false, rank0_lost = false;

  void take(int peer, const optim::Heading& heading) {
    const std::lock_guard lock(mutex);
    if (heading.kind == kSaved) saved[heading.number].insert(peer);
    if (heading.kind == kSave || heading.kind == kLastSave) {
      order = Order{heading.number, heading.kind == kLastSave};
    }
    if (heading.kind == kComplete) complete = Complete{heading.number, static_cast<int64_t>(heading.value)};
    changed.notify_all();
  }
  void end(int peer, bool lost) {
    const std::lock_guard lock(mutex);
    ended.insert(peer);
    (lost ? rank0_lost : rank0_ended) = true;
    changed.notify_all();
  }
};

CommonSaves::CommonSaves(job::Context& context, std::filesystem::path folder, std::optional<int64_t> complete)
    : context_(context),
      others_(without(context.cluster.worker_ranks(), context.rank())),
      folder_(std::move(folder)),
      complete_(complete),
      heard_(std::make_shared<Heard>()) {
  const bool first = context.rank() == 0;
  inbox_ = std::make_unique<optim::Inbox>(
      *context.transport, first ? others_ : std::vector<int>{0},
      first ? Channel::kSaveReport : Channel::kSaveOrder,
      [heard = heard_](int peer, transport::Payload message) {
        heard->take(peer, optim::heading_of(message));
      },
      [heard = heard_](int peer, bool lost) { heard->end(peer, lost); });
}

CommonSaves::~CommonSaves() = default;

std::vector<int> CommonSaves::begin(int64_t number, bool tell, bool last) {
  std::vector<int> members = {0};
  {
    const std::lock_guard lock(heard_->mutex);
    for (const int rank : others_) {
      // Synchronous rules end with a worker that is lost, if not at once: what is saved until then is not
      // whole.
      const bool there =
          !tell || (!heard_->ended.contains(rank) && context_.transport->silence_s(rank) < kGoneSilent_s);
      if (there) members.push_back(rank);
    }
  }
  members_[number] = {members.begin(), members.end()};
  if (!tell) return members;
  for (const int rank : members) {
    if (rank == 0) continue;
    optim::post(*context_.transport, rank, Channel::kSaveOrder,
                optim::make_message({.kind = last ? kLastSave : kSave, .number = number}));
  }
  return members;
}

std::optional<CommonSaves::Order> CommonSaves::take_order() {
  const std::lock_guard lock(heard_->mutex);
  if (heard_->order && heard_->order->last) return std::nullopt;  // for this worker's own end
  return std::exchange(heard_->order, std::nullopt);
}

std::optional<CommonSaves::Order> CommonSaves::wait_for_order(Deadline deadline) {
  std::unique_lock lock(heard_->mutex);
  while (!heard_->order && !heard_->rank0_lost && !heard_->rank0_ended && !deadline.passed()) {
    heard_->changed.wait_for(lock, std::chrono::milliseconds(100));
    give_up_silent_rank_0("an order to save");
  }
  if (heard_->order) return std::exchange(heard_->order, std::nullopt);
  if (heard_->rank0_lost) throw PeerError(0, "rank 0, which says when to save, is lost");
  return std::nullopt;
}

void CommonSaves::save(const checkpoint::CheckpointInfo& info, const torch::nn::Module& module,
                       const torch::optim::Optimizer& optimizer) {
  checkpoint::Checkpoints(folder_, std::numeric_limits<int>::max()).save(info, module, optimizer);
  if (context_.rank() == 0) {
    const std::lock_guard lock(heard_->mutex);
    heard_->saved[info.step].insert(0);
  } else {
    optim::post(*context_.transport, 0, Channel::kSaveReport,
                optim::make_message({.kind = kSaved, .number = info.step}));
  }
}

void CommonSaves::set_aside(int64_t number) {
  if (const auto path = checkpoint::Checkpoints(folder_).set_aside(number)) {
    log_warn("rank {}: set aside as {}: its parameters give what is not finite", context_.rank(),
             path->string());
  }
}

void CommonSaves::tidy() {
  if (context_.rank() == 0) {
    for (const int64_t number : newly_complete()) completed(number);
    return;
  }
  std::optional<Complete> complete;
  {
    const std::lock_guard lock(heard_->mutex);
    complete = std::exchange(heard_->complete, std::nullopt);
  }
  if (complete) remove_before(complete->number, complete->former);
}

std::vector<int64_t> CommonSaves::newly_complete() {
  std::vector<int64_t> numbers;
  const std::lock_guard lock(heard_->mutex);
  for (const auto& [number, ranks] : heard_->saved) {
    const auto members = members_.find(number);
    if (members != members_.end() &&
        std::includes(ranks.begin(), ranks.end(), members->second.begin(), members->second.end())) {
      numbers.push_back(number);
    }
  }
  if (!numbers.empty()) {
    heard_->saved.erase(heard_->saved.begin(), heard_->saved.upper_bound(numbers.back()));
    members_.erase(members_.begin(), members_.upper_bound(numbers.back()));
  }
  return numbers;
}

void CommonSaves::completed(int64_t number) {
  if (complete_ == number) return;  // written again: by workers that have come further since
  const std::optional<int64_t> former = std::exchange(complete_, number);
  for (const int rank : others_) {
    optim::post(
        *context_.transport, rank, Channel::kSaveOrder,
        optim::make_message({.kind = kComplete, .number = number, .value = double(former.value_or(-1))}));
  }
  remove_before(number, former);
}

void CommonSaves::remove_before(int64_t number, std::optional<int64_t> former) {
  std::set<int64_t> kept;
  if (former) kept.insert(*former);
  checkpoint::Checkpoints(folder_).remove_before(number, kept);
}

// The transport then says that it is lost.
void CommonSaves::give_up_silent_rank_0(std::string_view awaited) {
  const double silence_s = context_.transport->silence_s(0);
  if (heard_->rank0_ended || heard_->rank0_lost || !std::isfinite(silence_s)) return;
  if (silence_s < context_.job.timeout_s) return;
  context_.transport->give_up(0, fmt::format("rank {} has heard nothing of rank 0 for {:.0f} s: {}",
                                             context_.rank(), context_.job.timeout_s, awaited));
}

void CommonSaves::leave() {
  if (context_.rank() != 0) optim::say_goodbye(*context_.transport, 0, Channel::kSaveReport);
}

void CommonSaves::finish() {
  tidy();
  if (context_.rank() == 0) {
    for (const int rank : others_) optim::say_goodbye(*context_.transport, rank, Channel::kSaveOrder);
    return;
  }
  {
    std::unique_lock lock(heard_->mutex);
    while (!heard_->rank0_ended && !heard_->rank0_lost) {
      heard_->changed.wait_for(lock, std::chrono::milliseconds(100));
      give_up_silent_rank_0("the end of the last save");
    }
    if (heard_->rank0_lost) throw PeerError(0, "rank 0 was lost before the last save was complete");
  }
  tidy();
}

void put_members(checkpoint::CheckpointInfo& info, const std::vector<int>& members) {
  const std::vector<int64_t> ranks(members.begin(), members.end());
  info.rule.emplace_back(kMembers, torch::tensor(ranks, torch::kInt64));
}

std::vector<int> members_of(const checkpoint::CheckpointInfo& info) {
  for (const auto& [name, tensor] : info.rule) {
    if (name != kMembers) continue;
    const torch::Tensor ranks = tensor.to(torch::kInt64).contiguous();
    return {ranks.data_ptr<int64_t>(), ranks.data_ptr<int64_t>() + ranks.numel()};
  }
  return {};
}

ResumePoint agree_on_save(job::Context& context, const std::vector<checkpoint::CheckpointInfo>& own,
                          bool members_only, const std::filesystem::path& folder) {
  nlohmann::json have = nlohmann::json::array();
  for (const checkpoint::CheckpointInfo& info : own) have.push_back(info.step);
  const Deadline deadline = Deadline::after(context.job.timeout_s);
  const auto all = job::gather_from_workers(context, have.dump(), transport::tags::kSavesThere, deadline,
                                            "saves that are there");
  const std::vector<int> ranks = context.cluster.worker_ranks();
  nlohmann::json answer;
  if (context.rank() == 0) {
    std::map<int, std::set<int64_t>> by_rank;
    std::vector<std::string> lists;
    for (size_t i = 0; i < ranks.size(); ++i) {
      by_rank[ranks[i]] = nlohmann::json::parse(all[i]).get<std::set<int64_t>>();
      lists.push_back(fmt::format("rank {} has {}", ranks[i], all[i]));
    }
    answer["error"] =
        fmt::format("{}: no save is whole at every worker: {}", folder.string(), fmt::join(lists, ", "));
    for (const checkpoint::CheckpointInfo& info : own) {  // newest first
      std::vector<int> members = members_only ? members_of(info) : std::vector<int>();
      if (members.empty()) members = ranks;
      std::erase_if(members, [&](int rank) { return !by_rank.contains(rank); });  // this job has fewer
      const auto lacks = [&](int rank) { return !by_rank[rank].contains(info.step); };
      if (std::any_of(members.begin(), members.end(), lacks)) continue;
      std::vector<int> absent;
      std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(absent), lacks);
      answer = {{"number", info.step}, {"without", absent}};
      break;
    }
  }
  answer = nlohmann::json::parse(
      job::tell_workers(context, answer.dump(), transport::tags::kResumePoint, deadline, "where to resume"));
  if (answer.contains("error")) bad_input("`resume` {}", answer["error"].get<std::string>());
  return {answer["number"].get<int64_t>(), answer["without"].get<std::vector<int>>()};
}

}  // namespace entrain::train
