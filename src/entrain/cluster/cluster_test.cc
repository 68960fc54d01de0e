#include "entrain/cluster/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/cluster/parsers.h"

namespace entrain::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no InputError";
}

class Files : public ::testing::Test {
 protected:
  Files() { std::filesystem::create_directories(folder_); }
  ~Files() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) {
    write_file_atomically(folder_ / name, content);
    return (folder_ / name).string();
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("entrain_cluster_" + std::to_string(::getpid()));
};

TEST(Shorthand, LocalIsOneHost) {
  const Cluster c = parse("local:4");
  EXPECT_EQ(c.kind, Kind::kLocal);
  EXPECT_EQ(c.name, "local:4");
  ASSERT_EQ(c.hosts.size(), 1u);
  EXPECT_EQ(c.hosts[0].address, "127.0.0.1");
  EXPECT_EQ(c.world(), 4);
  EXPECT_EQ(c.workers(), 4);
}

TEST(Shorthand, LabGroups) {
  const Cluster c = parse("lab:1x10gbit+2x300mbit/ranks=2/speed=0.5/cpus=4+1x2.5gbit/server");
  EXPECT_EQ(c.kind, Kind::kLab);
  ASSERT_EQ(c.hosts.size(), 4u);
  EXPECT_EQ(c.hosts[0].address, "198.18.0.1");
  EXPECT_EQ(c.hosts[3].address, "198.18.0.4");
  EXPECT_DOUBLE_EQ(c.hosts[0].bandwidth_gbit, 10);
  EXPECT_DOUBLE_EQ(c.hosts[1].bandwidth_gbit, 0.3);
  EXPECT_EQ(c.hosts[1].workers, 2);
  EXPECT_DOUBLE_EQ(c.hosts[1].speed, 0.5);
  EXPECT_EQ(c.hosts[1].cpus, 4);
  EXPECT_EQ(c.hosts[0].cpus, 0);
  EXPECT_TRUE(c.hosts[3].server_only());
  EXPECT_EQ(parse("lab:251x1gbit").hosts[250].address, "198.18.1.1");
}

TEST(Shorthand, RanksGoHostByHostAndAServerHasOne) {
  const Cluster c = parse("lab:2x1gbit/ranks=2+1x10gbit/server+1x1gbit");
  EXPECT_EQ(c.world(), 6);
  EXPECT_EQ(c.workers(), 5);
  const std::vector<int> hosts = {0, 0, 1, 1, 2, 3};
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(c.host_of(rank), hosts[rank]);
    EXPECT_EQ(c.is_worker(rank), rank != 4);
  }
  EXPECT_THAT(c.worker_ranks(), ::testing::ElementsAre(0, 1, 2, 3, 5));
  EXPECT_THAT(parse("local:3").worker_ranks(), ::testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(c.first_rank(2), 4);
  EXPECT_EQ(c.first_rank(3), 5);
  EXPECT_THROW(c.host_of(6), Error);
  EXPECT_THROW(c.host_of(-1), Error);
}

TEST(Shorthand, ErrorsNameTheWrongWordAndWhatIsAllowed) {
  EXPECT_THAT(error_of("local:0"), HasSubstr("1 to 4096"));
  EXPECT_THAT(error_of("local:many"), HasSubstr("many"));
  EXPECT_THAT(error_of("local:4097"), HasSubstr("4096"));
  EXPECT_THAT(error_of("lab:"), HasSubstr("COUNTxRATE"));
  EXPECT_THAT(error_of("lab:4x1gbit+"), HasSubstr("COUNTxRATE"));
  EXPECT_THAT(error_of("lab:4x1gb"), AllOf(HasSubstr("1gb"), HasSubstr("300mbit")));
  EXPECT_THAT(error_of("lab:4x0gbit"), HasSubstr("above 0"));
  EXPECT_THAT(error_of("lab:4x-1gbit"), HasSubstr("rate is"));
  EXPECT_THAT(error_of("lab:4xinfgbit"), HasSubstr("rate is"));
  EXPECT_THAT(error_of("lab:0x1gbit"), HasSubstr("host count"));
  EXPECT_THAT(error_of("lab:2x1gbit/gpu"), AllOf(HasSubstr("/gpu"), HasSubstr("/server")));
  EXPECT_THAT(error_of("lab:2x1gbit/server/ranks=2"), HasSubstr("exclude"));
  EXPECT_THAT(error_of("lab:1x1gbit/server+2x1gbit"), HasSubstr("list a worker first"));
  EXPECT_THAT(error_of("lab:2x1gbit/server"), HasSubstr("at least one must train"));
  EXPECT_THAT(error_of("lab:4000x1gbit/ranks=2"), HasSubstr("4096"));
}

