#include "entrain/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "entrain/plan/topology.h"
#include "entrain/strategy/compression.h"

namespace entrain::plan {
namespace {

Slice slice_of(const graph::Graph& graph, int variable, const std::optional<strategy::Partition>& partition,
               int part) {
  const auto& v = graph.variables[variable];
  if (!partition || v.shape.empty()) {
    const int64_t rows = v.shape.empty() ? 1 : v.shape[0];
    return {variable, 0, 0, rows, v.elements()};
  }
  const int64_t dimension = v.shape[partition->axis];
  const auto range = collective::chunk_range(dimension, partition->shards, part);
  return {variable, partition->axis, range.begin, range.end, v.elements() / dimension * range.size()};
}

std::string describe(const Message& message, const graph::Graph& graph, std::string_view operation) {
  const Slice& first = message.slices.front();
  const auto& v = graph.variables[first.variable];
  std::string text = fmt::format("{} of {}", operation, v.name);
  if (first.elements != v.elements()) text += fmt::format("[{}:{}]", first.begin, first.end);
  if (message.slices.size() > 1) text += fmt::format(" and {} more", message.slices.size() - 1);
  return text;
}

}  // namespace

struct Planner::Shared {
  const graph::Graph& graph;
  const cluster::Cluster& cluster;
  Topologies topologies;
  std::unordered_map<std::string_view, int> variables;
  std::vector<int> workers;

  // Strategies usually list the variables in G's order.
  int find(const std::string& name, size_t place) const {
    if (place < graph.variables.size() && graph.variables[place].name == name) return static_cast<int>(place);
    return variables.at(name);
  }

  // Who trains each variable: those who hold a layer that reads it. One that no layer reads is everyone's.
  std::vector<const Holders*> holders_of(const strategy::Shape& shape) {
    std::vector<std::set<int>> ranks(graph.variables.size());
    for (const strategy::Cell& cell : shape.cells) {
      for (int layer = cell.begin; layer < cell.end; ++layer) {
        if (graph.layers.empty()) {
          for (auto& of : ranks) of.insert(cell.ranks.begin(), cell.ranks.end());
          continue;
        }
        for (const int v : graph.layers.at(static_cast<size_t>(layer)).variables) {
          ranks[static_cast<size_t>(v)].insert(cell.ranks.begin(), cell.ranks.end());
        }
      }
    }
    std::vector<const Holders*> result;
    for (const auto& of : ranks) {
      const auto held = of.empty() ? shape.ranks() : std::vector<int>(of.begin(), of.end());
      result.push_back(&topologies.holders(held));
    }
    return result;
  }
};

namespace {

// One plan in the making.
class Making {
 public:
  // `holders`: by variable; none: all workers hold all.
  Making(const graph::Graph& graph, const cluster::Cluster& cluster, Topologies& topologies,
         std::vector<const Holders*> holders, bool describe)
      : graph_(graph),
        cluster_(cluster),
        topologies_(topologies),
        holders_(std::move(holders)),
        describe_(describe) {}

  void add(const strategy::VariableConfig& config, int variable) {
    for (size_t p = 0; p < config.parts.size(); ++p) {
      const Slice slice = slice_of(graph_, variable, config.partition, static_cast<int>(p));
      const strategy::Part& part = config.parts[p];
      const int priority = part.priority.value_or(variable);
      std::visit([&](const auto& synchronizer) { add(slice, priority, synchronizer); }, part.synchronizer);
    }
  }

  Plan finish(std::vector<int> workers) {
    plan_.world = cluster_.world();
    plan_.workers = std::move(workers);
    for (auto& [way, message] : served_) {
      order_as_ready(message.slices);
      push(std::move(message), "push and pull");
    }
    for (auto& [key, merged] : groups_) {
      order_as_ready(merged.message.slices);
      merged.message.wire_elements = low_rank_elements(merged.message);
      if (merged.message.scheduled()) {
        merged.message.schedule =
            topologies_.all_reduce(merged.choice, *merged.holders, merged.message.schedule_bytes());
      }
      const char* operation = merged.message.scheduled() ? "all-reduce" : "top-k all-gather";
      push(std::move(merged.message), operation);
    }
    plan_.messages_of.resize(graph_.variables.size());
    for (size_t m = 0; m < plan_.messages.size(); ++m) {
      for (const Slice& slice : plan_.messages[m].slices) {
        auto& list = plan_.messages_of[slice.variable];
        if (list.empty() || list.back() != static_cast<int>(m)) list.push_back(static_cast<int>(m));
      }
    }
    return std::move(plan_);
  }

