// TEMPORARY: until the cluster and transport modules are merged.
#include <cstdlib>
#include <memory>
#include "entrain/base/error.h"
#include "entrain/cluster/cluster.h"
#include "entrain/transport/rendezvous.h"
namespace entrain::cluster {
int Cluster::world() const { return static_cast<int>(hosts.size()); }
int Cluster::host_of(int rank) const { return rank; }
int Cluster::first_rank(int host) const { return host; }
Cluster parse(const std::string& text) {
  Cluster c;
  c.name = text;
  c.kind = text.rfind("lab:", 0) == 0 ? Kind::kLab : Kind::kLocal;
  std::string rest = text.substr(text.find(':') + 1);
  if (c.kind == Kind::kLocal) {
    c.hosts.resize(std::stoi(rest));
    return c;
  }
  while (!rest.empty()) {
    const auto plus = rest.find('+');
    const std::string part = rest.substr(0, plus);
    const auto x = part.find('x');
    const double scale = part.find("mbit") != std::string::npos ? 1e-3 : 1;
    for (int i = 0; i < std::stoi(part); ++i) {
      Host h;
      h.address = fmt::format("198.18.0.{}", c.hosts.size() + 1);
      h.bandwidth_gbit = scale * std::stod(part.substr(x + 1));
      c.hosts.push_back(h);
    }
    rest = plus == std::string::npos ? "" : rest.substr(plus + 1);
  }
  return c;
}
}  // namespace entrain::cluster
namespace entrain::transport {
class RendezvousServer::Impl {};
RendezvousServer::RendezvousServer(const Options&) {}
RendezvousServer::~RendezvousServer() {}
std::string RendezvousServer::endpoint() const { return "127.0.0.1:1"; }
void RendezvousServer::abort(const std::string&) {}
std::vector<std::string> to_environment(const JobEnvironment& j) {
  return {fmt::format("ENTRAIN_RANK={}", j.rank), fmt::format("ENTRAIN_SHAPE_GBIT={}", j.shape_gbit)};
}
}  // namespace entrain::transport