TEST(Cluster, FindsHostsAndDevices) {
  const Cluster c = parse("lab:2x1gbit");
  EXPECT_EQ(c.find("198.18.0.2"), 1);
  EXPECT_EQ(c.find("198.18.0.2:CPU:0"), 1);
  EXPECT_EQ(c.find("198.18.0.2:GPU:3"), 1);
  EXPECT_EQ(c.find("198.18.0.3"), -1);
  EXPECT_EQ(host_part("fe80::1"), "fe80::1");
  EXPECT_EQ(host_part("fe80::1:CPU:0"), "fe80::1");
}

TEST(Cluster, LinksWithoutMeasurementAreAsFastAsTheSlowerEnd) {
  Cluster c = parse("lab:1x10gbit+2x1gbit");
  EXPECT_DOUBLE_EQ(c.gbit(0, 1), 1);
  EXPECT_GT(c.latency_s(0, 1), 0);
  c.links = {{0, 1, 0.94, 5e-5}};
  EXPECT_DOUBLE_EQ(c.gbit(0, 1), 0.94);
  EXPECT_DOUBLE_EQ(c.gbit(1, 0), 0.94);  // only the other direction was measured
  EXPECT_DOUBLE_EQ(c.latency_s(1, 0), 5e-5);
  EXPECT_DOUBLE_EQ(c.gbit(0, 2), 1);
}

TEST(Cluster, PairsThatNobodyMeasuredHaveNominalValues) {
  const Cluster c = parse("lab:2x1gbit/ranks=2");
  EXPECT_DOUBLE_EQ(c.gbit(0, 0), 40);
  EXPECT_DOUBLE_EQ(c.latency_s(0, 0), 20e-6);
  EXPECT_DOUBLE_EQ(c.latency_s(0, 1), 100e-6);
  EXPECT_DOUBLE_EQ(c.latency_s(1, 0), 100e-6);
}

TEST(Cluster, AMeasurementIsPreferredToTheOppositeDirections) {
  Cluster c = parse("lab:3x1gbit");
  c.links = {{1, 0, 0.8, 2e-5}, {0, 2, 0.7, 3e-5}, {0, 1, 0.9, 1e-5}};
  EXPECT_DOUBLE_EQ(c.gbit(0, 1), 0.9);
  EXPECT_DOUBLE_EQ(c.gbit(1, 0), 0.8);
  EXPECT_DOUBLE_EQ(c.gbit(2, 0), 0.7);
  EXPECT_DOUBLE_EQ(c.gbit(1, 2), 1);
  EXPECT_DOUBLE_EQ(c.latency_s(0, 1), 1e-5);
}

TEST(Cluster, FirstRanksAreKnownForItsHostsOnly) {
  const Cluster c = parse("lab:2x1gbit/ranks=2+1x1gbit/server");
  EXPECT_EQ(c.first_rank(0), 0);
  EXPECT_EQ(c.first_rank(1), 2);
  EXPECT_EQ(c.first_rank(2), 4);
  EXPECT_THROW(c.first_rank(3), Error);
  EXPECT_THROW(c.first_rank(-1), Error);
  EXPECT_THROW(c.host_of(5), Error);
}

TEST(Cluster, OfSomeRanksKeepsTheirHostsAndLinks) {
  Cluster c = parse("lab:1x1gbit/ranks=3+1x2gbit+1x3gbit/server+1x4gbit/ranks=2");
  c.links = {{0, 1, 0.1, 1e-5}, {0, 3, 0.3, 3e-5}, {3, 0, 0.4, 4e-5}, {2, 3, 0.5, 5e-5}};
  const Cluster some = restricted(c, {1, 2, 5});
  ASSERT_EQ(some.hosts.size(), 2u);
  EXPECT_EQ(some.hosts[0].address, c.hosts[0].address);
  EXPECT_EQ(some.hosts[0].workers, 2);
  EXPECT_EQ(some.hosts[1].address, c.hosts[3].address);
  EXPECT_EQ(some.hosts[1].workers, 1);
  ASSERT_EQ(some.links.size(), 2u);
  EXPECT_DOUBLE_EQ(some.gbit(0, 1), 0.3);
  EXPECT_DOUBLE_EQ(some.gbit(1, 0), 0.4);
}

