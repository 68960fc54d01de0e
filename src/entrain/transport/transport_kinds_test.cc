// The transports whose ranks can be threads of one process.
#include "entrain/transport/transport_suite.h"

namespace entrain::transport {
namespace {

std::vector<std::unique_ptr<Transport>> make_tcp(int world) { return testing::make_tcp(world); }
std::vector<std::unique_ptr<Transport>> make_shaped(int world) { return testing::make_tcp(world, 20); }
std::vector<std::unique_ptr<Transport>> make_tls(int world) {
  return testing::make_tcp(world, 0, net::Encryption::kAlways);
}
std::vector<std::unique_ptr<Transport>> make_shaped_tls(int world) {
  return testing::make_tcp(world, 20, net::Encryption::kAlways);
}

INSTANTIATE_TEST_SUITE_P(Each, TransportTest,
                         ::testing::Values(Kind{"inproc", make_inproc}, Kind{"tcp", make_tcp},
                                           Kind{"tcp_shaped", make_shaped}, Kind{"tls", make_tls},
                                           Kind{"tls_shaped", make_shaped_tls}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace entrain::transport
