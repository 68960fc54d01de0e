#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "entrain/base/error.h"
#include "entrain/cluster/cluster.h"
#include "entrain/cluster/environment.h"

namespace entrain::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string error_of(const std::string& yaml) {
  try {
    cluster_from_yaml(yaml, "c.yml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no InputError";
}

TEST(Yaml, ReadsAutoDistsResourceSpec) {
  const Cluster c = cluster_from_yaml(R"(
nodes:
  - address: 10.20.41.126
    gpus: [0, 1]
    ssh_config: conf
    network_bandwidth: 10
  - address: 10.20.41.124
    cpus: [0]
    gpus: [0]
    chief: true
  - address: 10.20.41.125
    cpus: 16
ssh:
  conf:
    username: me
    key_file: /home/me/.ssh/id_rsa
)",
                                      "resource_spec.yml");
  ASSERT_EQ(c.hosts.size(), 3u);
  EXPECT_EQ(c.hosts[0].address, "10.20.41.124");  // the chief holds rank 0
  EXPECT_TRUE(c.hosts[0].chief);
  EXPECT_EQ(c.hosts[1].workers, 2);  // as many as GPUs
  EXPECT_EQ(c.hosts[1].ssh_config, "conf");
  EXPECT_DOUBLE_EQ(c.hosts[1].bandwidth_gbit, 10);
  EXPECT_EQ(c.hosts[2].workers, 1);
  EXPECT_EQ(c.hosts[2].cpus, 16);
  EXPECT_EQ(c.kind, Kind::kHosts);
  EXPECT_EQ(c.name, "resource_spec.yml");
}

TEST(Yaml, ReadsAndKeepsHowSshReachesAHost) {
  const Cluster read = cluster_from_yaml(R"(
nodes:
  - {address: a}
  - {address: b, ssh_config: conf}
ssh:
  none:
  conf:
    username: me
    port: 2222
    key_file: "~/.ssh/lab key"
    python_venv: source env/bin/activate
    shared_envs: {LD_LIBRARY_PATH: "/opt/lib:$HOME", N: 3}
)",
                                         "c.yml");
  for (const Cluster& c : {read, cluster_from_yaml(to_yaml(read), "x")}) {
    ASSERT_EQ(c.ssh.size(), 2u);
    EXPECT_EQ(c.hosts[1].ssh_config, "conf");
    const SshConfig& config = c.ssh.at("conf");
    EXPECT_EQ(config.username, "me");
    EXPECT_EQ(config.port, 2222);
    EXPECT_EQ(config.key_file, "~/.ssh/lab key");
    EXPECT_EQ(config.shared_envs.at("LD_LIBRARY_PATH"), "/opt/lib:$HOME");
    EXPECT_EQ(config.shared_envs.at("N"), "3");
    EXPECT_EQ(c.ssh.at("none").port, 0);
  }
}

TEST(Yaml, ReadsOurFields) {
  const Cluster c = cluster_from_yaml(R"(
nodes:
  - {address: a, workers: 2, speed: 0.5, memory_gib: 64, price_per_hour: 3.912}
  - {address: b, role: server, network_bandwidth: 25}
links:
  - {from: a, to: b, gbit: 9.4, latency_us: 30}
  - {from: b, to: a, gbit: 9.1}
)",
                                      "c.yml");
  EXPECT_EQ(c.hosts[0].workers, 2);
  EXPECT_DOUBLE_EQ(c.hosts[0].price_per_hour, 3.912);
  EXPECT_TRUE(c.hosts[1].server_only());
  EXPECT_DOUBLE_EQ(c.gbit(0, 1), 9.4);
  EXPECT_DOUBLE_EQ(c.gbit(1, 0), 9.1);
  EXPECT_DOUBLE_EQ(c.latency_s(0, 1), 30e-6);
  EXPECT_GT(c.latency_s(1, 0), 0);
}