TEST(Cluster, OnlyAutoDistsDevicesAreCutOff) {
  EXPECT_EQ(host_part("a:CPU:12"), "a");
  EXPECT_EQ(host_part("a:CPU:"), "a:CPU:");
  EXPECT_EQ(host_part("a:CPU:x"), "a:CPU:x");
  EXPECT_EQ(host_part("a:TPU:0"), "a:TPU:0");
}

TEST(Shorthand, TakesAsManyRanksAsItSays) {
  EXPECT_EQ(parse("local:1").world(), 1);
  EXPECT_EQ(parse("local:4096").world(), 4096);
  EXPECT_EQ(parse("lab:2048x1gbit/ranks=2").world(), 4096);
  EXPECT_EQ(parse("lab:2x1gbit/ranks=1").workers(), 2);
  EXPECT_THAT(error_of("lab:2048x1gbit/ranks=2+1x1gbit/server"), HasSubstr("4097 ranks, allowed: 1 to 4096"));
  EXPECT_THAT(error_of("lab:4096x1gbit+4096x1gbit"), HasSubstr("ranks, allowed: 1 to 4096"));
  EXPECT_THAT(error_of("lab:2xgbit"), HasSubstr("rate is \"gbit\", allowed: for instance"));
  EXPECT_THAT(error_of("lab:2x1gbit/speed=0"), HasSubstr("speed is \"0\", allowed: a number above 0"));
  EXPECT_THAT(error_of("lab:2x1gbit/ranks=0"), HasSubstr("ranks is \"0\", allowed: 1 to 4096"));
}

TEST(Shorthand, TheFirstHostIsTheChief) {
  const Cluster lab = parse("lab:2x1gbit+1x1gbit");
  EXPECT_TRUE(lab.hosts[0].chief);
  EXPECT_FALSE(lab.hosts[1].chief);
  EXPECT_FALSE(lab.hosts[2].chief);
  const Cluster local = parse("local:2");
  EXPECT_TRUE(local.hosts[0].chief);
  EXPECT_DOUBLE_EQ(local.hosts[0].bandwidth_gbit, 40);
}

