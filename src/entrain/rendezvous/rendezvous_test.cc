// Finding each other, and who is not let in.
#include "entrain/rendezvous/server.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <filesystem>
#include <future>

#include "entrain/base/error.h"
#include "entrain/net/handshake.h"
#include "entrain/net/socket.h"
#include "entrain/rendezvous/client.h"
#include "entrain/rendezvous/wire.h"

namespace entrain::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kToken = "the job's token";

JobEnvironment job_of(const Server& server, int rank, int world) {
  JobEnvironment job;
  job.rank = rank;
  job.world = world;
  job.rendezvous = server.endpoint();
  job.token = kToken;
  return job;
}

// Each rank says that it listens here; nobody calls.
net::Endpoint place_of(int rank) { return {"127.0.0.1", 4000 + rank}; }

// Meets the others on another thread; the future holds the error's text, or "" when it was told where each of
// them listens.
std::future<std::string> join(JobEnvironment job, double seconds = 30) {
  return std::async(std::launch::async, [job, seconds]() -> std::string {
    try {
      const auto table = meet(job, place_of(job.rank), Deadline::after(seconds));
      EXPECT_EQ(table.size(), static_cast<size_t>(job.world));
      for (size_t rank = 0; rank < table.size(); ++rank) {
        EXPECT_EQ(table[rank].text(), place_of(static_cast<int>(rank)).text());
      }
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

TEST(Rendezvous, StrangersDisturbNobody) {
  const Server server({"127.0.0.1", 0, 3, kToken});
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

TEST(Rendezvous, NamesTheRanksThatDidNotCome) {
  const Server server({"127.0.0.1", 0, 4, kToken});
  auto two = join(job_of(server, 2, 4), 4.0);
  EXPECT_THAT(join(job_of(server, 0, 4), 2.0).get(),
              AllOf(HasSubstr("rank 0"), HasSubstr("2 of 4 ranks are here; missing: 1, 3")));
  EXPECT_THAT(two.get(),
              HasSubstr("1 of 4 ranks are here; missing: 0, 1, 3"));  // rank 0 has given up by then
}

TEST(Rendezvous, AnotherWorldSizeFailsAllAndNamesBoth) {
  const Server server({"127.0.0.1", 0, 3, kToken});
  auto zero = join(job_of(server, 0, 3));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_THAT(join(job_of(server, 1, 5)).get(), AllOf(HasSubstr("5"), HasSubstr("3"), HasSubstr("rank 1")));
  EXPECT_THAT(zero.get(), AllOf(HasSubstr("5"), HasSubstr("3"), HasSubstr("rank 1")));
}

TEST(Rendezvous, ARankThatComesTwiceFailsAll) {
  const Server server({"127.0.0.1", 0, 3, kToken});
  std::vector<std::future<std::string>> ranks;
  for (const int rank : {0, 1, 1}) ranks.push_back(join(job_of(server, rank, 3)));
  for (auto& rank : ranks) EXPECT_THAT(rank.get(), HasSubstr("two processes came as rank 1"));
}

TEST(Rendezvous, AbortReachesWhoWaitsAndWhoComesLater) {
  Server server({"127.0.0.1", 0, 3, kToken});
  auto zero = join(job_of(server, 0, 3));
  server.abort("rank 2 exited with status 139");
  EXPECT_THAT(zero.get(), HasSubstr("rank 2 exited with status 139"));
  EXPECT_THAT(join(job_of(server, 1, 3)).get(), HasSubstr("rank 2 exited with status 139"));
}

TEST(Rendezvous, ARankMayComeBeforeTheServer) {
  std::string endpoint;
  {
    const Server earlier({"127.0.0.1", 0, 1, kToken});
    endpoint = earlier.endpoint();
  }
  JobEnvironment job;
  job.world = 2;
  job.token = kToken;
  job.rendezvous = endpoint;
  auto zero = join(job);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const Server server({"127.0.0.1", net::parse_endpoint(endpoint, "test").port, 2, kToken});
  auto one = join(job_of(server, 1, 2));
  EXPECT_EQ(zero.get(), "");
  EXPECT_EQ(one.get(), "");
}

TEST(Rendezvous, APortInUseIsNamed) {
  const Server server({"127.0.0.1", 0, 2, kToken});
  const net::Endpoint taken = net::parse_endpoint(server.endpoint(), "test");
  try {
    const Server second({"127.0.0.1", taken.port, 2, kToken});
    FAIL() << "two servers on one port";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr(server.endpoint()));
  }
}

TEST(Rendezvous, AnUnreachableServerIsNamed) {
  JobEnvironment job;
  job.world = 2;
  job.token = kToken;
  {
    const Server earlier({"127.0.0.1", 0, 1, kToken});
    job.rendezvous = earlier.endpoint();
  }
  EXPECT_THAT(join(job, 0.3).get(), HasSubstr(job.rendezvous));
}

// A rank that has proven the token and not said yet where it listens.
net::Fd introduced(const Server& server, int rank, int world) {
  net::Fd socket = stranger(server.endpoint());
  net::introduce(socket, {net::kRendezvousRank, rank, world}, kToken, Deadline::after(30), "the rendezvous");
  return socket;
}

void say(const net::Fd& socket, const std::string& text) {
  std::string error;
  EXPECT_TRUE(net::write_fully(socket, text.data(), text.size(), Deadline::after(30), error)) << error;
}

Notice next_notice(const net::Fd& socket, std::string& body) {
  char header[kNoticeHeaderSize] = {};
  std::string error;
  EXPECT_TRUE(net::read_fully(socket, header, sizeof header, Deadline::after(30), error)) << error;
  body.resize(net::get_u32(header + 8));
  EXPECT_TRUE(net::read_fully(socket, body.data(), body.size(), Deadline::after(30), error)) << error;
  return static_cast<Notice>(net::get_u32(header));
}

TEST(Rendezvous, NoHostsNameIsCut) {
  const std::string longest(253, 'h');
  const net::Endpoint entry = decode_entry(encode_entry({longest, 29400}).data());
  EXPECT_EQ(entry.address, longest);
  EXPECT_EQ(entry.port, 29400);
  EXPECT_THROW(encode_entry({std::string(256, 'h'), 29400}), InputError);
}

TEST(Rendezvous, ARegistrationMayComeByteByByte) {
  const Server server({"127.0.0.1", 0, 2, kToken});
  const net::Fd zero = introduced(server, 0, 2);
  for (const char c : encode_entry(place_of(0))) {
    say(zero, std::string(1, c));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(join(job_of(server, 1, 2)).get(), "");
}

TEST(Rendezvous, WhoWaitsIsToldOncePerArrival) {
  const Server server({"127.0.0.1", 0, 3, kToken});
  const net::Fd zero = introduced(server, 0, 3);
  say(zero, encode_entry(place_of(0)));
  std::string body;
  EXPECT_EQ(next_notice(zero, body), Notice::kWaiting);
  EXPECT_EQ(body, "1 of 3 ranks are here; missing: 1, 2");
  {  // strangers and halves of a registration are no news
    const net::Fd silent = stranger(server.endpoint());
    const net::Fd half = introduced(server, 2, 3);
    say(half, encode_entry(place_of(2)).substr(0, 10));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    say(half, encode_entry(place_of(2)).substr(10));
    EXPECT_EQ(next_notice(zero, body), Notice::kWaiting);
    EXPECT_EQ(body, "2 of 3 ranks are here; missing: 1");
  }
}

TEST(Rendezvous, ARankThatIsGoneHasNotCome) {
  for (const bool rudely : {false, true}) {
    const Server server({"127.0.0.1", 0, 2, kToken});
    net::Fd zero = introduced(server, 0, 2);
    say(zero, encode_entry(place_of(0)));
    std::string body;
    EXPECT_EQ(next_notice(zero, body), Notice::kWaiting);
    const linger rude{1, 0};
    if (rudely) ::setsockopt(zero.get(), SOL_SOCKET, SO_LINGER, &rude, sizeof rude);
    zero.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_THAT(join(job_of(server, 1, 2), 0.5).get(), HasSubstr("missing: 0")) << rudely;
  }
}

TEST(Rendezvous, ARankThatDiedBeforeItRegisteredMayComeAgain) {
  const Server server({"127.0.0.1", 0, 2, kToken});
  introduced(server, 0, 2).reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  auto zero = join(job_of(server, 0, 2)), one = join(job_of(server, 1, 2));
  EXPECT_EQ(zero.get(), "");
  EXPECT_EQ(one.get(), "");
}

TEST(Rendezvous, ARankOutsideOfTheWorldFailsAllAndIsNamed) {
  for (const int rank : {3, 4, -1}) {
    const Server server({"127.0.0.1", 0, 3, kToken});
    auto zero = join(job_of(server, 0, 3));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_NE(join(job_of(server, rank, 3), 2).get(), "");
    EXPECT_THAT(zero.get(), AllOf(HasSubstr(fmt::format("rank {} came", rank)), HasSubstr("0..2")));
  }
}

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST(Rendezvous, RanksThatWereTurnedAwayLeaveNothingOpen) {
  Server server({"127.0.0.1", 0, 3, kToken});
  server.abort("there will be no job");
  const size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    net::Fd rank = introduced(server, 0, 3);
    std::string body;
    EXPECT_EQ(next_notice(rank, body), Notice::kFailed);
    if (i % 2 == 0) continue;  // hangs up with nothing unread
    say(rank, "late");         // and with something that nobody has read
    const linger rude{1, 0};
    ::setsockopt(rank.get(), SOL_SOCKET, SO_LINGER, &rude, sizeof rude);
  }
  const Deadline deadline = Deadline::after(10.0);
  while (open_descriptors() > before && !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LE(open_descriptors(), before);
}

TEST(Rendezvous, ARankThatSaysMoreThanItsRegistrationHasNotCome) {
  const Server server({"127.0.0.1", 0, 2, kToken});
  const net::Fd zero = introduced(server, 0, 2);
  const std::string text = encode_entry(place_of(0)) + std::string(300, 'x');
  say(zero, text.substr(0, 10));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  say(zero, text.substr(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_THAT(join(job_of(server, 1, 2), 0.5).get(), HasSubstr("missing: 0"));
}

TEST(Rendezvous, ARankThatComesAfterTheStartIsToldSo) {
  const Server server({"127.0.0.1", 0, 2, kToken});
  auto zero = join(job_of(server, 0, 2)), one = join(job_of(server, 1, 2));
  EXPECT_EQ(zero.get(), "");
  EXPECT_EQ(one.get(), "");
  EXPECT_THAT(join(job_of(server, 1, 2), 5).get(),
              HasSubstr("rank 1 came twice: the job has already started"));
}

TEST(Rendezvous, TheFirstFailureIsTheReason) {
  Server server({"127.0.0.1", 0, 3, kToken});
  EXPECT_NE(join(job_of(server, 2, 5)).get(), "");
  EXPECT_THAT(join(job_of(server, 0, 3), 5).get(), HasSubstr("rank 2 was started for a world of 5"));
  server.abort("all others ended, too");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_THAT(join(job_of(server, 1, 3), 5).get(), HasSubstr("rank 2 was started for a world of 5"));
}

TEST(Rendezvous, AFailureSaysWhoseItIs) {
  const Server server({"127.0.0.1", 0, 3, kToken});
  auto zero = std::async(std::launch::async, [&] {
    try {
      meet(job_of(server, 0, 3), place_of(0), Deadline::after(30));
    } catch (const PeerError& e) {
      return e.peer();
    }
    return -2;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_NE(join(job_of(server, 2, 5)).get(), "");
  EXPECT_EQ(zero.get(), 2);
}

}  // namespace
}  // namespace entrain::rendezvous