// `entrain probe` writes what it measured; `entrain train` must then start the same lab.
TEST(Yaml, AProbedLabComesBackAsThatLab) {
  Cluster lab = parse("lab:1x10gbit+2x300mbit/ranks=2/speed=0.25+1x2.5gbit/server");
  lab.links = {{0, 1, 0.2871, 1.31e-4}, {1, 0, 0.2912, 9.7e-5}};
  const Cluster back = cluster_from_yaml(to_yaml(lab), "probed.yml");
  EXPECT_EQ(back.kind, Kind::kLab);
  EXPECT_EQ(back.name, lab.name);
  ASSERT_EQ(back.hosts.size(), lab.hosts.size());
  for (size_t i = 0; i < lab.hosts.size(); ++i) {
    EXPECT_EQ(back.hosts[i].address, lab.hosts[i].address);
    EXPECT_EQ(back.hosts[i].workers, lab.hosts[i].workers);
    EXPECT_EQ(back.hosts[i].chief, lab.hosts[i].chief);
    EXPECT_EQ(back.hosts[i].bandwidth_gbit, lab.hosts[i].bandwidth_gbit);
    EXPECT_EQ(back.hosts[i].speed, lab.hosts[i].speed);
  }
  ASSERT_EQ(back.links.size(), 2u);
  EXPECT_EQ(back.links[0].gbit, 0.2871);
  EXPECT_DOUBLE_EQ(back.links[1].latency_s, 9.7e-5);
  EXPECT_EQ(to_yaml(back), to_yaml(lab));
  EXPECT_EQ(cluster_from_yaml(to_yaml(parse("local:3")), "x").kind, Kind::kLocal);
}

TEST(Yaml, KeepsEveryHostField) {
  Cluster c;
  c.name = "odd \"name\": #1";
  c.hosts = {{"10.0.0.1", 8, 2, true, 12.5, 2, 64.5, 0.75, 3.06, "conf"}};
  const Cluster back = cluster_from_yaml(to_yaml(c), "x");
  EXPECT_EQ(back.name, c.name);
  const Host& host = back.hosts.at(0);
  EXPECT_EQ(host.cpus, 8);
  EXPECT_EQ(host.gpus, 2);
  EXPECT_EQ(host.memory_gib, 64.5);
  EXPECT_EQ(host.price_per_hour, 3.06);
  EXPECT_EQ(host.ssh_config, "conf");
}

// What is as usual is left out.
TEST(Yaml, IsWrittenAsPeopleWouldWriteIt) {
  Cluster c;
  c.name = "mine";
  Host trains, serves;
  trains.address = "a";
  trains.chief = true;
  serves.address = "b";
  serves.workers = 0;
  serves.bandwidth_gbit = 2.5;
  c.hosts = {trains, serves};
  EXPECT_EQ(to_yaml(c),
            "name: \"mine\"\nkind: hosts\nnodes:\n"
            "  - address: a\n    chief: true\n    workers: 1\n    network_bandwidth: 1\n    speed: 1\n"
            "  - address: b\n    role: server\n    network_bandwidth: 2.5\n    speed: 1\n");
  c.hosts = {{"a", 1, 1, false, 1, 1, 0.5, 1, 0.25, "s"}};
  c.links = {{0, 0, 40, 1e-5}};
  c.ssh["s"].port = 1;
  EXPECT_EQ(
      to_yaml(c),
      "name: \"mine\"\nkind: hosts\nnodes:\n"
      "  - address: a\n    cpus: 1\n    gpus: 1\n    workers: 1\n    network_bandwidth: 1\n    speed: 1\n"
      "    memory_gib: 0.5\n    price_per_hour: 0.25\n    ssh_config: s\n"
      "links:\n  - {from: a, to: a, gbit: 40, latency_us: 10}\nssh:\n  s:\n    port: 1\n");
}

TEST(Yaml, LinksThatSayLittleHaveNominalValues) {
  const Cluster c = cluster_from_yaml(R"(
nodes:
  - {address: a, network_bandwidth: 2}
  - {address: b, network_bandwidth: 5}
links:
  - {from: a, to: b}
  - {from: b, to: a, latency_us: 0}
  - {from: b, to: b}
)",
                                      "c.yml");
  ASSERT_EQ(c.links.size(), 3u);
  EXPECT_DOUBLE_EQ(c.links[0].gbit, 2);
  EXPECT_DOUBLE_EQ(c.links[0].latency_s, 100e-6);
  EXPECT_DOUBLE_EQ(c.links[1].latency_s, 0);
  EXPECT_DOUBLE_EQ(c.links[2].gbit, 40);
  EXPECT_DOUBLE_EQ(c.links[2].latency_s, 20e-6);
}

