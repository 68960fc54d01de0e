// TEMPORARY: until the cluster and transport modules are merged.
#include <cstdlib>
#include <memory>
#include "entrain/base/error.h"
#include "entrain/cluster/cluster.h"
#include "entrain/transport/rendezvous.h"
namespace entrain::transport {
class RendezvousServer::Impl {};
RendezvousServer::RendezvousServer(const Options&) {}
RendezvousServer::~RendezvousServer() {}
std::string RendezvousServer::endpoint() const { return "127.0.0.1:1"; }
void RendezvousServer::abort(const std::string&) {}
std::vector<std::string> to_environment(const JobEnvironment& j) {
  return {fmt::format("ENTRAIN_RANK={}", j.rank), "ENTRAIN_BIND=" + j.bind_address,
          fmt::format("ENTRAIN_SHAPE_GBIT={}", j.shape_gbit)};
}
}  // namespace entrain::transport