 private:
  struct Merged {
    strategy::AllReduce choice;
    const Holders* holders;
    Message message;
  };

  const Holders& holders_of(int variable) const {
    return holders_.empty() ? topologies_.all_workers() : *holders_[static_cast<size_t>(variable)];
  }

  // A rank that trains alone sends nothing, so there is nothing to compress.
  static strategy::Compressor used(strategy::Compressor compressor, const Holders& holders) {
    return holders.ranks->size() > 1 ? compressor : strategy::Compressor::kNone;
  }

  static Exchange exchange_of(strategy::Compressor compressor) {
    if (compressor == strategy::Compressor::kPowerSgd) return Exchange::kLowRank;
    if (compressor == strategy::Compressor::kTopK) return Exchange::kTopK;
    return Exchange::kDense;
  }

  // In the order in which backward makes them, so that the message fills as it goes.
  void order_as_ready(std::vector<Slice>& slices) const {
    std::stable_sort(slices.begin(), slices.end(), [&](const Slice& a, const Slice& b) {
      return graph_.variables[a.variable].ready_order < graph_.variables[b.variable].ready_order;
    });
  }

  static void join(Message& message, const Slice& slice, int priority) {
    message.slices.push_back(slice);
    message.priority = std::min(message.priority, priority);
  }

  int64_t low_rank_elements(const Message& message) const {
    int64_t sum = 0;
    for (const Slice& slice : message.slices) {
      const Matrix matrix = matrix_of(slice, graph_.variables[slice.variable]);
      sum += strategy::low_rank_elements(matrix.rows, matrix.columns, message.rank);
    }
    return sum;
  }

  Message start(const Slice& slice, int priority, Exchange exchange) const {
    Message message;
    message.exchange = exchange;
    message.slices = {slice};
    message.priority = priority;
    message.type = collective::type_from(graph_.variables[slice.variable].dtype);
    message.ranks = holders_of(slice.variable).ranks;
    return message;
  }

  void push(Message message, std::string_view operation) {
    if (describe_) message.what = describe(message, graph_, operation);
    plan_.messages.push_back(std::move(message));
  }

  void add(const Slice& slice, int priority, const strategy::ParameterServer& server) {
    const bool sparse = graph_.variables[slice.variable].sparse;
    const Holders& holders = holders_of(slice.variable);
    if (!holders_.empty() && holders.ranks->size() == 1) return add_alone(slice, priority, holders);
    Message message = start(slice, priority, sparse ? Exchange::kSparseServer : Exchange::kDense);
    message.root = cluster_.first_rank(cluster_.find(server.destination));
    if (!sparse) message.schedule = topologies_.parameter_server(server, holders);
    message.compressor = used(server.compressor, holders);
    if (sparse || !server.group) {
      return push(std::move(message), sparse ? "row push and pull" : "push and pull");
    }
    const Way way{*server.group,      message.root, server.local_replication,
                  message.compressor, message.type, holders.number};
    const auto [found, inserted] = served_.try_emplace(way, std::move(message));
    if (!inserted) join(found->second, slice, priority);
  }

  void add(const Slice& slice, int priority, const strategy::AllReduce& choice) {
    const Holders& holders = holders_of(slice.variable);
    const strategy::Compressor compressor = used(choice.compressor, holders);
    Message message = start(slice, priority, exchange_of(compressor));
    message.compressor = compressor;
    message.any_way = choice.topology == strategy::Topology::kAuto && message.exchange == Exchange::kDense &&
                      compressor == strategy::Compressor::kNone && holders.number == 0;
    message.rank = choice.rank;
    message.share = choice.share;
    const auto [found, inserted] =
        groups_.try_emplace({choice.group, holders.number}, Merged{choice, &holders, message});
    if (!inserted) join(found->second.message, slice, priority);
  }

