// Asynchronous Leader SGD: as lsgd.cc, but a counter of all workers' iterations triggers the exchange and
// nobody waits for anybody.
//
//   each step     x <- base(x) - m (x - z) - m_G (x - z_G)       pulls taken at x before the base's step
//                 report (the mean loss over the window) to the coordinator
//                 told to lead: z = a copy of x, sent to the followers      [looked at between steps]
//                 leaders' z have arrived: x -= p (x - z) + p_G (x - z_G) [likewise; both at the same x]
//
// The coordinator (coordinator.h) names the leader when the workers have made a period of steps each on
// average. With groups there are leaders of each group, every local period, and of all: z_G, with p_G and
// m_G; m and m_G are those of lsgd.cc. A follower that has not taken the last snapshot of its group's leader,
// or of the leader of all, gets no further one of that kind: a stopped worker costs a leader two copies in
// memory and no time. Bytes of an exchange among l workers: (l - 1) B; a report is 32.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "entrain/base/error.h"
#include "entrain/optim/async_rules.h"
#include "entrain/optim/coordinator.h"
#include "entrain/optim/leader.h"
#include "entrain/optim/rules.h"
#include "entrain/strategy/rule_settings.h"

namespace entrain::optim {
namespace {

// What came between two steps. The transport's thread fills it, the worker's empties it.
struct Arrivals {
  struct Snapshot {
    int leader = -1;
    int64_t round = 0;
    transport::Payload payload;
  };
  std::mutex mutex;
  std::map<int, int64_t> leads;       // round by scope: told to lead
  std::map<int, Snapshot> snapshots;  // the latest by scope; older ones are overwritten
  std::optional<int64_t> question;    // asked for the parameters
  bool coordinator_lost = false;

  void take(CoordinatorService::Command command) {
    std::lock_guard lock(mutex);
    if (command.kind == kLead) leads[command.scope] = command.number;
    if (command.kind == kSendParameters) question = command.number;
  }
};

// What a leader knows of a follower.
struct Follower {
  std::atomic<bool> busy[2] = {};  // the last snapshot is still on its way: of the group, of all
  std::atomic<bool> gone = false;
};

class LsgdAsync : public DistributedOptimizer {
 public:
  LsgdAsync(const strategy::LsgdAsync& rule, RuleWorker worker)
      : rule_(rule),
        worker_(std::move(worker)),
        rank_(worker_.transport.rank()),
        scopes_(scopes_of(rule, worker_.groups)),
        window_(strategy::loss_window_of(rule)) {
    worker_.transport.tolerate_losses();
    std::vector<int> others = worker_.ranks;
    std::erase(others, rank_);
    for (const int rank : others) followers_[rank] = std::make_shared<Follower>();
    snapshots_ = std::make_unique<Inbox>(
        worker_.transport, others, Channel::kSnapshot,
        [this](int leader, transport::Payload message) { on_snapshot(leader, std::move(message)); },
        [this](int follower, bool) { followers_.at(follower)->gone = true; });
    if (rank_ == worker_.centre) {
      service_ = std::make_unique<CoordinatorService>(
          worker_.transport, rule_, worker_.groups, worker_.seed,
          [this](CoordinatorService::Command command) { arrivals_.take(command); });
    } else {
      commands_ = std::make_unique<Inbox>(
          worker_.transport, std::vector<int>{worker_.centre}, Channel::kCommand,
          [this](int, transport::Payload message) { on_command(std::move(message)); },
          [this](int, bool) {
            std::lock_guard lock(arrivals_.mutex);
            arrivals_.coordinator_lost = true;
          });
    }
  }

  ~LsgdAsync() override {
    for (const auto& [rank, follower] : followers_) say_goodbye(worker_.transport, rank, Channel::kSnapshot);
    if (service_) {
      service_->leave();
    } else {
      say_goodbye(worker_.transport, worker_.centre, Channel::kReport);
    }
  }

  void step(double loss) override {
    const torch::NoGradGuard no_grad;
    window_.add(loss);
    pull_both(worker_.x, z_local_, strategy::proximal_of(rule_, grouped()), z_global_,
              strategy::global_proximal_of(rule_));
    worker_.own_update();
    ++step_;

    const Stopwatch stopwatch(journal_.communication_s);
    report();
    look_at_arrivals();
  }

  // Nothing is under way that must be waited for. The last parameters are for test_parameters().
  void finish() override {
    const torch::NoGradGuard no_grad;
    if (!service_) send_parameters(kResting, 0);
  }

  torch::Tensor test_parameters() override {
    const torch::NoGradGuard no_grad;
    torch::Tensor sum = worker_.x.detach().clone();
    if (!service_) return sum;
    std::vector<int> followers = scopes_[own_scope()].workers;
    std::erase(followers, rank_);
    const auto theirs = service_->collect(followers, worker_.timeout_s);
    for (const torch::Tensor& x : theirs) sum.add_(x.to(sum.device()));
    return sum.div_(static_cast<double>(theirs.size()) + 1);
  }

  State state() const override {
    State state;
    put(state, "step", step_);
    put(state, "z_local", z_local_);
    put(state, "z_global", z_global_);
    put(state, "losses", torch::tensor(window_.values(), torch::kFloat64));
    return state;
  }

