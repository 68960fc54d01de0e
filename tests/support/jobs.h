// Training jobs inside a test: ranks as threads, each with a Context of its own.
#pragma once

#include <string>

#include "entrain/job/context.h"
#include "support/ranks.h"

namespace entrain::testing {

inline void run_job(std::vector<std::unique_ptr<transport::Transport>> transports,
                    const cluster::Cluster& cluster, const std::function<void(job::Context&)>& body) {
  run_ranks(std::move(transports), [&](int rank, transport::Transport& transport) {
    job::Context context;
    context.job.rank = rank;
    context.job.world = cluster.world();
    context.cluster = cluster;
    context.transport = std::shared_ptr<transport::Transport>(&transport, [](auto*) {});
    body(context);
  });
}

// Runs `body` on every rank of `cluster` (shorthand), over inproc.
inline void run_job(const std::string& cluster, const std::function<void(job::Context&)>& body) {
  const cluster::Cluster parsed = cluster::parse(cluster);
  run_job(transport::make_inproc(parsed.world()), parsed, body);
}

// The same over tcp on loopback.
inline void run_tcp_job(const std::string& cluster, const std::function<void(job::Context&)>& body) {
  const cluster::Cluster parsed = cluster::parse(cluster);
  run_job(make_tcp(parsed.world()), parsed, body);
}

}  // namespace entrain::testing
