// Frames into a socket and out of it, one system call at a time.
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "entrain/net/socket.h"
#include "entrain/transport/tcp/frame_reader.h"
#include "entrain/transport/tcp/frame_writer.h"

namespace entrain::transport {
namespace {

struct SocketPair {
  SocketPair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    near = net::Fd(fds[0]);
    far = net::Fd(fds[1]);
    near_channel = std::make_unique<net::PlainChannel>(near);
    far_channel = std::make_unique<net::PlainChannel>(far);
  }
  net::Fd near, far;
  std::unique_ptr<net::PlainChannel> near_channel, far_channel;
};

OutFrame frame_with(const std::string& text) {
  OutFrame frame;
  frame.header = {FrameType::kAbort, 1, text.size()};
  frame.text = text;
  return frame;
}

// Puts payloads into pieces of three bytes, each in memory of its own.
struct Pieces final : FrameReader::Handler {
  std::vector<Bytes> on_header(const FrameHeader& header) override {
    std::vector<Bytes> spans;
    for (size_t at = 0; at < header.length; at += 3) {
      std::string& piece =
          *pieces.emplace_back(std::make_unique<std::string>(std::min<size_t>(3, header.length - at), '-'));
      spans.push_back(std::as_writable_bytes(std::span(piece)));
    }
    return spans;
  }
  void on_frame() override { ++frames; }
  std::string text() const {
    std::string all;
    for (const auto& piece : pieces) all += *piece;
    return all;
  }

  std::vector<std::unique_ptr<std::string>> pieces;
  int frames = 0;
};

TEST(FrameWriter, TellsAFullSocketFromABrokenOne) {
  SocketPair pair;
  const std::string much(1 << 20, 'x');
  while (::send(pair.near.get(), much.data(), much.size(), MSG_NOSIGNAL) > 0) {
  }
  FrameWriter writer;
  std::vector<OutFrame> finished;
  writer.push(frame_with("hello"));
  const auto full = writer.write(*pair.near_channel, SIZE_MAX, finished);
  EXPECT_TRUE(full.blocked);
  EXPECT_EQ(full.bytes, 0u);
  EXPECT_EQ(full.error, 0);
  pair.far.reset();
  const auto broken = writer.write(*pair.near_channel, SIZE_MAX, finished);
  EXPECT_FALSE(broken.blocked);
  EXPECT_EQ(broken.error, EPIPE);
}

TEST(FrameWriter, GivesBackWhatItHasNotBegunToWrite) {
  const size_t first = FrameHeader::kSize + std::string("first").size();
  for (const size_t written : {first - 3, first}) {  // the frames behind the first are untouched either way
    SocketPair pair;
    FrameWriter writer;
    std::vector<OutFrame> finished;
    for (const char* text : {"first", "second", "third"}) writer.push(frame_with(text));
    EXPECT_EQ(writer.write(*pair.near_channel, written, finished).bytes, written);
    EXPECT_EQ(writer.take_untouched().size(), 2u);
    EXPECT_EQ(writer.bytes_left(), first - written);
    EXPECT_FALSE(writer.write(*pair.near_channel, SIZE_MAX, finished).blocked);
    EXPECT_EQ(finished.size(), 1u);
  }
}

TEST(FrameReader, ReadsNoMoreThanItMayAndPutsEachByteInItsPlace) {
  SocketPair pair;
  FrameWriter writer;
  std::vector<OutFrame> finished;
  writer.push(frame_with("one, "));
  writer.push(frame_with("two, three"));
  writer.write(*pair.near_channel, SIZE_MAX, finished);
  FrameReader reader;
  Pieces pieces;
  const auto begun = reader.read(*pair.far_channel, FrameHeader::kSize, pieces);
  EXPECT_EQ(begun.bytes, FrameHeader::kSize);
  EXPECT_TRUE(begun.more);
  const auto all = reader.read(*pair.far_channel, SIZE_MAX, pieces);
  EXPECT_FALSE(all.more);
  EXPECT_EQ(pieces.text(), "one, two, three");
  EXPECT_EQ(pieces.frames, 2);
}

TEST(FrameReader, TellsAQuietSocketFromAnEndedOne) {
  SocketPair pair;
  FrameReader reader;
  Pieces pieces;
  const auto quiet = reader.read(*pair.far_channel, SIZE_MAX, pieces);
  EXPECT_EQ(quiet.status, FrameReader::Status::kOpen);
  EXPECT_EQ(quiet.bytes, 0u);
  pair.near.reset();
  EXPECT_EQ(reader.read(*pair.far_channel, SIZE_MAX, pieces).status, FrameReader::Status::kEnd);
}

}  // namespace
}  // namespace entrain::transport