// A cluster that a program makes comes with any numbers.
TEST(Cluster, IsCheckedHoweverItWasMade) {
  const auto error = [](void (*change)(Host&)) -> std::string {
    Cluster c = parse("lab:2x1gbit");
    change(c.hosts[1]);
    try {
      check(c, "mine");
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error([](Host&) {}), "");
  EXPECT_EQ(error([](Host& h) { h.speed = 0; }), "mine: host 198.18.0.2: speed is 0, allowed: above 0");
  EXPECT_EQ(error([](Host& h) { h.speed = INFINITY; }),
            "mine: host 198.18.0.2: speed is inf, allowed: above 0");
  EXPECT_EQ(error([](Host& h) { h.bandwidth_gbit = -1; }),
            "mine: host 198.18.0.2: network_bandwidth is -1, allowed: above 0");
  EXPECT_EQ(error([](Host& h) { h.memory_gib = -1; }),
            "mine: host 198.18.0.2: memory_gib is -1, allowed: 0 or more");
  EXPECT_EQ(error([](Host& h) { h.price_per_hour = NAN; }),
            "mine: host 198.18.0.2: price_per_hour is nan, allowed: 0 or more");
  EXPECT_EQ(error([](Host& h) { h.workers = -1; }),
            "mine: host 198.18.0.2: workers is -1, allowed: 0 or more");
}

TEST(Numbers, AreReadToTheEndOfTheirText) {
  EXPECT_EQ(parse_int(std::string_view("1234").substr(1, 2), 0, 99, "n"), 23);
  EXPECT_EQ(parse_int("0", 0, 9, "n"), 0);
  EXPECT_EQ(parse_int("9", 0, 9, "n"), 9);
  EXPECT_DOUBLE_EQ(parse_not_negative(std::string_view("1.25e3").substr(0, 4), "n"), 1.25);
  EXPECT_DOUBLE_EQ(parse_not_negative("0", "n"), 0);
  EXPECT_DOUBLE_EQ(parse_positive("0.001", "n"), 0.001);
  for (const char* text : {"", "x", "1x", "10", "-1", " 1", "99999999999"}) {
    EXPECT_THROW(parse_int(text, 0, 9, "n"), InputError) << text;
  }
  for (const char* text : {"", "x", "1x", "-1", "inf", "nan", " 1"}) {
    EXPECT_THROW(parse_not_negative(text, "n"), InputError) << text;
  }
  EXPECT_THROW(parse_positive("0", "n"), InputError);
}

TEST_F(Files, HostNamesAreThoseOfTheNetwork) {
  for (const char* name : {"a", "Z9", "node-0.example_x.org", "fe80::1%eth0", "0azAZ9"}) {
    EXPECT_EQ(parse(write("ok", std::string(name) + "\n")).hosts[0].address, name);
  }
  EXPECT_EQ(parse(write("long", std::string(253, 'a') + "\n")).workers(), 1);
  for (const std::string& name :
       {std::string(254, 'a'), std::string("-a"), std::string("a/b"), std::string("a;b"), std::string("a@b"),
        std::string("a[b"), std::string("a`b"), std::string("a{b")}) {
    EXPECT_THAT(error_of(write("bad", name + "\n")), HasSubstr("allowed: a host name or an IP address"))
        << name;
  }
}

TEST_F(Files, HostfilesOfOpenMpiAreRead) {
  const Cluster c = parse(write("hosts", "a slots=2 max_slots=4\nb max-slots=2 slots=3 # slots=9\n"));
  ASSERT_EQ(c.hosts.size(), 2u);
  EXPECT_EQ(c.hosts[0].workers, 2);
  EXPECT_EQ(c.hosts[1].workers, 3);
  EXPECT_TRUE(c.hosts[0].chief);
  EXPECT_FALSE(c.hosts[1].chief);
  EXPECT_THAT(error_of(write("none", "a slots=0\n")),
              HasSubstr("none:1: slots is \"0\", allowed: 1 to 4096"));
}

TEST_F(Files, HostfileWithCommentsAndSlots) {
  const std::string path =
      write("hosts", "# my cluster\n10.0.0.1 slots=4\n\nnode-2.example.org  # one rank\n");
  const Cluster c = parse(path);
  EXPECT_EQ(c.kind, Kind::kHosts);
  EXPECT_EQ(c.name, path);
  ASSERT_EQ(c.hosts.size(), 2u);
  EXPECT_EQ(c.hosts[0].workers, 4);
  EXPECT_EQ(c.hosts[1].address, "node-2.example.org");
  EXPECT_EQ(c.hosts[1].workers, 1);
}

TEST_F(Files, HostfileErrorsNameTheLine) {
  EXPECT_THAT(error_of(write("a", "10.0.0.1\n10.0.0.2 slots=x\n")), HasSubstr("a:2: slots is \"x\""));
  EXPECT_THAT(error_of(write("b", "10.0.0.1 cores=4\n")), AllOf(HasSubstr("b:1"), HasSubstr("slots=N")));
  EXPECT_THAT(error_of(write("c", "10.0.0.1\n10.0.0.1\n")), HasSubstr("twice"));
  EXPECT_THAT(error_of(write("d", "# nothing\n")), HasSubstr("no hosts"));
  EXPECT_THAT(error_of(write("e", "-oProxyCommand=x\n")), HasSubstr("host name"));
}

TEST_F(Files, WhatIsNoClusterListsTheForms) {
  EXPECT_THAT(error_of("nowhere.yml"),
              AllOf(HasSubstr("nowhere.yml"), HasSubstr("local:4"), HasSubstr("hostfile")));
  EXPECT_THAT(error_of(""), HasSubstr("lab:4x1gbit"));
  EXPECT_THAT(error_of(folder_.string()), HasSubstr("folder"));
}

TEST_F(Files, YamlBySuffix) {
  EXPECT_EQ(parse(write("c.yml", "nodes: [{address: 10.0.0.1}, {address: 10.0.0.2}]\n")).world(), 2);
}

}  // namespace
}  // namespace entrain::cluster
