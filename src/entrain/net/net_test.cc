// Addresses, numbers on the wire, and who is let in.
#include <gmock/gmock.h>

#include <future>

#include "entrain/base/error.h"
#include "entrain/net/handshake.h"
#include "entrain/net/wire.h"

namespace entrain::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Deadline soon() { return Deadline::after(30); }

TEST(Endpoint, IsReadAsItIsWritten) {
  for (const char* text : {"10.0.0.3:4411", "[fe80::1]:4411", "node7:1", "node7:65535"}) {
    EXPECT_EQ(parse_endpoint(text, "field").text(), text);
  }
  EXPECT_EQ(parse_endpoint("[fe80::1]:4411", "field").address, "fe80::1");
  EXPECT_EQ(parse_endpoint("[fe80::1]:4411", "field").port, 4411);
}

TEST(Endpoint, NonsenseIsNamedWithItsField) {
  for (const char* text : {"", "nowhere", ":4411", "a:", "a:0", "a:65536", "a:-1", "a:12x"}) {
    try {
      parse_endpoint(text, "ENTRAIN_RENDEZVOUS");
      ADD_FAILURE() << text;
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("ENTRAIN_RENDEZVOUS"), HasSubstr(text), HasSubstr("1 to 65535")));
    }
  }
}

TEST(Wire, NumbersAreLittleEndian) {
  std::string out;
  put_u32(out, 0x8070605fU);
  EXPECT_EQ(out, std::string("\x5f\x60\x70\x80"));
  EXPECT_EQ(get_u32(out.data()), 0x8070605fU);
  char bytes[8];
  store_le(bytes, 0xfedcba9876543210U, 8);
  EXPECT_EQ(bytes[0], 0x10);
  EXPECT_EQ(load_le(bytes, 8), 0xfedcba9876543210U);
}

TEST(Socket, WholeMessagesOrTheReasonWhyNot) {
  const Fd listener = listen_on({"127.0.0.1", 0});
  std::string error;
  const Fd client = connect_to(local_endpoint(listener), "127.0.0.1", soon(), error);
  ASSERT_TRUE(client) << error;
  Fd server = accept_one(listener);
  ASSERT_TRUE(server);
  EXPECT_EQ(remote_endpoint(server).text(), local_endpoint(client).text());
  ASSERT_TRUE(write_fully(client, "whole", 5, soon(), error)) << error;
  std::string text(5, ' ');
  ASSERT_TRUE(read_fully(server, text.data(), text.size(), soon(), error)) << error;
  EXPECT_EQ(text, "whole");
  EXPECT_FALSE(read_fully(server, text.data(), text.size(), Deadline::after(0.05), error));
  EXPECT_THAT(error, HasSubstr("in time"));
  server.reset();
  EXPECT_FALSE(server);
  EXPECT_FALSE(read_fully(client, text.data(), text.size(), soon(), error));
  EXPECT_FALSE(error.empty());
}

TEST(Handshake, AProofForOneListenerOpensNoOther) {
  // A client that means rank 1 must not be let in by rank 0.
  Doorkeeper door(listen_on({"127.0.0.1", 0}), 0, 3, "token");
  const Endpoint endpoint = local_endpoint(door.listener());
  const auto try_as = [&](int server) {
    auto client = std::async(std::launch::async, [&, server] {
      std::string error;
      const Fd socket = connect_to(endpoint, "127.0.0.1", soon(), error);
      try {
        introduce(socket, {server, 2, 3}, "token", soon(), "the door");
      } catch (const Error&) {
        return false;
      }
      return true;
    });
    int guest = -1;
    while (client.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      door.serve([&](Fd, int rank, int) { guest = rank; });
    }
    return client.get() ? guest : -1;
  };
  EXPECT_EQ(try_as(1), -1);
  EXPECT_EQ(try_as(0), 2);
}

}  // namespace
}  // namespace entrain::net
