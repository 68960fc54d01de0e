// Which launcher started this process, as told by its variables.
#include "entrain/rendezvous/launch_environment.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <set>

#include "entrain/base/error.h"
#include "entrain/net/socket.h"
#include "entrain/rendezvous/host_list.h"

namespace entrain::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Variables kEntrain = {{"ENTRAIN_RANK", "1"},
                            {"ENTRAIN_WORLD", "2"},
                            {"ENTRAIN_RENDEZVOUS", "10.0.0.1:4400"},
                            {"ENTRAIN_TOKEN", "t"}};
const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "10.0.0.1"},
                             {"MASTER_PORT", "29500"},
                             {"ENTRAIN_TOKEN", "0123456789abcdef"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"PMIX_NAMESPACE", "4915201"}};
const Variables kSlurm = {{"SLURM_PROCID", "0"},
                          {"SLURM_NTASKS", "6"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_ID", "3"},
                          {"SLURM_JOB_NODELIST", "node[01-04]"},
                          {"SLURM_STEP_NODELIST", "node[02-04]"},
                          {"ENTRAIN_TOKEN", "0123456789abcdef"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

LaunchEnvironment read(const Variables& variables) {
  return describe_launch(variables, [] { return true; });
}
LaunchEnvironment read_without_mpi(const Variables& variables) {
  return describe_launch(variables, [] { return false; });
}

std::string error_of(const Variables& variables) {
  try {
    read(variables);
  } catch (const InputError& e) {
    return e.what();
  }
  return "no InputError";
}

TEST(LaunchEnvironment, IsNoRankWithoutALauncher) {
  EXPECT_FALSE(read({}).is_rank());
  EXPECT_FALSE(read({{"RANK", "gold"}}).is_rank());  // too plain a name to mean a launcher
  EXPECT_FALSE(read({{"ENTRAIN_RANK", ""}}).is_rank());
}

// `entrain train` in a batch script starts its own ranks there: the script itself is none.
TEST(LaunchEnvironment, AShellInAStepOfSlurmIsNoRank) {
  EXPECT_EQ(read(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "1"}})).launcher, Launcher::kNone);
}

TEST(LaunchEnvironment, LocalhostIsOneAddress) {
  const LaunchEnvironment launch =
      read({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "2900"}});
  EXPECT_EQ(net::parse_endpoint(launch.job.rendezvous, "t").address, "127.0.0.1");
}

TEST(LaunchEnvironment, ABatchScriptOfSlurmIsNoRank) {
  EXPECT_FALSE(
      read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "a"}})
          .is_rank());
}

