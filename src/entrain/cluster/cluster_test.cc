#include "entrain/cluster/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "entrain/base/error.h"
#include "entrain/base/files.h"

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
  const Cluster c = parse("lab:1x10gbit+2x300mbit/ranks=2/speed=0.5+1x2.5gbit/server");
  EXPECT_EQ(c.kind, Kind::kLab);
  ASSERT_EQ(c.hosts.size(), 4u);
  EXPECT_EQ(c.hosts[0].address, "198.18.0.1");
  EXPECT_EQ(c.hosts[3].address, "198.18.0.4");
  EXPECT_DOUBLE_EQ(c.hosts[0].bandwidth_gbit, 10);
  EXPECT_DOUBLE_EQ(c.hosts[1].bandwidth_gbit, 0.3);
  EXPECT_EQ(c.hosts[1].workers, 2);
  EXPECT_DOUBLE_EQ(c.hosts[1].speed, 0.5);
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
