// Joining a job over tcp: the rendezvous, then a connection to every rank; strangers at the door.
#include "entrain/transport/tcp/tcp_transport.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <future>

#include "entrain/base/error.h"
#include "entrain/net/socket.h"
#include "entrain/rendezvous/server.h"

namespace entrain::transport {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kToken = "the job's token";

rendezvous::JobEnvironment job_of(const rendezvous::Server& server, int rank, int world) {
  rendezvous::JobEnvironment job;
  job.rank = rank;
  job.world = world;
  job.rendezvous = server.endpoint();
  job.token = kToken;
  return job;
}

// Joins on another thread; the future holds the error's text, or "" when all went well.
std::future<std::string> join(rendezvous::JobEnvironment job, double seconds = 30) {
  return std::async(std::launch::async, [job, seconds]() -> std::string {
    try {
      const auto transport = connect_tcp(job, Deadline::after(seconds));
      barrier(*transport, kControlTags, Deadline::after(30));
      transport->close("");
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  });
}

net::Fd stranger(const std::string& endpoint) {
  std::string error;
  net::Fd socket =
      net::connect_to(net::parse_endpoint(endpoint, "test"), "127.0.0.1", Deadline::after(10), error);
  EXPECT_TRUE(socket) << error;
  return socket;
}

TEST(JoinTcp, StrangersDisturbNobody) {
  const rendezvous::Server server({"127.0.0.1", 0, 3, kToken});
  const net::Fd silent = stranger(server.endpoint());
  const net::Fd junk = stranger(server.endpoint());
  const std::string garbage(100'000, '\xff');
  ::send(junk.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  const net::Fd liar = stranger(server.endpoint());  // the right magic, then nonsense sizes and no proof
  const std::string lie = "entrain1" + std::string(76, '\xff');
  ::send(liar.get(), lie.data(), lie.size(), MSG_NOSIGNAL);
  std::vector<net::Fd> crowd;  // more than are ever held unproven
  for (int i = 0; i < 200; ++i) crowd.push_back(stranger(server.endpoint()));
  auto impostor = job_of(server, 1, 3);
  impostor.token = "a guess";
  EXPECT_THAT(join(impostor).get(), AllOf(HasSubstr("rank 1"), HasSubstr("token")));

  std::vector<std::future<std::string>> ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.push_back(join(job_of(server, rank, 3)));
  for (auto& rank : ranks) EXPECT_EQ(rank.get(), "");
}

TEST(JoinTcp, ARankOutsideTheJobIsRefused) {
  const rendezvous::Server server({"127.0.0.1", 0, 3, kToken});
  for (const int rank : {-1, 3}) {
    EXPECT_THAT(join(job_of(server, rank, 3), 1).get(), HasSubstr("it must be from 0 to 2"));
  }
}

TEST(JoinTcp, TheRendezvousErrorsReachTheCaller) {
  rendezvous::Server server({"127.0.0.1", 0, 3, kToken});
  EXPECT_THAT(join(job_of(server, 0, 3), 1.0).get(), AllOf(HasSubstr("rank 0"), HasSubstr("for ranks 1, 2")));
  server.abort("rank 2 exited with status 139");
  EXPECT_THAT(join(job_of(server, 1, 3)).get(), HasSubstr("rank 2 exited with status 139"));
}

}  // namespace
}  // namespace entrain::transport