  void restore(const State& state) override {
    step_ = counter_in(state, "step");
    if (has(state, "z_local")) z_local_ = tensor_in(state, "z_local", worker_.x);
    if (has(state, "z_global")) z_global_ = tensor_in(state, "z_global", worker_.x);
    const torch::Tensor losses = tensor_in(state, "losses");
    window_.set({losses.data_ptr<double>(), losses.data_ptr<double>() + losses.numel()});
  }

 private:
  bool grouped() const { return scopes_.size() > 1; }
  bool is_of_all(int scope) const { return scope + 1 == static_cast<int>(scopes_.size()); }
  // Of this worker's group, or of all where there is one group.
  int own_scope() const {
    int scope = 0;
    const auto holds = [&](const Scope& s) {
      return std::find(s.workers.begin(), s.workers.end(), rank_) != s.workers.end();
    };
    while (!holds(scopes_[scope])) ++scope;
    return scope;
  }
  bool is_global(int scope) const { return grouped() && is_of_all(scope); }

  void on_snapshot(int leader, transport::Payload message) {
    const Heading heading = heading_of(message);
    std::lock_guard lock(arrivals_.mutex);
    auto& latest = arrivals_.snapshots[heading.kind];
    if (heading.number > latest.round) latest = {leader, heading.number, std::move(message)};
  }

  void on_command(transport::Payload message) {
    const Heading heading = heading_of(message);
    arrivals_.take({static_cast<CommandKind>(heading.kind), heading.dtype, heading.number});
  }

  void report() {
    const double loss = window_.mean();
    if (service_) return service_->report(loss);
    post(worker_.transport, worker_.centre, Channel::kReport, make_message({.kind = kLoss, .value = loss}));
  }

  void look_at_arrivals() {
    std::map<int, int64_t> leads;
    std::map<int, Arrivals::Snapshot> snapshots;
    std::optional<int64_t> question;
    {
      std::lock_guard lock(arrivals_.mutex);
      if (arrivals_.coordinator_lost) {
        throw PeerError(worker_.centre,
                        fmt::format("rank {}, which names the leaders, is lost", worker_.centre));
      }
      leads.swap(arrivals_.leads);
      snapshots.swap(arrivals_.snapshots);
      question.swap(arrivals_.question);
    }
    for (const auto& [scope, round] : leads) lead(scope, round);
    torch::Tensor z_local, z_global;  // new ones of others
    for (auto& [scope, snapshot] : snapshots) {
      if (snapshot.round <= rounds_[scope]) continue;  // a newer leader's came first
      adopt(scope, snapshot.round, snapshot.leader, take_vector(std::move(snapshot.payload)));
      (is_global(scope) ? z_global : z_local) = is_global(scope) ? z_global_ : z_local_;
    }
    pull_both(worker_.x, z_local, rule_.pull, z_global, rule_.global_pull);
    if (question) send_parameters(kParameters, *question);
  }

  void lead(int scope, int64_t round) {
    if (round <= rounds_[scope]) return;
    const torch::Tensor copy = worker_.x.detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true);
    const auto message = make_message({.kind = scope, .number = round}, copy);
    for (const int rank : scopes_[scope].workers) {
      if (rank == rank_) continue;
      const auto& follower = followers_.at(rank);
      auto& busy = follower->busy[is_global(scope) ? 1 : 0];
      if (follower->gone || busy.exchange(true)) continue;
      post(worker_.transport, rank, Channel::kSnapshot, message, [follower, &busy] { busy = false; });
    }
    adopt(scope, round, rank_, copy);
  }

  void adopt(int scope, int64_t round, int leader, const torch::Tensor& z) {
    rounds_[scope] = round;
    const bool global = is_global(scope);
    (global ? z_global_ : z_local_) = z.to(worker_.x.device());
    if (!global) local_leader_ = leader;
    journal_.leaders.push_back({step_, local_leader_, is_of_all(scope) ? leader : -1});
    ++journal_.exchanges;
  }

  void send_parameters(ReportKind kind, int64_t question) {
    const torch::Tensor copy = worker_.x.detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true);
    post(worker_.transport, worker_.centre, Channel::kReport,
         make_message({.kind = kind, .number = question}, copy));
  }

  const strategy::LsgdAsync rule_;
  RuleWorker worker_;
  const int rank_;
  const std::vector<Scope> scopes_;
  LossWindow window_;
  int64_t step_ = 0;
  torch::Tensor z_local_, z_global_;  // undefined before the first exchange
  std::map<int, int64_t> rounds_;     // of what was adopted last, by scope
  int local_leader_ = -1;
  std::map<int, std::shared_ptr<Follower>> followers_;  // by rank; the map itself never changes
  Arrivals arrivals_;
  // Last, so that they end before what they write to.
  std::unique_ptr<Inbox> snapshots_, commands_;
  std::unique_ptr<CoordinatorService> service_;  // at the coordinator's rank
};

}  // namespace

std::unique_ptr<DistributedOptimizer> make_lsgd_async(const strategy::LsgdAsync& rule, RuleWorker worker) {
  if (worker.groups.empty()) worker.groups = {worker.ranks};
  return std::make_unique<LsgdAsync>(rule, std::move(worker));
}

}  // namespace entrain::optim
