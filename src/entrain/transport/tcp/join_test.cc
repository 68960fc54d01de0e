// Joining a job over tcp: the rendezvous, then a connection to every rank; strangers at the door.
#include "entrain/transport/tcp/tcp_transport.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <future>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "entrain/net/socket.h"
#include "entrain/rendezvous/server.h"
#include "entrain/transport/tcp/mesh.h"

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
  const std::string lie = "entrain1" + std::string(80, '\xff');
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

// Processes of many light ranks each: a rank's mesh is all it has, and a process has files for some ranks
// only. The ranks of one process, which ends with the number of those that did not get through.
[[noreturn]] void connect_ranks(int first, int count, int world, const std::string& endpoint) {
  std::vector<std::future<std::string>> ranks;
  for (int rank = first; rank < first + count; ++rank) {
    ranks.push_back(std::async(std::launch::async, [=]() -> std::string {
      rendezvous::JobEnvironment job;
      job.rank = rank;
      job.world = world;
      job.rendezvous = endpoint;
      job.token = kToken;
      try {
        const auto peers = connect_mesh(job, Deadline::after(100));
        for (int peer = 0; peer < world; ++peer) {
          if (static_cast<bool>(peers[peer].socket) == (peer == rank)) return "a peer is missing";
        }
      } catch (const Error& e) {
        return e.what();
      }
      return "";
    }));
  }
  int failed = 0;
  for (auto& rank : ranks) {
    const std::string told = rank.get();
    if (!told.empty()) ++failed, log_warn("{}", told);
  }
  ::_exit(failed);
}

TEST(JoinTcp, ManyRanksThatComeAtOnceMeetAmidAFloodOfStrangers) {
  constexpr int kWorld = 256, kRanksPerProcess = 32;
  int start[2];
  ASSERT_EQ(::pipe(start), 0);
  std::vector<pid_t> processes;
  for (int first = 0; first < kWorld; first += kRanksPerProcess) {  // before this process has threads
    const pid_t process = ::fork();
    ASSERT_GE(process, 0);
    if (process == 0) {
      char endpoint[64] = "";
      if (::read(start[0], endpoint, sizeof endpoint) <= 0) ::_exit(1);
      connect_ranks(first, kRanksPerProcess, kWorld, endpoint);
    }
    processes.push_back(process);
  }
  const rendezvous::Server server({"127.0.0.1", 0, kWorld, kToken});
  std::atomic<bool> over = false;
  std::atomic<int> strangers = 0;
  std::jthread flood([&] {
    std::deque<net::Fd> crowd;  // the latest stay on the line and say nothing
    while (!over || strangers < 10'000) {
      std::string error;
      crowd.push_back(net::connect_to(net::parse_endpoint(server.endpoint(), "test"), "127.0.0.1",
                                      Deadline::after(1), error));
      if (crowd.size() > 2000) crowd.pop_front();
      ++strangers;
    }
  });
  for (size_t i = 0; i < processes.size(); ++i) {
    char endpoint[64] = "";
    server.endpoint().copy(endpoint, sizeof endpoint - 1);
    ASSERT_EQ(::write(start[1], endpoint, sizeof endpoint), static_cast<ssize_t>(sizeof endpoint));
  }
  for (const pid_t process : processes) {
    int status = -1;
    EXPECT_EQ(::waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
  }
  over = true;
  flood.join();
  EXPECT_GE(strangers, 10'000);
  ::close(start[0]), ::close(start[1]);
}

TEST(JoinTcp, ARankOutsideTheJobIsRefused) {
  const rendezvous::Server server({"127.0.0.1", 0, 3, kToken});
  for (const int rank : {-1, 3}) {
    EXPECT_THAT(join(job_of(server, rank, 3), 1).get(), HasSubstr("it must be from 0 to 2"));
  }
}

TEST(JoinTcp, TheRendezvousErrorsReachTheCaller) {
  rendezvous::Server server({"127.0.0.1", 0, 3, kToken});
  EXPECT_THAT(join(job_of(server, 0, 3), 1.0).get(), AllOf(HasSubstr("rank 0"), HasSubstr("missing: 1, 2")));
  server.abort("rank 2 exited with status 139");
  EXPECT_THAT(join(job_of(server, 1, 3)).get(), HasSubstr("rank 2 exited with status 139"));
}

}  // namespace
}  // namespace entrain::transport
