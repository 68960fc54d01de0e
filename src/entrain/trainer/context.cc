#include "entrain/trainer/context.h"

#include <cstdlib>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/base/memory.h"
#include "entrain/transport/inproc/inproc_transport.h"
#include "entrain/transport/tcp/socket.h"
#include "entrain/transport/tcp/tcp_transport.h"

namespace entrain {
namespace {

std::unique_ptr<transport::RendezvousServer> serve_rendezvous(const transport::JobEnvironment& job) {
  const transport::Endpoint endpoint = transport::parse_endpoint(job.rendezvous, "ENTRAIN_RENDEZVOUS");
  transport::RendezvousServer::Options options;
  options.bind_address = endpoint.address;
  options.port = endpoint.port;
  options.world = job.world;
  options.token = job.token;
  return std::make_unique<transport::RendezvousServer>(options);
}

}  // namespace

Context init(const std::string& cluster) {
  keep_freed_memory();
  Context context;
  const bool launched = transport::job_from_environment(context.job);
  init_logging(launched ? context.job.rank : -1);
  const char* named = std::getenv("ENTRAIN_CLUSTER");
  const std::string text = !cluster.empty() ? cluster
                           : named          ? named
                                            : fmt::format("local:{}", context.job.world);
  context.cluster = cluster::parse(text);
  if (context.cluster.world() != context.job.world) {
    bad_input("the cluster {} has {} ranks, the job {} (ENTRAIN_WORLD)", text, context.cluster.world(),
              context.job.world);
  }
  if (context.job.serve) context.rendezvous = serve_rendezvous(context.job);
  if (launched) {
    context.transport = transport::connect_tcp(context.job, Deadline::after(context.job.timeout_s));
  } else {
    context.transport = std::move(transport::make_inproc(1).front());
  }
  return context;
}

}  // namespace entrain
