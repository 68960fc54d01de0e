#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "entrain/base/blas.h"
#include "entrain/base/clock.h"
#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/json_depth.h"
#include "entrain/base/json_number.h"
#include "entrain/base/log.h"
#include "entrain/base/memory.h"
#include "entrain/base/quantile.h"
#include "entrain/base/reason.h"
#include "entrain/base/sha256.h"
#include "entrain/base/units.h"
#include "support/temp_dir.h"

namespace entrain {
namespace {

TEST(Sha256, MatchesThePublishedVectors) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The length of the padding depends on what is left beyond whole blocks. From Python's hashlib.
TEST(Sha256, IsRightForEveryLengthOfTheLastBlock) {
  Sha256 all;
  for (size_t size = 0; size < 130; ++size) {
    const Digest digest = Sha256().update(std::string(size, 'x')).finish();
    all.update(std::span<const uint8_t>(digest));
  }
  EXPECT_EQ(hex(all.finish()), "6d0989028287a2bd990515b95658bb810cf688b69517dfc49e4b3778e0b6d923");
}

TEST(Sha256, DigestsAreEqualOnlyWhereEachByteIs) {
  const Digest digest = sha256("a");
  EXPECT_TRUE(equal_digests(digest, sha256("a")));
  for (size_t i = 0; i < digest.size(); ++i) {
    Digest other = digest;
    other[i] ^= 0x10;
    EXPECT_FALSE(equal_digests(digest, other)) << i;
  }
}

TEST(Sha256, RandomBytesDiffer) {
  EXPECT_EQ(random_bytes(16).size(), 16u);
  EXPECT_NE(random_bytes(16), random_bytes(16));
  EXPECT_EQ(random_bytes(0), "");
}

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  std::string data(10'000, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * i >> 3);
  Sha256 pieces;
  for (size_t at = 0, piece = 1; at < data.size(); at += piece, piece = piece * 3 % 211) {
    pieces.update(std::string_view(data).substr(at, piece));
  }
  EXPECT_EQ(hex(pieces.finish()), hex(sha256(data)));
}

TEST(Sha256, HmacMatchesRfc4231) {
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(
      hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

// A key of up to one block is taken as it is. From Python's hmac.
TEST(Sha256, HmacTakesKeysOfAWholeBlock) {
  EXPECT_EQ(hex(hmac_sha256(std::string(64, 'k'), "message")),
            "890f3a16e0ca0aaa3bf180f70fa8e3970b3fd6505e98fde157988dcc19d1685c");
  EXPECT_EQ(hex(hmac_sha256(std::string(65, 'k'), "message")),
            "0c256505306af48015530c139bb7add5ad7a6a9291cd511278a067e765816fbd");
}

TEST(Deadline, PassesAndNeverPasses) {
  EXPECT_TRUE(Deadline::after(0).passed());
  EXPECT_FALSE(Deadline::after(60).passed());
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_GT(Deadline::never().left_ms(), 1000);
}

TEST(Deadline, ThatIsFartherThanClocksCountIsStillAhead) {
  for (const double seconds : {1e10, 1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_GT(Deadline::after(seconds).left().count(), 1000) << seconds;
  }
}

TEST(Files, AtomicWriteReplacesAndLeavesNothingBeside) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("entrain-files-{}", ::getpid());
  std::filesystem::create_directories(folder);
  write_file_atomically(folder / "a", "old");
  write_file_atomically(folder / "a", "new");
  EXPECT_EQ(read_file(folder / "a"), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_THROW(read_file(folder / "missing"), InputError);
  EXPECT_THROW(read_file(folder), InputError);
  std::filesystem::remove_all(folder);
}

TEST(Files, AnUncommittedFileLeavesTheOldContent) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("entrain-atomic-{}", ::getpid());
  std::filesystem::create_directories(folder);
  write_file_atomically(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("half");
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  {
    AtomicFile file(folder / "a");
    file.write("?? streamed");
    file.write(" in parts");
    file.write_at(0, "is");
    EXPECT_THROW(file.write_at(~uint64_t{0}, "x"), Error);
    file.commit();
  }
  EXPECT_EQ(read_file(folder / "a"), "is streamed in parts");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

TEST(Files, ALinkUnderTheTemporaryNameIsNotFollowed) {
  const test::TempDir folder;
  write_file_atomically(folder.path() / "precious", "mine");
  const auto beside = folder.path() / fmt::format("a.tmp-{}", ::getpid());
  std::filesystem::create_symlink(folder.path() / "precious", beside);
  write_file_atomically(folder.path() / "a", "new");
  EXPECT_EQ(read_file(folder.path() / "precious"), "mine");
  EXPECT_EQ(read_file(folder.path() / "a"), "new");
  EXPECT_FALSE(std::filesystem::is_symlink(folder.path() / "a"));
}

TEST(Files, ADeviceThatNeverEndsIsRefused) { EXPECT_THROW(read_file("/dev/zero"), InputError); }

TEST(Reason, IsOneLineWithoutLibtorchsBacktrace) {
  EXPECT_EQ(
      reason_of(std::runtime_error("out of memory.\nTried 4 GB.\nException raised from f at g.cc:3 (most "
                                   "recent call first):\nframe #0: h")),
      "out of memory. Tried 4 GB.");
  EXPECT_EQ(reason_of(std::runtime_error("\nException raised from f")), "");
  EXPECT_EQ(reason_of(std::runtime_error("as it is")), "as it is");
}

TEST(JsonDepth, CountsWhatIsOpenOutsideStrings) {
  EXPECT_NO_THROW(check_json_depth(std::string(64, '[')));
  EXPECT_THROW(check_json_depth(std::string(65, '{')), InputError);
  EXPECT_NO_THROW(check_json_depth(R"({"a": ")" + std::string(1000, '[') + R"(\"[[", "b": 1})"));
  std::string flat;
  for (int i = 0; i < 1000; ++i) flat += "[]";
  EXPECT_NO_THROW(check_json_depth(flat));
}

TEST(Files, AFolderThatCannotBeMadeIsNamedWithTheReason) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("entrain-folder-{}", ::getpid());
  make_folders(folder / "a/b");
  make_folders(folder / "a/b");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b"));
  write_file_atomically(folder / "file", "");
  for (const auto& path : {folder / "file", folder / "file/below", std::filesystem::path("/proc/entrain")}) {
    try {
      make_folders(path);
      ADD_FAILURE() << path;
    } catch (const InputError& e) {
      EXPECT_TRUE(std::string(e.what()).starts_with("cannot make folder " + path.string() + ": "))
          << e.what();
    }
  }
  std::filesystem::remove_all(folder);
}

TEST(Files, AFilesystemErrorIsToldWithoutTheNamesOfFunctions) {
  try {
    (void)std::filesystem::file_size("/nosuch/file");
    ADD_FAILURE();
  } catch (const std::filesystem::filesystem_error& e) {
    EXPECT_EQ(describe(e), "/nosuch/file: No such file or directory");
  }
}

TEST(Files, AFilesystemErrorNamesBothPaths) {
  const std::error_code missing = std::make_error_code(std::errc::no_such_file_or_directory);
  EXPECT_EQ(describe(std::filesystem::filesystem_error("rename", "/a", "/b", missing)),
            "/a, /b: No such file or directory");
  EXPECT_EQ(describe(std::filesystem::filesystem_error("status", missing)), "No such file or directory");
}

TEST(Files, ALineLogKeepsWhatWasThere) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("entrain-lines-{}", ::getpid());
  std::filesystem::create_directories(folder);
  LineLog(folder / "log").append("one");
  {
    LineLog log(folder / "log");
    log.append("two");
    EXPECT_EQ(read_file(folder / "log"), "one\ntwo\n");  // at once
    log.append("");
  }
  EXPECT_EQ(read_file(folder / "log"), "one\ntwo\n\n");
  EXPECT_THROW(LineLog(folder / "missing/log"), Error);
  std::filesystem::remove_all(folder);
}

TEST(Log, OnlyRankZeroTellsWhatGoesWell) {
  unsetenv("ENTRAIN_LOG");
  const auto shown = [](int rank) {
    ::testing::internal::CaptureStderr();
    init_logging(rank);
    log_info("well");
    log_warn("not well");
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(shown(0), "info [rank 0] well\nwarning [rank 0] not well\n");
  EXPECT_EQ(shown(1), "warning [rank 1] not well\n");
  EXPECT_EQ(shown(-1), "info well\nwarning not well\n");
}

TEST(Units, ReadWell) {
  EXPECT_EQ(format_bytes(134'217'728), "134.2 MB");
  EXPECT_EQ(format_bytes(12), "12 B");
  EXPECT_EQ(format_seconds(1.614), "1.61 s");
  EXPECT_EQ(format_seconds(0.32), "320 ms");
  EXPECT_EQ(format_seconds(0.00747), "7.5 ms");
  EXPECT_EQ(format_seconds(0.000747), "747 us");
  EXPECT_EQ(format_seconds(0.9997), "1.00 s");
  EXPECT_EQ(format_seconds(59.999), "1 min 00 s");
  EXPECT_EQ(format_seconds(7380), "2 h 03 min");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.0 kB");
  EXPECT_EQ(format_bytes(2.5e9), "2.5 GB");
  EXPECT_EQ(format_bytes(3e15), "3000.0 TB");
  EXPECT_EQ(format_seconds(999e-6), "999 us");
  EXPECT_EQ(format_seconds(0.001), "1.0 ms");
  EXPECT_EQ(format_seconds(9.94e-3), "9.9 ms");
  EXPECT_EQ(format_seconds(9.95e-3), "10 ms");
  EXPECT_EQ(format_seconds(0.9994), "999 ms");
  EXPECT_EQ(format_seconds(59.99), "59.99 s");
  EXPECT_EQ(format_seconds(3599), "59 min 59 s");
  EXPECT_EQ(format_seconds(3600), "1 h 00 min");
}

TEST(Quantile, LiesBetweenTheNeighbours) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(quantile({30, 10, 20}, 0), 10);
  EXPECT_EQ(quantile({30, 10, 20}, 0.25), 15);
  EXPECT_EQ(quantile({30, 10, 20}, 1), 30);
  EXPECT_EQ(quantile({10, 50, 20}, 0.75), 35);
}

#if defined(__GLIBC__)
// Whether a large block is asked of the system by itself, in a process of its own.
bool maps_large_blocks(const std::function<void()>& prepare) {
  const pid_t child = fork();
  if (child == 0) {
    prepare();
    void* volatile block = std::malloc(64 << 20);
    _exit(block != nullptr && mallinfo2().hblks > 0 ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status) == 1;
}

TEST(Memory, FreedBlocksAreKeptUnlessTheUserHasSettingsOfHisOwn) {
  if (!maps_large_blocks([] {})) GTEST_SKIP() << "another allocator, or settings of its own";
  EXPECT_FALSE(maps_large_blocks([] { keep_freed_memory(); }));
  EXPECT_TRUE(maps_large_blocks([] {
    setenv("MALLOC_TRIM_THRESHOLD_", "1000000", 1);
    keep_freed_memory();
  }));
}
#endif

TEST(Blas, TakesNewerKernelsOnlyWhereTheProcessorHasThem) {
  EXPECT_EQ(detail::faster_kernels("Prescott", true, true), "SkylakeX");
  EXPECT_EQ(detail::faster_kernels("Prescott", true, false), "Haswell");
  EXPECT_EQ(detail::faster_kernels("Prescott", false, false), "");
  EXPECT_EQ(detail::faster_kernels("Zen", true, true), "");
  EXPECT_EQ(detail::faster_kernels("", true, true), "");  // another BLAS
}

TEST(Units, AreReadAsPeopleWriteThem) {
  EXPECT_EQ(parse_bytes("--memory", "16GiB"), int64_t{16} << 30);
  EXPECT_EQ(parse_bytes("--memory", "1.5 gb"), 1'500'000'000);
  EXPECT_EQ(parse_bytes("--memory", "4096"), 4096);
  EXPECT_EQ(parse_bytes("--memory", "1"), 1);
  EXPECT_EQ(parse_bytes("--memory", "1e18"), 1'000'000'000'000'000'000);
  EXPECT_EQ(parse_bytes("--memory", "2kb"), 2'000);
  EXPECT_EQ(parse_bytes("--memory", "3 MiB"), 3 << 20);
  EXPECT_EQ(parse_bytes("--memory", "2TiB"), int64_t{2} << 40);
  EXPECT_DOUBLE_EQ(parse_rate("--link", "1gbit"), 1.25e8);
  EXPECT_DOUBLE_EQ(parse_rate("--link", "0.5 kbit"), 62.5);
  EXPECT_DOUBLE_EQ(parse_rate("--link", "300Mbit"), 3.75e7);
  EXPECT_DOUBLE_EQ(parse_rate("--link", "1tbit"), 1.25e11);
  for (const char* text :
       {"", "GiB", "-1GiB", "0", "16GiBs", "infGiB", "nan", "1e300", "0.5", "1.01e18", "1  GB"}) {
    EXPECT_THROW(parse_bytes("--memory", text), InputError) << text;
  }
  for (const char* text : {"1", "1gb", "0gbit", "gbit"}) {
    EXPECT_THROW(parse_rate("--link", text), InputError) << text;
  }
}

TEST(JsonNumber, WhatIsNotFiniteIsWrittenAsNullAndReadAsNan) {
  for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    const auto read = nlohmann::json::parse(nlohmann::json{{"loss", value}}.dump());
    EXPECT_TRUE(std::isnan(number_of(read["loss"])));
  }
  EXPECT_EQ(number_of(nlohmann::json::parse("[0.25]")[0]), 0.25);
}

}  // namespace
}  // namespace entrain
