#include "launcher/site.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>

#include "entrain/base/error.h"
#include "entrain/cluster/environment.h"
#include "entrain/lab/lab.h"
#include "launcher/cores.h"
#include "launcher/local_address.h"

namespace entrain::app {
namespace {

bool has(const std::vector<std::string>& environment, std::string_view name) {
  return std::ranges::any_of(environment, [&](std::string_view each) {
    return each.starts_with(name) && each.substr(name.size()).starts_with('=');
  });
}

int all_cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

// `ranks` compute on these cores: without a limit each would take every one.
void share_cores(ProcessOptions& process, int ranks, int cores = all_cores()) {
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    if (std::getenv(name) || has(process.environment, name)) continue;
    process.environment.push_back(fmt::format("{}={}", name, std::max(1, cores / ranks)));
  }
}

class LocalSite final : public Site {
 public:
  explicit LocalSite(const cluster::Cluster& cluster) : world_(cluster.world()) {}
  std::string address(int) const override { return "127.0.0.1"; }
  void place(int, ProcessOptions& process) const override { share_cores(process, world_); }

 private:
  int world_;
};

class LabSite final : public Site {
 public:
  LabSite(const cluster::Cluster& cluster, bool own_program, const std::string& program)
      : cluster_(cluster), lab_(lab::Lab::create(cluster)), cores_(cores_by_host(cluster, usable_cores())) {
    if (!cores_.empty()) fmt::print(stderr, "entrain: {} of its own\n", describe_cores(cores_));
    if (lab_->mode() != lab::LabMode::kUserSpace || own_program) return;
    fmt::print(
        stderr,
        "entrain: links are shaped in user space here: only entrain itself keeps to them, {} will not\n",
        program);
  }
  std::string address(int host) const override { return lab_->address(host); }
  void run_in(int host, const std::function<void()>& work) const override { lab_->run_in(host, work); }
  bool emulated() const override { return true; }
  double shape_gbit(int host) const override { return lab_->shape_gbit(host); }
  void place(int host, ProcessOptions& process) const override {
    if (cores_.empty()) {
      share_cores(process, cluster_.world());
      process.in_child = [lab = lab_.get(), host] { return lab->enter(host); };
      return;
    }
    const auto number = static_cast<size_t>(host);
    share_cores(process, std::max(1, cluster_.hosts[number].workers),
                static_cast<int>(cores_[number].size()));
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores_[number]) CPU_SET(core, &set);
    process.in_child = [lab = lab_.get(), host, set] {
      return sched_setaffinity(0, sizeof set, &set) == 0 && lab->enter(host);
    };
  }

 private:
  cluster::Cluster cluster_;
  std::unique_ptr<lab::Lab> lab_;
  std::vector<std::vector<int>> cores_;  // by host; none: they share all
};

// Hosts that ssh reaches. What is on this one is started directly.
class HostsSite final : public Site {
 public:
  HostsSite(const cluster::Cluster& cluster, const RemoteOptions& remote)
      : cluster_(cluster),
        remote_(remote),
        folder_(work_folder(remote)),
        passed_(passed_variables(remote)),
        sent_(cluster::to_environment(cluster)) {
    for (const auto& host : cluster.hosts) {
      here_.push_back(is_local(host.address));
      const auto numbers = resolve(host.address);
      addresses_.push_back(numbers.empty() ? host.address : numbers.front());
    }
    if (std::ranges::find(here_, true) != here_.end() && !std::filesystem::is_directory(folder_)) {
      bad_input("--workdir {}: there is no such folder", folder_);
    }
    // A host's own name often means loopback there: where the others come from, it has another address.
    const auto other = std::ranges::find(here_, false);
    for (size_t i = 0; i < here_.size() && other != here_.end(); ++i) {
      if (!here_[i] || !is_loopback(addresses_[i])) continue;
      const std::string found = address_towards(addresses_[other - here_.begin()]);
      if (!found.empty()) addresses_[i] = found;
    }
  }

  std::string address(int host) const override { return addresses_.at(host); }
  bool here(int host) const override { return here_.at(host); }
  std::string prefix(int rank) const override {
    return fmt::format("[rank {} @ {}] ", rank, cluster_.hosts[cluster_.host_of(rank)].address);
  }

  void place(int host, ProcessOptions& process) const override {
    add(process.environment, sent_);
    add(process.environment, passed_);
    const cluster::Host& target = cluster_.hosts.at(host);
    if (const auto found = cluster_.ssh.find(target.ssh_config); found != cluster_.ssh.end()) {
      for (const auto& [name, value] : found->second.shared_envs)
        add(process.environment, {fmt::format("{}={}", name, value)});
    }
    process.argv.front() = program_path(process.argv.front(), folder_);
    const int ranks = std::max(1, target.workers);
    if (here(host)) {
      share_cores(process, ranks);
      process.in_child = [this] { return chdir(folder_.c_str()) == 0; };
      return;
    }
    process.environment.push_back("ENTRAIN_STARTED=ssh");
    process.input = remote_script({target.address, folder_, process.argv, process.environment, ranks});
    process.argv = ssh_command(cluster_, host, remote_);
    process.environment.clear();
    process.signals_by_input = true;
  }

 private:
  // The job's own variables come first and stay.
  static void add(std::vector<std::string>& environment, const std::vector<std::string>& more) {
    for (const std::string& each : more) {
      if (!has(environment, each.substr(0, each.find('=')))) environment.push_back(each);
    }
  }

  cluster::Cluster cluster_;
  RemoteOptions remote_;
  std::string folder_;
  std::vector<std::string> passed_, sent_;
  std::vector<bool> here_;
  std::vector<std::string> addresses_;
};

}  // namespace

std::unique_ptr<Site> make_site(const cluster::Cluster& cluster, const RemoteOptions& remote,
                                bool own_program, const std::string& program) {
  switch (cluster.kind) {
    case cluster::Kind::kLocal:
      break;
    case cluster::Kind::kLab:
      return std::make_unique<LabSite>(cluster, own_program, program);
    case cluster::Kind::kHosts:
      return std::make_unique<HostsSite>(cluster, remote);
  }
  return std::make_unique<LocalSite>(cluster);
}

}  // namespace entrain::app
