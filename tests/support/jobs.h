// Training jobs inside a test: ranks as threads, each with a Context of its own.
#pragma once

#include <string>

#include "entrain/job/context.h"
#include "support/ranks.h"

namespace entrain::testing {

// Runs `body` on every rank of `cluster` (shorthand), over inproc.
inline void run_job(const std::string& cluster, const std::function<void(job::Context&)>& body) {
  const cluster::Cluster parsed = cluster::parse(cluster);
  run_ranks(parsed.world(), [&](int rank, transport::Transport& transport) {
    job::Context context;
    context.job.rank = rank;
    context.job.world = parsed.world();
    context.cluster = parsed;
    context.transport = std::shared_ptr<transport::Transport>(&transport, [](auto*) {});
    body(context);
  });
}

}  // namespace entrain::testing
