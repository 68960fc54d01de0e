#include "entrain/trainer/worker_talk.h"

namespace entrain {

std::vector<int> worker_ranks(const cluster::Cluster& cluster) {
  std::vector<int> ranks;
  for (int rank = 0; rank < cluster.world(); ++rank) {
    if (cluster.is_worker(rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<std::string> gather_from_workers(Context& context, const std::string& own, transport::Tag tag,
                                             Deadline deadline, std::string_view what) {
  if (context.rank() != 0) {
    transport::send(*context.transport, 0, tag, transport::as_bytes(own), {0, deadline, what});
    return {};
  }
  std::vector<std::string> all;
  for (const int rank : worker_ranks(context.cluster)) {
    if (rank == 0) {
      all.push_back(own);
      continue;
    }
    const auto payload = transport::recv(*context.transport, rank, tag, {deadline, what});
    all.emplace_back(transport::as_text(payload.bytes()));
  }
  return all;
}

std::string tell_workers(Context& context, const std::string& text, transport::Tag tag, Deadline deadline,
                         std::string_view what) {
  if (context.rank() != 0) {
    const auto payload = transport::recv(*context.transport, 0, tag, {deadline, what});
    return std::string(transport::as_text(payload.bytes()));
  }
  for (const int rank : worker_ranks(context.cluster)) {
    if (rank != 0)
      transport::send(*context.transport, rank, tag, transport::as_bytes(text), {0, deadline, what});
  }
  return text;
}

}  // namespace entrain
