// Clusters from outside that are wrong, each refused by one line that says how.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "entrain/cluster/parsers.h"
#include "support/malformed.h"

namespace entrain::cluster {
namespace {

using test::expect_refused;

std::string host(const std::string& fields) { return "nodes: [{address: a, " + fields + "}]"; }
std::string link(const std::string& fields) {
  return "nodes: [{address: a}, {address: b}]\nlinks: [" + fields + "]";
}

// Each name stands for ten of the one before it: a million million letters, were they written out.
std::string billion_laughs() {
  std::string text = "a0: &a0 [x]\n";
  for (int i = 1; i < 13; ++i) {
    const std::string before = fmt::format("*a{}", i - 1);
    text += fmt::format("a{0}: &a{0} [{1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}]\n", i, before);
  }
  return text + "nodes: *a12\n";
}

TEST(Malformed, ClusterYml) {
  expect_refused(
      {{"", "must be a mapping"},
       {"3", "must be a mapping"},
       {"[]", "must be a mapping"},
       {"{", "malformed YAML"},
       {"\t", "must be a mapping"},
       {"a: b: c", "malformed YAML"},
       {"nodes: *nobody", "malformed YAML"},
       {std::string("nodes:\0", 7), "c.yml"},
       {"colour: red", "unknown field \"colour\""},
       {"? [a]\n: b", "unknown field \"?\""},
       {"nodes: []\nnodes: []", "nodes appears twice"},
       {"name: x", "nodes is missing or empty"},
       {"nodes: 3", "nodes must be a list"},
       {"nodes: [3]", "a node must be a mapping"},
       {"nodes: [{}]", "a node needs an address"},
       {"nodes: [{address: [a]}]", "address must be one value"},
       {"nodes: [{address: -oProxyCommand=x}]", "allowed: a host name or an IP address"},
       {"nodes: [{address: 'a b'}]", "allowed: a host name or an IP address"},
       {"nodes: [{address: '$(reboot)'}]", "allowed: a host name or an IP address"},
       {"nodes: [{address: " + std::string(300, 'a') + "}]", "allowed: a host name or an IP address"},
       {"nodes: [{address: a}, {address: a}]", "address a appears twice"},
       {"nodes: [{address: a, chief: true}, {address: b, chief: true}]", "more than one node"},
       {host("colour: red"), "unknown field \"colour\""},
       {host("devices: 2147483647"), "unknown field \"devices\""},
       {host("workers: 2147483647"), "workers is \"2147483647\", allowed: 0 to 4096"},
       {host("workers: -1"), "workers is \"-1\""},
       {host("workers: 1.5"), "workers is \"1.5\""},
       {host("workers: nan"), "workers is \"nan\""},
       {host("workers: 99999999999"), "workers is \"99999999999\""},
       {host("gpus: 2147483647"), "gpus is \"2147483647\", allowed: 0 to 1024"},
       {host("gpus: [2147483647]"), "gpus is \"2147483647\""},
       {host("gpus: [[]]"), "gpus is \"?\""},
       {host("cpus: x"), "cpus is \"x\""},
       {host("chief: perhaps"), "chief is \"perhaps\", allowed: true, false"},
       {host("network_bandwidth: 0"), "network_bandwidth is \"0\""},
       {host("network_bandwidth: -1"), "network_bandwidth is \"-1\""},
       {host("network_bandwidth: nan"), "network_bandwidth is \"nan\""},
       {host("network_bandwidth: inf"), "network_bandwidth is \"inf\""},
       {host("network_bandwidth: 1e999"), "network_bandwidth is \"1e999\""},
       {host("network_bandwidth: {}"), "network_bandwidth must be one value"},
       {host("speed: nan"), "speed is \"nan\""},
       {host("speed: 0"), "speed is \"0\""},
       {host("memory_gib: -1"), "memory_gib is \"-1\""},
       {host("memory_gib: inf"), "memory_gib is \"inf\""},
       {host("price_per_hour: nan"), "price_per_hour is \"nan\""},
       {host("role: boss"), "role is \"boss\""},
       {host("role: server"), "at least one must train"},
       {host("role: server, workers: 2"), "has role server and 2 workers"},
       {"kind: cloud\nnodes: [{address: a}]", "kind is \"cloud\""},
       {"nodes: [{address: a}]\nlinks: 3", "links must be a list"},
       {link("3"), "a link must be a mapping"},
       {link("{from: a, to: z, gbit: 1}"), "to is \"z\""},
       {link("{from: a, to: b, gbit: nan}"), "gbit is \"nan\""},
       {link("{from: a, to: b, gbit: 0}"), "gbit is \"0\""},
       {link("{from: a, to: b, gbit: 1, latency_us: -1}"), "latency_us is \"-1\""},
       {"nodes: [{address: a}]\nssh: 3", "ssh must be a mapping"},
       {"nodes: [{address: a}]\nssh: {c: {username: -x}}", "username is \"-x\""},
       {"nodes: [{address: a}]\nssh: {c: {port: 65536}}", "port is \"65536\""},
       {"nodes: [{address: a}]\nssh: {c: {shared_envs: [1]}}", "shared_envs must be a mapping"},
       {"nodes: [{address: a}]\nssh: {[c]: {}}", "a name in ssh must be one value"},
       {billion_laughs(), "unknown field \"a0\""},
       {std::string(100'000, '['), "malformed YAML"},
       {std::string(100'000, '{'), "malformed YAML"},
       {"nodes: [" + std::string(3 << 20, ' ') + "]", "bytes, allowed: up to 2097152"}},
      [](const std::string& text) { cluster_from_yaml(text, "c.yml"); });
}

TEST(Malformed, Hostfiles) {
  expect_refused({{"", "no hosts"},
                  {"# nobody\n", "no hosts"},
                  {"a slots=0", "slots is \"0\""},
                  {"a slots=-1", "slots is \"-1\""},
                  {"a slots=", "slots is \"\""},
                  {"a slots=x", "slots is \"x\""},
                  {"a slots=2147483647", "slots is \"2147483647\", allowed: 1 to 4096"},
                  {"a slots=4096\nb", "4097 ranks, allowed: 1 to 4096"},
                  {"a speed=2", "field is \"speed=2\""},
                  {"a\na", "address a appears twice"},
                  {"-oProxyCommand=x", "allowed: a host name or an IP address"},
                  {"\xff\xfe", "allowed: a host name or an IP address"},
                  {std::string(3 << 20, 'a'), "bytes, allowed: up to 2097152"}},
                 [](const std::string& text) { cluster_from_hostfile(text, "hosts"); });
}

TEST(Malformed, Shorthands) {
  expect_refused({{"", "neither a file nor a shorthand"},
                  {"local", "neither a file nor a shorthand"},
                  {"local:", "rank count is \"\""},
                  {"local:0", "rank count is \"0\""},
                  {"local:-1", "rank count is \"-1\""},
                  {"local:4097", "rank count is \"4097\", allowed: 1 to 4096"},
                  {"local:1e3", "rank count is \"1e3\""},
                  {"local:99999999999", "rank count is \"99999999999\""},
                  {"local: 4", "rank count is \" 4\""},
                  {"lab:", "group is \"\""},
                  {"lab:4", "group is \"4\""},
                  {"lab:x1gbit", "host count is \"\""},
                  {"lab:0x1gbit", "host count is \"0\""},
                  {"lab:2147483647x1gbit", "host count is \"2147483647\""},
                  {"lab:4x", "rate is \"\""},
                  {"lab:4x1", "rate is \"1\""},
                  {"lab:4x1parsec", "rate is \"1parsec\""},
                  {"lab:4x0gbit", "rate is \"0\""},
                  {"lab:4x-1gbit", "rate is \"-1\""},
                  {"lab:4xnangbit", "rate is \"nan\""},
                  {"lab:4xinfgbit", "rate is \"inf\""},
                  {"lab:4x1gbit+", "group is \"\""},
                  {"lab:4x1gbit/", "option is \"/\""},
                  {"lab:4x1gbit/colour=red", "option is \"/colour=red\""},
                  {"lab:4x1gbit/ranks=0", "ranks is \"0\""},
                  {"lab:4x1gbit/ranks=4096", "16384 ranks"},
                  {"lab:4x1gbit/speed=nan", "speed is \"nan\""},
                  {"lab:4x1gbit/speed=0", "speed is \"0\""},
                  {"lab:4x1gbit/cpus=0", "cpus is \"0\""},
                  {"lab:1x1gbit/server", "at least one must train"},
                  {"lab:1x1gbit/server+1x1gbit", "list a worker first"},
                  {"lab:2x1gbit/server/ranks=2", "exclude each other"},
                  {"lab:4096x1gbit+4096x1gbit", "allowed: 1 to 4096"}},
                 [](const std::string& text) { parse(text); });
}

}  // namespace
}  // namespace entrain::cluster
