#include "entrain/transport/tcp/tcp_transport.h"

#include "entrain/base/error.h"
#include "entrain/transport/tcp/mesh.h"
#include "entrain/transport/tcp/tcp_rank.h"

namespace entrain::transport {

std::unique_ptr<Transport> connect_tcp(const rendezvous::JobEnvironment& job, Deadline deadline) {
  if (job.world < 1) bad_input("the world is {}: it must be at least 1 rank", job.world);
  if (job.rank < 0 || job.rank >= job.world) {
    bad_input("the rank is {}: it must be from 0 to {}", job.rank, job.world - 1);
  }
  if (job.token.empty()) bad_input("the job token is empty: ranks prove themselves by it");
  return std::make_unique<TcpRank>(job.rank, connect_mesh(job, deadline), job.shape_gbit, job.timeout_s);
}

}  // namespace entrain::transport
