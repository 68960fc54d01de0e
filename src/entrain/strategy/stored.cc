#include "entrain/strategy/stored.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <charconv>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/limits.h"
#include "entrain/cluster/cluster.h"
#include "entrain/strategy/strategy.pb.h"

namespace entrain::strategy {
namespace {

using pb::AllReduceSynchronizer;

constexpr int kMaxShards = 1 << 16;  // of all variables together

// The two sides of each enum, for both directions.
constexpr std::pair<Topology, AllReduceSynchronizer::Spec> kTopologies[] = {
    {Topology::kAuto, AllReduceSynchronizer::AUTO},
    {Topology::kRing, AllReduceSynchronizer::RING},
    {Topology::kHalvingDoubling, AllReduceSynchronizer::HALVING_DOUBLING},
    {Topology::kTree, AllReduceSynchronizer::TREE},
    {Topology::kHierarchical, AllReduceSynchronizer::HIERARCHICAL},
    {Topology::kReduceScatter, AllReduceSynchronizer::REDUCE_SCATTER},
    {Topology::kAuto, AllReduceSynchronizer::NCCL},  // read only: the first match is written
};
constexpr std::pair<Compressor, AllReduceSynchronizer::Compressor> kCompressors[] = {
    {Compressor::kNone, AllReduceSynchronizer::None},
    {Compressor::kHorovod, AllReduceSynchronizer::Horovod},
    {Compressor::kHorovodEF, AllReduceSynchronizer::HorovodEF},
    {Compressor::kPowerSgd, AllReduceSynchronizer::PowerSGD},
    {Compressor::kBf16, AllReduceSynchronizer::BF16},
    {Compressor::kTopK, AllReduceSynchronizer::TOP_K},
};

// A number from a newer or broken file is named, not guessed at.
template <typename Table, typename Stored>
auto value_of(const Table& table, Stored stored, const std::string& variable, const char* field,
              const char* allowed) {
  for (const auto& [value, number] : table) {
    if (number == stored) return value;
  }
  bad_input("variable {}: {} is {}, allowed: {}", variable, field, static_cast<int>(stored), allowed);
}

template <typename Table, typename Value>
auto stored_of(const Table& table, Value wanted) {
  for (const auto& [value, number] : table) {
    if (value == wanted) return number;
  }
  fail("strategy: enum value {} has no stored form", static_cast<int>(wanted));
}

// ---- reading

template <typename Stored>
Compressor read_compressor(const Stored& stored, const std::string& variable) {
  return value_of(kCompressors, stored.compressor(), variable, "compressor",
                  "None, Horovod, HorovodEF, PowerSGD, BF16, TOP_K");
}

Synchronizer read_synchronizer(const pb::Node& node) {
  switch (node.synchronizer_case()) {
    case pb::Node::kPSSynchronizer: {
      const pb::PSSynchronizer& s = node.pssynchronizer();
      ParameterServer result{cluster::host_part(s.reduction_destination()), s.local_replication(), s.sync(),
                             s.staleness(), read_compressor(s, node.var_name())};
      if (s.has_group()) result.group = s.group();
      return result;
    }
    case pb::Node::kAllReduceSynchronizer: {
      const AllReduceSynchronizer& s = node.allreducesynchronizer();
      AllReduce result;
      result.topology = value_of(kTopologies, s.spec(), node.var_name(), "spec",
                                 "AUTO, NCCL, RING, HALVING_DOUBLING, TREE, HIERARCHICAL, REDUCE_SCATTER");
      result.compressor = read_compressor(s, node.var_name());
      if (s.has_rank()) result.rank = s.rank();
      if (s.has_share()) result.share = s.share();
      result.group = s.group();
      result.ring_order.assign(s.ring_order().begin(), s.ring_order().end());
      return result;
    }
    case pb::Node::kSparseAllGather:
      return AllGather{node.sparseallgather().group()};
    case pb::Node::SYNCHRONIZER_NOT_SET:
      break;
  }
  bad_input("variable {}: no synchronizer, allowed: PSSynchronizer, AllReduceSynchronizer, SparseAllGather",
            node.var_name());
}

Part read_part(const pb::Node& node) {
  Part part{read_synchronizer(node), std::nullopt};
  if (node.has_priority()) part.priority = node.priority();
  return part;
}

// "1,4,1" -> axis 1, 4 shards. Nothing, or all ones: not partitioned.
std::optional<Partition> read_partition(const pb::Node& node) {
  std::optional<Partition> result;
  const std::string& text = node.partitioner();
  const auto refuse = [&] {
    bad_input(
        "variable {}: partitioner is \"{}\", allowed: one shard count per axis, exactly one above 1, like "
        "1,4,1",
        node.var_name(), text);
  };
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int axis = 0; at < end; ++axis) {
    int shards = 0;
    const auto [next, error] = std::from_chars(at, end, shards);
    if (error != std::errc() || shards < 1 || shards > kMaxShards || (shards > 1 && result)) refuse();
    if (next != end && (*next != ',' || next + 1 == end)) refuse();
    if (shards > 1) result = Partition{axis, shards};
    at = next == end ? end : next + 1;
  }
  return result;
}

// `shards_left`: how many the variables before it have left of kMaxShards.
VariableConfig read_variable(const pb::Node& node, int& shards_left) {
  if (node.var_name().empty()) bad_input("node_config: var_name is empty");
  VariableConfig config{node.var_name(), read_partition(node), {}};
  const int shards = config.partition ? config.partition->shards : 1;
  shards_left -= shards;
  if (shards_left < 0) {
    bad_input("variable {}: partitioner is \"{}\", allowed: {} shards of all variables together",
              node.var_name(), node.partitioner(), kMaxShards);
  }
  if (node.part_config().empty()) {
    config.parts.assign(shards, read_part(node));  // one synchronizer for all shards
    return config;
  }
  if (node.part_config_size() != shards) {
    bad_input("variable {}: part_config has {} parts, allowed: {} (partitioner is \"{}\")", node.var_name(),
              node.part_config_size(), shards, node.partitioner());
  }
  for (const pb::Node& part : node.part_config()) config.parts.push_back(read_part(part));
  return config;
}

// X(field) for every field of the optimizer but `rule`, for both directions.
// clang-format off
#define ENTRAIN_OPTIMIZER_FIELDS(X) \
  X(base) X(learning_rate) X(weight_decay) X(rate_variant) X(rate_schedule) X(warmup) X(clip_norm) \
  X(period) X(local_period) X(staleness) \
  X(loss_window) X(groups) X(choice) X(pull) X(global_pull) X(proximal) \
  X(overlap) X(block_momentum) X(block_rate) X(scope) X(threads)
// clang-format on

Optimizer read_optimizer(const pb::Optimizer& stored) {
  Optimizer optimizer;
  optimizer.rule = stored.rule();
  optimizer.period = default_period(optimizer.rule);
#define X(field) \
  if (stored.has_##field()) optimizer.field = stored.field();
  ENTRAIN_OPTIMIZER_FIELDS(X)
#undef X
  validate(optimizer);
  return optimizer;
}

// The same for the pipeline, but `remat` and `balance`.
#define ENTRAIN_PIPELINE_FIELDS(X) X(devices) X(micro_batches) X(schedule) X(chunks) X(cells)

Pipeline read_pipeline(const pb::Pipeline& stored) {
  Pipeline pipeline;
#define X(field) \
  if (stored.has_##field()) pipeline.field = stored.field();
  ENTRAIN_PIPELINE_FIELDS(X)
#undef X
  if (stored.has_remat()) pipeline.remat = pipeline::parse_remat(stored.remat());
  pipeline.balance.assign(stored.balance().begin(), stored.balance().end());
  validate(pipeline);
  return pipeline;
}

Shape read_shape(const pb::Shape& stored) {
  Shape shape;
  for (const pb::Cell& cell : stored.cells()) {
    shape.cells.push_back({cell.begin(),
                           cell.end(),
                           {cell.ranks().begin(), cell.ranks().end()},
                           {cell.shares().begin(), cell.shares().end()}});
  }
  if (stored.has_micro_batches()) shape.micro_batches = stored.micro_batches();
  if (stored.has_schedule()) shape.schedule = stored.schedule();
  if (stored.has_remat()) shape.remat = pipeline::parse_remat(stored.remat());
  validate(shape);
  return shape;
}

Strategy from_proto(const pb::Strategy& stored) {
  Strategy strategy;
  strategy.id = stored.id();
  int shards_left = kMaxShards;
  for (const pb::Node& node : stored.node_config()) {
    strategy.variables.push_back(read_variable(node, shards_left));
  }
  const auto& replicas = stored.graph_config().replicas();
  strategy.replicas.assign(replicas.begin(), replicas.end());
  if (stored.has_pipeline()) strategy.pipeline = read_pipeline(stored.pipeline());
  if (stored.has_shape()) strategy.shape = read_shape(stored.shape());
  if (stored.has_optimizer()) strategy.optimizer = read_optimizer(stored.optimizer());
  return strategy;
}

// Before a parser takes memory for it.
void check_size(const std::string& stored) {
  if (stored.size() <= kMaxDocument) return;
  bad_input("a strategy of {} bytes, allowed: up to {}", stored.size(), kMaxDocument);
}

// ---- writing

void write_synchronizer(const ParameterServer& ps, pb::Node& node) {
  pb::PSSynchronizer& s = *node.mutable_pssynchronizer();
  s.set_reduction_destination(ps.destination);
  s.set_local_replication(ps.local_replication);
  s.set_sync(ps.sync);
  s.set_staleness(ps.staleness);
  s.set_compressor(stored_of(kCompressors, ps.compressor));
  if (ps.group) s.set_group(*ps.group);
}

void write_synchronizer(const AllReduce& all_reduce, pb::Node& node) {
  AllReduceSynchronizer& s = *node.mutable_allreducesynchronizer();
  s.set_spec(stored_of(kTopologies, all_reduce.topology));
  s.set_compressor(stored_of(kCompressors, all_reduce.compressor));
  s.set_group(all_reduce.group);
  for (const int host : all_reduce.ring_order) s.add_ring_order(host);
  if (all_reduce.compressor == Compressor::kPowerSgd) s.set_rank(all_reduce.rank);
  if (all_reduce.compressor == Compressor::kTopK) s.set_share(all_reduce.share);
}

void write_synchronizer(const AllGather& all_gather, pb::Node& node) {
  node.mutable_sparseallgather()->set_group(all_gather.group);
}

void write_part(const Part& part, pb::Node& node) {
  std::visit([&](const auto& synchronizer) { write_synchronizer(synchronizer, node); }, part.synchronizer);
  if (part.priority) node.set_priority(*part.priority);
}

void write_optimizer(const Optimizer& optimizer, pb::Optimizer& stored) {
  stored.set_rule(optimizer.rule);
#define X(field) stored.set_##field(optimizer.field);
  ENTRAIN_OPTIMIZER_FIELDS(X)
#undef X
}

void write_pipeline(const Pipeline& pipeline, pb::Pipeline& stored) {
#define X(field) stored.set_##field(pipeline.field);
  ENTRAIN_PIPELINE_FIELDS(X)
#undef X
  stored.set_remat(pipeline::remat_name(pipeline.remat));
  for (const int layers : pipeline.balance) stored.add_balance(layers);
}

void write_shape(const Shape& shape, pb::Shape& stored) {
  for (const Cell& cell : shape.cells) {
    pb::Cell& into = *stored.add_cells();
    into.set_begin(cell.begin);
    into.set_end(cell.end);
    for (const int rank : cell.ranks) into.add_ranks(rank);
    for (const double share : cell.shares) into.add_shares(share);
  }
  stored.set_micro_batches(shape.micro_batches);
  stored.set_schedule(shape.schedule);
  stored.set_remat(pipeline::remat_name(shape.remat));
}

pb::Strategy to_proto(const Strategy& strategy) {
  pb::Strategy stored;
  stored.set_id(strategy.id);
  for (const VariableConfig& config : strategy.variables) {
    pb::Node& node = *stored.add_node_config();
    node.set_var_name(config.name);
    if (!config.partition) {
      if (config.parts.size() != 1)
        fail("variable {}: {} parts but no partition", config.name, config.parts.size());
      write_part(config.parts[0], node);
      continue;
    }
    std::string partitioner;
    for (int axis = 0; axis < config.partition->axis; ++axis) partitioner += "1,";
    node.set_partitioner(partitioner + std::to_string(config.partition->shards));
    for (size_t i = 0; i < config.parts.size(); ++i) {
      pb::Node& part = *node.add_part_config();
      part.set_var_name(fmt::format("{}/part_{}", config.name, i));
      write_part(config.parts[i], part);
    }
  }
  for (const std::string& replica : strategy.replicas) stored.mutable_graph_config()->add_replicas(replica);
  if (strategy.pipeline) write_pipeline(*strategy.pipeline, *stored.mutable_pipeline());
  if (strategy.shape) write_shape(*strategy.shape, *stored.mutable_shape());
  if (strategy.optimizer) write_optimizer(*strategy.optimizer, *stored.mutable_optimizer());
  return stored;
}

}  // namespace

std::string to_json(const Strategy& strategy) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(to_proto(strategy), &text, options);
  if (!status.ok())
    fail("strategy {}: cannot be written as JSON: {}", strategy.id, std::string(status.message()));
  return text;
}

std::string to_binary(const Strategy& strategy) { return to_proto(strategy).SerializeAsString(); }

Strategy from_json(const std::string& text) {
  check_size(text);
  pb::Strategy stored;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &stored);
  if (!status.ok()) {
    std::string message(status.message());
    std::replace(message.begin(), message.end(), '\n', ' ');  // protobuf quotes the line below its message
    bad_input("not a strategy in JSON: {}", message);
  }
  return from_proto(stored);
}

Strategy from_binary(const std::string& bytes) {
  check_size(bytes);
  pb::Strategy stored;
  if (!stored.ParseFromString(bytes))
    bad_input("not a strategy in protobuf's binary form (see strategy.proto)");
  return from_proto(stored);
}

void save(const Strategy& strategy, const std::filesystem::path& path) {
  write_file_atomically(path, path.extension() == ".json" ? to_json(strategy) : to_binary(strategy));
}

Strategy load(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  try {
    return path.extension() == ".json" ? from_json(content) : from_binary(content);
  } catch (const InputError& error) {
    bad_input("{}: {}", path.string(), error.what());
  }
}

}  // namespace entrain::strategy