  void add(const Slice& slice, int priority, const strategy::AllGather&) {
    push(start(slice, priority, Exchange::kSparseAllGather), "row all-gather");
  }

  // One rank holds it: no server is asked.
  void add_alone(const Slice& slice, int priority, const Holders& holders) {
    if (graph_.variables[slice.variable].sparse) return add(slice, priority, strategy::AllGather{});
    Message message = start(slice, priority, Exchange::kDense);
    message.schedule = topologies_.all_reduce({}, holders, message.schedule_bytes());
    push(std::move(message), "gradient, held by one rank,");
  }

  const graph::Graph& graph_;
  const cluster::Cluster& cluster_;
  Topologies& topologies_;
  std::vector<const Holders*> holders_;
  bool describe_;
  // Group, root, local replication and so on, of parameter servers.
  using Way = std::tuple<int, int, bool, strategy::Compressor, collective::Type, int>;
  std::map<Way, Message> served_;
  std::map<std::pair<int, int>, Merged> groups_;  // all-reduces, by merge group and holders
  Plan plan_;
};

}  // namespace

int64_t Message::elements() const {
  int64_t sum = 0;
  for (const Slice& slice : slices) sum += slice.elements;
  return sum;
}

std::optional<collective::Type> Message::wire_type() const {
  if (!strategy::is_cast(compressor)) return {};
  return compressor == strategy::Compressor::kBf16 ? collective::Type::kBFloat16 : collective::Type::kFloat16;
}

int64_t Message::top_k() const {
  return std::max<int64_t>(1, std::llround(share * static_cast<double>(elements())));
}

int64_t Message::schedule_bytes() const {
  if (exchange == Exchange::kLowRank) return wire_elements * collective::size_of(type);
  return elements() * collective::size_of(wire_type().value_or(type));
}

double wire_bytes(const Message& message, const graph::Graph& graph) {
  if (message.scheduled()) return static_cast<double>(message.schedule_bytes());
  if (message.exchange == Exchange::kTopK) {
    return static_cast<double>(message.top_k()) *
           (static_cast<double>(collective::size_of(message.type)) + sizeof(int64_t));
  }
  const Slice& slice = message.slices.front();
  const graph::Variable& v = graph.variables[slice.variable];
  const auto elements = static_cast<double>(std::max<int64_t>(1, v.elements()));
  return static_cast<double>(v.step_bytes()) * (static_cast<double>(slice.elements) / elements);
}

Matrix matrix_of(const Slice& slice, const graph::Variable& variable) {
  const bool whole_rows = slice.axis > 0 && !variable.shape.empty();
  const int64_t rows = std::max<int64_t>(1, whole_rows ? variable.shape[0] : slice.end - slice.begin);
  return {rows, slice.elements / rows};
}

Planner::Planner(const graph::Graph& graph, const cluster::Cluster& cluster)
    : Planner(graph, cluster, Topologies::kAllExact) {}

Planner::Planner(const graph::Graph& graph, const cluster::Cluster& cluster, int most_exact)
    : shared_(new Shared{graph, cluster, Topologies(cluster, most_exact), {}, cluster.worker_ranks()}) {
  for (size_t v = 0; v < graph.variables.size(); ++v) {
    shared_->variables.emplace(graph.variables[v].name, static_cast<int>(v));
  }
}

Planner::~Planner() = default;

Plan Planner::plan(const strategy::Strategy& strategy, bool describe) const {
  std::vector<const Holders*> holders;
  if (strategy.shape) holders = shared_->holders_of(*strategy.shape);
  Making making(shared_->graph, shared_->cluster, shared_->topologies, std::move(holders), describe);
  for (size_t i = 0; i < strategy.variables.size(); ++i) {
    making.add(strategy.variables[i], shared_->find(strategy.variables[i].name, i));
  }
  return making.finish(strategy.shape ? strategy.shape->ranks() : shared_->workers);
}

Plan make_plan(const strategy::Strategy& strategy, const graph::Graph& graph,
               const cluster::Cluster& cluster) {
  return Planner(graph, cluster).plan(strategy, true);
}

}  // namespace entrain::plan