TEST(LaunchEnvironment, EntrainsOwnSurvivesTheEnvironment) {
  const JobEnvironment job{.rank = 3,
                           .world = 8,
                           .rendezvous = "10.0.0.1:4400",
                           .token = "t=x",
                           .bind_address = "10.0.0.4",
                           .shape_gbit = 0.5,
                           .timeout_s = 7.25,
                           .encryption = net::Encryption::kNever};
  Variables variables;
  for (const std::string& text : to_environment(job)) {
    variables[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  const LaunchEnvironment launch = read(variables);
  EXPECT_EQ(launch.launcher, Launcher::kEntrain);
  EXPECT_EQ(to_environment(launch.job), to_environment(job));
  EXPECT_FALSE(launch.job.serve);
  EXPECT_TRUE(launch.timeout_given);
}

TEST(LaunchEnvironment, Torchrun) {
  const LaunchEnvironment launch = read(kTorchrun);
  EXPECT_EQ(launch.launcher, Launcher::kTorchrun);
  EXPECT_EQ(launch.backend, Backend::kTcp);
  EXPECT_EQ(launch.job.rank, 3);
  EXPECT_EQ(launch.job.world, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.job.rendezvous, "10.0.0.1:29500");
  EXPECT_EQ(launch.job.bind_address, "0.0.0.0");
  EXPECT_FALSE(launch.job.serve);
  EXPECT_FALSE(launch.job.token.empty());
  EXPECT_TRUE(read(with(kTorchrun, {{"RANK", "0"}})).job.serve);
}

TEST(LaunchEnvironment, TorchrunsAgentKeepsItsPort) {
  const Variables agent = {{"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  EXPECT_EQ(read(with(kTorchrun, agent)).job.rendezvous, "10.0.0.1:29501");
}

TEST(LaunchEnvironment, RanksThatMeetOnLoopbackListenOnlyThere) {
  for (const char* address : {"localhost", "127.0.0.1"}) {
    EXPECT_EQ(read(with(kTorchrun, {{"MASTER_ADDR", address}})).job.bind_address, "127.0.0.1");
  }
  EXPECT_EQ(read(with(kTorchrun, {{"MASTER_ADDR", "fe80::1"}})).job.bind_address, "::");
  EXPECT_EQ(read(with(kTorchrun, {{"ENTRAIN_BIND", "10.0.0.4"}})).job.bind_address, "10.0.0.4");
}

TEST(LaunchEnvironment, OpenMpiNeedsNothingElseOverMpi) {
  const LaunchEnvironment launch = read(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  EXPECT_EQ(launch.launcher, Launcher::kOpenMpi);
  EXPECT_EQ(launch.backend, Backend::kMpi);
  EXPECT_EQ(launch.job.rank, 2);
  EXPECT_EQ(launch.job.world, 4);
  EXPECT_EQ(launch.local_rank, 2);
  EXPECT_FALSE(launch.job.serve);
}

TEST(LaunchEnvironment, OpenMpiOverTcpMeetsOnTheOneHostOrWhereItIsTold) {
  const Variables tcp = with(kOpenMpi, {{"ENTRAIN_TRANSPORT", "tcp"}});
  const LaunchEnvironment two = read(tcp);
  const LaunchEnvironment zero = read(with(tcp, {{"OMPI_COMM_WORLD_RANK", "0"}}));
  EXPECT_THAT(two.job.rendezvous, HasSubstr("127.0.0.1:"));
  EXPECT_EQ(two.job.rendezvous, zero.job.rendezvous);
  EXPECT_EQ(two.job.token, zero.job.token);
  EXPECT_TRUE(zero.job.serve);
  EXPECT_FALSE(two.job.serve);

  const Variables spread = with(tcp, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_THAT(error_of(spread), AllOf(HasSubstr("MASTER_ADDR"), HasSubstr("ENTRAIN_TRANSPORT=mpi")));
  EXPECT_EQ(read(with(spread, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "5000"}})).job.rendezvous,
            "10.0.0.1:5000");
  EXPECT_EQ(read(with(spread, {{"ENTRAIN_RENDEZVOUS", "10.0.0.1:6000"}})).job.rendezvous, "10.0.0.1:6000");
}

TEST(LaunchEnvironment, SlurmMeetsOnTheFirstHostOfTheStep) {
  const LaunchEnvironment launch = read(kSlurm);
  EXPECT_EQ(launch.launcher, Launcher::kSlurm);
  EXPECT_EQ(launch.backend, Backend::kTcp);  // srun without a PMI that Open MPI speaks
  EXPECT_EQ(launch.job.rank, 0);
  EXPECT_EQ(launch.job.world, 6);
  EXPECT_EQ(launch.local_rank, 0);
  EXPECT_TRUE(launch.job.serve);
  const net::Endpoint endpoint = net::parse_endpoint(launch.job.rendezvous, "test");
  EXPECT_EQ(endpoint.address, "node02");
  EXPECT_GE(endpoint.port, 15000);
  EXPECT_LT(endpoint.port, 30000);
  // Steps of one job run side by side.
  EXPECT_NE(read(with(kSlurm, {{"SLURM_STEP_ID", "4"}})).job.rendezvous, launch.job.rendezvous);
  EXPECT_EQ(read(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "2"}})).job.world, 2);
  EXPECT_EQ(
      net::parse_endpoint(read(with(kSlurm, {{"SLURM_STEP_NODELIST", "vm"}})).job.rendezvous, "t").address,
      "127.0.0.1");
}

// Steps that share a host meet at ports of their own, all below those that the system hands out.
TEST(LaunchEnvironment, SlurmsJobsAreSpreadOverThePorts) {
  std::set<int> ports;
  for (int job = 0; job < 1000; ++job) {
    const LaunchEnvironment launch = read(with(kSlurm, {{"SLURM_JOB_ID", std::to_string(job)}}));
    ports.insert(net::parse_endpoint(launch.job.rendezvous, "test").port);
  }
  EXPECT_GT(ports.size(), 900U);
  EXPECT_GE(*ports.begin(), 15000);
  EXPECT_LT(*ports.rbegin(), 30000);
}

TEST(LaunchEnvironment, IsThatOfThisProcess) {
  for (const auto& [name, value] : kEntrain) ::setenv(name.c_str(), value.c_str(), 1);
  const LaunchEnvironment launch = launch_environment([] { return false; });
  for (const auto& [name, value] : kEntrain) ::unsetenv(name.c_str());
  EXPECT_EQ(launch.launcher, Launcher::kEntrain);
  EXPECT_EQ(launch.job.rank, 1);
  EXPECT_EQ(launch.job.rendezvous, "10.0.0.1:4400");
  EXPECT_EQ(launch.job.token, "t");
}

TEST(LaunchEnvironment, AJobMayBeOneRank) {
  const LaunchEnvironment launch = read(with(kEntrain, {{"ENTRAIN_RANK", "0"}, {"ENTRAIN_WORLD", "1"}}));
  EXPECT_TRUE(launch.is_rank());
  EXPECT_EQ(launch.job.world, 1);
}

TEST(LaunchEnvironment, SlurmWithPmixUsesMpi) {
  EXPECT_EQ(read(with(kSlurm, {{"PMIX_RANK", "0"}})).backend, Backend::kMpi);
  EXPECT_EQ(read_without_mpi(with(kSlurm, {{"PMIX_RANK", "0"}})).backend, Backend::kTcp);
}

TEST(LaunchEnvironment, TheInnermostLauncherWins) {
  const Variables slurm_mpi = with(kSlurm, kOpenMpi);
  EXPECT_EQ(read(slurm_mpi).launcher, Launcher::kOpenMpi);
  const Variables slurm_mpi_torchrun = with(slurm_mpi, kTorchrun);
  EXPECT_EQ(read(slurm_mpi_torchrun).launcher, Launcher::kTorchrun);
  const LaunchEnvironment launch = read(with(slurm_mpi_torchrun, kEntrain));
  EXPECT_EQ(launch.launcher, Launcher::kEntrain);
  EXPECT_EQ(launch.job.rank, 1);
  EXPECT_EQ(launch.backend, Backend::kTcp);
}

TEST(LaunchEnvironment, TokensTellJobsApartAndTakeInASecret) {
  const std::string plain = read(kTorchrun).job.token;
  EXPECT_EQ(read(with(kTorchrun, {{"RANK", "0"}})).job.token, plain);
  EXPECT_NE(read(with(kTorchrun, {{"MASTER_PORT", "29501"}})).job.token, plain);
  EXPECT_NE(read(with(kTorchrun, {{"ENTRAIN_TOKEN", "secret"}})).job.token, plain);
  EXPECT_NE(read(with(kSlurm, {{"SLURM_JOB_ID", "78"}})).job.token, read(kSlurm).job.token);
}

TEST(LaunchEnvironment, BeyondLoopbackRanksNeedASecret) {
  const Variables none = {{"ENTRAIN_TOKEN", ""}};
  for (const Variables& launcher : {kTorchrun, kSlurm}) {
    EXPECT_THAT(error_of(with(launcher, none)),
                AllOf(HasSubstr("ENTRAIN_TOKEN is not set"), HasSubstr("openssl")));
  }
  EXPECT_THAT(error_of(with(kTorchrun, {{"ENTRAIN_TOKEN", ""}, {"MASTER_ADDR", "::"}})),
              HasSubstr("ENTRAIN_TOKEN"));
  for (const char* address : {"127.0.0.1", "localhost", "::1"}) {
    const Variables here = with(kTorchrun, {{"ENTRAIN_TOKEN", ""}, {"MASTER_ADDR", address}});
    EXPECT_FALSE(read(here).job.token.empty()) << address;
    EXPECT_THAT(error_of(with(here, {{"ENTRAIN_BIND", "10.0.0.4"}})), HasSubstr("ENTRAIN_TOKEN")) << address;
  }
}

TEST(LaunchEnvironment, WhereMpiRunsItBringsTheSecret) {
  const Variables spread =
      with(kOpenMpi, {{"ENTRAIN_TRANSPORT", "tcp"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "5000"}});
  EXPECT_TRUE(read(spread).token_over_mpi);
  EXPECT_FALSE(read(with(spread, {{"ENTRAIN_TOKEN", "0123456789abcdef"}})).token_over_mpi);
  EXPECT_FALSE(read(with(spread, {{"MASTER_ADDR", "127.0.0.1"}})).token_over_mpi);
  EXPECT_THROW(read_without_mpi(spread), InputError);
  const Variables pmix = {{"ENTRAIN_TRANSPORT", "tcp"}, {"ENTRAIN_TOKEN", ""}, {"PMIX_RANK", "0"}};
  EXPECT_TRUE(read(with(kSlurm, pmix)).token_over_mpi);
}

TEST(LaunchEnvironment, TlsIsBetweenHostsOrAsAsked) {
  EXPECT_EQ(read(kTorchrun).job.encryption, net::Encryption::kBetweenHosts);
  EXPECT_EQ(read(with(kTorchrun, {{"ENTRAIN_TLS", "1"}})).job.encryption, net::Encryption::kAlways);
  EXPECT_EQ(read(with(kEntrain, {{"ENTRAIN_TLS", "0"}})).job.encryption, net::Encryption::kNever);
  EXPECT_THAT(error_of(with(kEntrain, {{"ENTRAIN_TLS", "yes"}})),
              AllOf(HasSubstr("ENTRAIN_TLS"), HasSubstr("yes")));
}

TEST(LaunchEnvironment, AShortTokenIsWeak) {
  EXPECT_TRUE(read(with(kTorchrun, {{"ENTRAIN_TOKEN", "fifteen letters"}})).weak_token);
  EXPECT_FALSE(read(kTorchrun).weak_token);
  EXPECT_TRUE(read(kEntrain).weak_token);
}

TEST(LaunchEnvironment, NamesWhatIsMissingOrMalformed) {
  EXPECT_THAT(error_of({{"ENTRAIN_RANK", "0"}}), HasSubstr("ENTRAIN_WORLD"));
  EXPECT_THAT(error_of(with(kEntrain, {{"ENTRAIN_RENDEZVOUS", "nowhere"}})),
              AllOf(HasSubstr("ENTRAIN_RENDEZVOUS"), HasSubstr("nowhere")));
  EXPECT_THAT(error_of(with(kEntrain, {{"ENTRAIN_RANK", "2"}})),
              AllOf(HasSubstr("ENTRAIN_RANK"), HasSubstr("0 to 1")));
  EXPECT_THAT(error_of(with(kEntrain, {{"ENTRAIN_TIMEOUT", "soon"}})),
              AllOf(HasSubstr("ENTRAIN_TIMEOUT"), HasSubstr("soon")));
  EXPECT_THAT(error_of(with(kTorchrun, {{"RANK", "4"}})), AllOf(HasSubstr("RANK"), HasSubstr("0 to 3")));
  EXPECT_THAT(error_of(with(kTorchrun, {{"WORLD_SIZE", "four"}})),
              AllOf(HasSubstr("WORLD_SIZE"), HasSubstr("four")));
  EXPECT_THAT(error_of(with(kTorchrun, {{"MASTER_ADDR", ""}})), HasSubstr("MASTER_ADDR"));
  EXPECT_THAT(error_of(with(kTorchrun, {{"MASTER_PORT", "http"}})),
              AllOf(HasSubstr("MASTER_PORT"), HasSubstr("http"), HasSubstr("65535")));
  EXPECT_THAT(error_of({{"OMPI_COMM_WORLD_RANK", "0"}}), HasSubstr("OMPI_COMM_WORLD_SIZE"));
  EXPECT_THAT(error_of(with(kSlurm, {{"SLURM_JOB_ID", ""}})), HasSubstr("SLURM_JOB_ID"));
  EXPECT_THAT(error_of(with(kSlurm, {{"SLURM_STEP_NODELIST", "node[1-"}})),
              AllOf(HasSubstr("SLURM_STEP_NODELIST"), HasSubstr("node[1-")));
  EXPECT_THAT(error_of(with(kTorchrun, {{"ENTRAIN_TRANSPORT", "pigeon"}})),
              AllOf(HasSubstr("pigeon"), HasSubstr("tcp and mpi")));
}

TEST(LaunchEnvironment, OpenMpiIsLookedForOnlyWhereALauncherSpeaksItAndNobodySaysOtherwise) {
  int asked = 0;
  const auto backend = [&](const Variables& variables) {
    return describe_launch(variables, [&] { return ++asked > 0; }).backend;
  };
  EXPECT_EQ(backend(kEntrain), Backend::kTcp);
  EXPECT_EQ(backend(kSlurm), Backend::kTcp);
  EXPECT_EQ(backend(with(kOpenMpi, {{"ENTRAIN_TRANSPORT", "tcp"}})), Backend::kTcp);
  EXPECT_EQ(backend(with(kOpenMpi, {{"ENTRAIN_TRANSPORT", "mpi"}})), Backend::kMpi);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(backend(kOpenMpi), Backend::kMpi);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(read_without_mpi(kOpenMpi).backend, Backend::kTcp);
}

TEST(HostList, IsReadAsSlurmWritesIt) {
  const auto hosts = [](const char* text) { return parse_host_list(text, "LIST"); };
  EXPECT_THAT(hosts("node[01-03,7],other"), ElementsAre("node01", "node02", "node03", "node7", "other"));
  EXPECT_THAT(hosts("vm"), ElementsAre("vm"));
  EXPECT_THAT(hosts("gpu-a,gpu-b"), ElementsAre("gpu-a", "gpu-b"));
  EXPECT_THAT(hosts("n[9-11]"), ElementsAre("n9", "n10", "n11"));
  EXPECT_THAT(hosts("n[098-101].lan"), ElementsAre("n098.lan", "n099.lan", "n100.lan", "n101.lan"));
  EXPECT_THAT(hosts("r[1-2]n[1-2]"), ElementsAre("r1n1", "r1n2", "r2n1", "r2n2"));
}

TEST(HostList, NonsenseIsNamed) {
  for (const char* text :
       {"", "a,", ",a", "n[1-", "n[1", "n[]", "n[3-1]", "n[1-x]", "n]", "n[0-9999999999]", "n[-2]"}) {
    try {
      parse_host_list(text, "SLURM_LIST");
      ADD_FAILURE() << text;
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("SLURM_LIST"), HasSubstr(text)));
    }
  }
}

TEST(HostList, NonsenseIsFoundAtItsCharacter) {
  for (const auto& [text, place] : {std::pair("n]", "character 2;"), {"node[3-1]", "character 9;"}}) {
    try {
      parse_host_list(text, "SLURM_LIST");
      ADD_FAILURE() << text;
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), HasSubstr(place));
    }
  }
}

TEST(RanksByHost, AHostBeginsWhereLocalRanksStartAgain) {
  EXPECT_THAT(ranks_by_host({0, 1, 0, 1, 2, 0}), ElementsAre(2, 3, 1));
  EXPECT_THAT(ranks_by_host({-1, -1, -1}), ElementsAre(3));
  EXPECT_THAT(ranks_by_host({0, 0, 1, 1}), IsEmpty());  // cyclic: no host holds neighbours
}

}  // namespace
}  // namespace entrain::rendezvous
