// entrain env: what this program was built with and what it finds on this machine.
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "build_facts.h"
#include "entrain/base/blas.h"
#include "entrain/base/error.h"
#include "entrain/base/units.h"
#include "entrain/lab/mode.h"
#include "entrain/rendezvous/launch_environment.h"
#include "entrain/transport/mpi/mpi_transport.h"
#include "launcher/capacity.h"
#include "usage.h"
#include "verbs.h"

namespace entrain::app::env_verb {
namespace {

using nlohmann::json;

constexpr lab::LabMode kLabs[] = {lab::LabMode::kRoot, lab::LabMode::kUserNamespace,
                                  lab::LabMode::kUserSpace};

double total_memory() {
  std::ifstream in("/proc/meminfo");
  std::string name;
  double kilobytes = 0;
  return in >> name >> kilobytes && name == "MemTotal:" ? kilobytes * 1024 : 0;
}

json lab_kinds() {
  json kinds = json::object();
  for (const auto mode : kLabs) {
    const std::string reason = lab::why_not(mode);
    kinds[to_string(mode)] = reason.empty() ? json(true) : json(reason);
  }
  return kinds;
}

// Without its errors: the job reports them.
std::string launcher() {
  try {
    return rendezvous::name_of(rendezvous::launch_environment(transport::mpi_available).launcher);
  } catch (const InputError& error) {
    return error.what();
  }
}

json describe() {
  const Machine machine = this_machine();
  Blas blas = blas_in_use();
  std::error_code ignored;
  if (const auto file = std::filesystem::canonical(blas.library, ignored); !file.empty()) blas.library = file;
  json gpus = torch::cuda::is_available() ? json(torch::cuda::device_count()) : json(0);
  return {{"version", kVersion},
          {"compiler", __VERSION__},
          {"build_type", kBuildType},
          {"libtorch", TORCH_VERSION},
          {"cuda", torch::cuda::is_available()},
          {"gpus", gpus},
          {"nccl", kNcclBuilt},
          {"mpi", transport::mpi_available()},
          {"tls", false},
          {"blas",
           {{"library", blas.library}, {"kernels", blas.kernels}, {"better_kernels", better_blas_core()}}},
          {"cores", machine.cores},
          {"memory_bytes", total_memory()},
          {"memory_free_bytes", machine.free_bytes},
          {"lab", lab_kinds()},
          {"launcher", launcher()}};
}

std::string yes(bool there, const char* otherwise) { return there ? "yes" : otherwise; }

void print(const json& j) {
  const auto line = [](const char* name, const std::string& value) {
    fmt::print("{:<11} {}\n", name, value);
  };
  const auto text = [&](const json& value) { return value.get<std::string>(); };
  line("entrain", fmt::format("{} ({})", text(j["version"]), text(j["build_type"])));
  line("compiler", text(j["compiler"]));
  line("libtorch", text(j["libtorch"]));
  line("CUDA", j["cuda"].get<bool>() ? fmt::format("yes, {} GPUs", j["gpus"].get<int>())
                                     : "no: libtorch sees no GPU here");
  line("NCCL", yes(j["nccl"].get<bool>(), "no: not found when this was built"));
  line("MPI", yes(j["mpi"].get<bool>(), "no: Open MPI was not found when this was built"));
  line("TLS", yes(j["tls"].get<bool>(), "no: traffic is authenticated, not encrypted"));
  const json& blas = j["blas"];
  const auto or_unknown = [&](const json& value) { return value == "" ? "unknown" : text(value); };
  line("BLAS", fmt::format("{}, kernels: {}", or_unknown(blas["library"]), or_unknown(blas["kernels"])));
  line("cores", fmt::format("{}", j["cores"].get<int>()));
  line("memory", fmt::format("{}, {} free", format_bytes(j["memory_bytes"].get<double>()),
                             format_bytes(j["memory_free_bytes"].get<double>())));
  for (const auto mode : kLabs) {
    const json& works = j["lab"][to_string(mode)];
    line(mode == kLabs[0] ? "labs" : "",
         fmt::format("{:<10} {}", to_string(mode), works.is_boolean() ? "yes" : "no: " + text(works)));
  }
  line("launcher", text(j["launcher"]));
}

}  // namespace

void add_env(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("env", "Show what was built in and what is found on this machine");
  auto json_wanted = std::make_shared<bool>(false);
  add_json_option(*verb, *json_wanted);
  verb->callback([json_wanted, &action] {
    action = [json_wanted] {
      const json found = describe();
      if (*json_wanted) {
        fmt::print("{}\n", found.dump(2));
      } else {
        print(found);
      }
      return 0;
    };
  });
}

}  // namespace entrain::app::env_verb