TEST(Yaml, NumbersAreTakenUpToTheirLimits) {
  const auto host = [](const std::string& fields) {
    return cluster_from_yaml("nodes: [{address: a, " + fields + "}]", "c.yml").hosts[0];
  };
  EXPECT_EQ(host("memory_gib: 0, price_per_hour: 0").workers, 1);
  EXPECT_EQ(host("cpus: 0, gpus: 0").workers, 1);
  EXPECT_EQ(host("cpus: 1024").cpus, 1024);
  EXPECT_EQ(host("gpus: 3").workers, 3);
  EXPECT_EQ(host("gpus: 3, workers: 1").workers, 1);
  EXPECT_EQ(host("cpus: [0, 1048576]").cpus, 2);
  EXPECT_FALSE(host("chief: false").chief);
  EXPECT_TRUE(host("chief: true").chief);
  std::string list = "0";
  for (int i = 1; i < 1024; ++i) list += ", 0";
  EXPECT_EQ(host("cpus: [" + list + "]").cpus, 1024);
  const auto error = [](const std::string& fields) { return error_of("nodes:\n- address: a\n  " + fields); };
  EXPECT_EQ(error("cpus: [" + list + ", 0]"), "c.yml:3: cpus lists 1025 devices, allowed: up to 1024");
  EXPECT_EQ(error("cpus: 1025"), "c.yml:3: cpus is \"1025\", allowed: 0 to 1024");
  EXPECT_EQ(error("cpus: -1"), "c.yml:3: cpus is \"-1\", allowed: 0 to 1024");
  EXPECT_EQ(error("gpus: [0, x]"), "c.yml:3: gpus is \"x\", allowed: 0 to 1048576");
  EXPECT_EQ(error("gpus: [-1]"), "c.yml:3: gpus is \"-1\", allowed: 0 to 1048576");
  EXPECT_EQ(error("gpus: [[0]]"), "c.yml:3: gpus is \"?\", allowed: 0 to 1048576");
  EXPECT_EQ(error("price_per_hour: -1"), "c.yml:3: price_per_hour is \"-1\", allowed: a number, 0 or more");
  EXPECT_EQ(error("memory_gib: inf"), "c.yml:3: memory_gib is \"inf\", allowed: a number, 0 or more");
  EXPECT_EQ(error("speed: 0"), "c.yml:3: speed is \"0\", allowed: a number above 0");
  EXPECT_EQ(error("speed: 1 GHz"), "c.yml:3: speed is \"1 GHz\", allowed: a number, 0 or more");
  EXPECT_EQ(error("role: [a]"), "c.yml:3: role must be one value");
  const auto port = [](const std::string& number) {
    return cluster_from_yaml("nodes: [{address: a}]\nssh: {c: {port: " + number + "}}", "c.yml")
        .ssh.at("c")
        .port;
  };
  EXPECT_EQ(port("1"), 1);
  EXPECT_EQ(port("65535"), 65535);
  EXPECT_THROW(port("0"), InputError);
  EXPECT_THROW(port("65536"), InputError);
}

TEST(Yaml, ErrorsGiveLineAndColumn) {
  EXPECT_THAT(error_of("nodes: [{address: a}]\nlinks: [\n  {from: a, to: a, gbit: 0}]"),
              HasSubstr("c.yml:3: gbit is \"0\""));
  EXPECT_THAT(error_of("nodes:\n- {address: a}\n- 3\n"), HasSubstr("c.yml:3: a node must be a mapping"));
  EXPECT_THAT(error_of("nodes: [{address: a}]\nssh: 3"),
              HasSubstr("c.yml:2: ssh must be a mapping of names"));
  EXPECT_THAT(error_of("nodes: [{address: a}]\nssh: {c: {shared_envs: 3}}"), HasSubstr("must be a mapping"));
  EXPECT_THAT(error_of("nodes: [{address: a}]\nssh: {c: {shared_envs: {N: [1]}}}"),
              HasSubstr("must have one value"));
  EXPECT_THAT(error_of("nodes: [{address: a}]\nlinks: 3"), HasSubstr("c.yml:2: links must be a list"));
  EXPECT_THAT(error_of("a: b: c"), HasSubstr("c.yml:1:5: malformed YAML"));
}

TEST(Yaml, TheChiefGoesFirstAndTheOthersKeepTheirOrder) {
  const Cluster c = cluster_from_yaml(
      "nodes: [{address: a}, {address: b}, {address: c, chief: true}, {address: d}]", "c.yml");
  std::string order;
  for (const Host& host : c.hosts) order += host.address;
  EXPECT_EQ(order, "cabd");
}

TEST(Yaml, AProbedClusterOfManyHostsIsSentInTheEnvironment) {
  EXPECT_FALSE(from_environment());
  Cluster c;
  c.name = "many hosts.yml";
  for (int i = 0; i < 64; ++i) {
    Host host;
    host.address = fmt::format("10.0.0.{}", i + 1);
    c.hosts.push_back(host);
  }
  for (int from = 0; from < 64; ++from) {
    for (int to = 0; to < 64; ++to) {
      if (from != to) c.links.push_back({from, to, 9.4 + 0.001 * to, 31e-6});
    }
  }
  const auto variables = to_environment(c);
  EXPECT_GT(variables.size(), 1u);
  for (const auto& variable : variables) {
    EXPECT_LT(variable.size(), 128u * 1024);  // what Linux takes
    const size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  const auto back = from_environment();
  for (const auto& variable : variables) unsetenv(variable.substr(0, variable.find('=')).c_str());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->name, c.name);
  EXPECT_EQ(to_yaml(*back), to_yaml(c));
}

TEST(Yaml, AClusterThatIsTooLargeForTheEnvironmentIsRefused) {
  Cluster c = parse("lab:2x1gbit");
  const size_t bare = to_yaml(c).size();
  c.name += std::string(900'000 - bare, 'x');
  const auto variables = to_environment(c);
  EXPECT_EQ(variables.size(), 9u);
  size_t sum = 0;
  for (const auto& variable : variables) sum += variable.size() - variable.find('=') - 1;
  EXPECT_EQ(sum, 900'000u);
  c.name += 'x';
  EXPECT_THROW(to_environment(c), InputError);
}

TEST(Yaml, UnknownFieldsNameLineAndAllowedOnes) {
  EXPECT_THAT(error_of("nodes:\n  - address: a\n    bandwith: 3\n"),
              AllOf(HasSubstr("c.yml:3"), HasSubstr("bandwith"), HasSubstr("network_bandwidth")));
  EXPECT_THAT(error_of("node: []\n"), AllOf(HasSubstr("c.yml:1"), HasSubstr("nodes")));
  EXPECT_THAT(error_of("nodes: [{address: a}]\nlinks: [{from: a, to: a, mbit: 3}]\n"),
              AllOf(HasSubstr("c.yml:2"), HasSubstr("latency_us")));
  EXPECT_THAT(error_of("nodes:\n  - address: a\n    cpus: 1\n    cpus: 2\n"), HasSubstr("twice"));
}

TEST(Yaml, MalformedYamlIsOneLineWithItsPlace) {
  const std::string message = error_of("nodes:\n  - {address: a\n  - [\n");
  EXPECT_THAT(message, AllOf(HasSubstr("c.yml:"), HasSubstr("malformed YAML"), Not(HasSubstr("\n"))));
  EXPECT_THAT(error_of("\tnodes: 1"), HasSubstr("c.yml:1:"));
}

TEST(Yaml, BadValuesNameTheField) {
  EXPECT_THAT(error_of(""), HasSubstr("mapping"));
  EXPECT_THAT(error_of("nodes: 3"), HasSubstr("list"));
  EXPECT_THAT(error_of("nodes: []"), HasSubstr("at least one"));
  EXPECT_THAT(error_of("nodes: [{cpus: 1}]"), HasSubstr("address"));
  EXPECT_THAT(error_of("nodes: [{address: a, network_bandwidth: 0}]"),
              HasSubstr("network_bandwidth is \"0\""));
  EXPECT_THAT(error_of("nodes: [{address: a, network_bandwidth: fast}]"), HasSubstr("fast"));
  EXPECT_THAT(error_of("nodes: [{address: a, workers: 5000}]"), HasSubstr("0 to 4096"));
  EXPECT_THAT(error_of("nodes: [{address: a, chief: perhaps}]"), HasSubstr("true, false"));
  EXPECT_THAT(error_of("nodes: [{address: a, role: boss}]"), HasSubstr("worker, server"));
  EXPECT_THAT(error_of("nodes: [{address: a, role: server, workers: 2}]"), HasSubstr("role server"));
  EXPECT_THAT(error_of("nodes: [{address: a}, {address: a}]"), HasSubstr("twice"));
  EXPECT_THAT(error_of("nodes: [{address: a, chief: true}, {address: b, chief: true}]"),
              HasSubstr("more than one"));
  EXPECT_THAT(error_of("nodes: [{address: a, role: server}, {address: b}]"),
              HasSubstr("list a worker first"));
  EXPECT_THAT(error_of("kind: cloud\nnodes: [{address: a}]"), HasSubstr("hosts, local, lab"));
  EXPECT_THAT(error_of("nodes: [{address: a}]\nssh: {c: {port: 99999}}"), HasSubstr("1 to 65535"));
  EXPECT_THAT(error_of("nodes: [{address: a}]\nssh: {c: {user: me}}"), HasSubstr("username"));
  EXPECT_THAT(error_of("nodes: [{address: a}]\nssh: {c: {username: -oProxyCommand=x}}"), HasSubstr("name"));
  EXPECT_THAT(error_of("nodes: [{address: a}]\nlinks: [{from: a, to: z}]"),
              AllOf(HasSubstr("z"), HasSubstr("allowed: a")));
}

}  // namespace
}  // namespace entrain::cluster
