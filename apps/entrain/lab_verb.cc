// entrain lab: emulated clusters on this machine.
#include <cstdio>
#include <memory>

#include "entrain/base/error.h"
#include "entrain/lab/mode.h"
#include "launcher/capacity.h"
#include "launcher/job.h"
#include "verbs.h"

namespace entrain::app::lab_verb {
namespace {

int check() {
  using lab::LabMode;
  auto used = lab::mode_from_environment();
  const auto show = [&](LabMode mode, const char* what) {
    const std::string reason = lab::why_not(mode);
    if (!used && reason.empty()) used = mode;  // the first that works
    const char* verdict = !reason.empty() ? "no" : used == mode ? "yes, used" : "yes";
    fmt::print("{:<10} {:<46} {}{}{}\n", to_string(mode), what, verdict, reason.empty() ? "" : ": ", reason);
  };
  show(LabMode::kRoot, "network namespaces, made directly");
  show(LabMode::kUserNamespace, "network namespaces inside a user namespace");
  show(LabMode::kUserSpace, "loopback; entrain shapes what it sends");
  return 0;
}

int run(const std::string& text, const std::vector<std::string>& command) {
  if (command.empty()) bad_input("lab run: no command given; for example: entrain lab run -- ip address");
  const auto cluster = cluster::parse(text);
  if (cluster.kind != cluster::Kind::kLab) {
    bad_input("--cluster {}: `entrain lab run` takes lab:..., for example lab:4x1gbit", text);
  }
  warn_of_capacity(cluster);
  JobOptions options;
  options.own_program = false;
  return run_job(cluster, command, options);
}

}  // namespace

void add_lab(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("lab", "Emulated clusters on this machine");
  verb->require_subcommand(1);
  verb->add_subcommand("check", "Say which kinds of lab work here, and why others do not")
      ->callback([&action] { action = check; });

  auto* runner = verb->add_subcommand("run", "Run a command on every rank of a lab");
  auto text = std::make_shared<std::string>("lab:4x1gbit");
  runner->add_option("--cluster", *text, "lab:4x1gbit, lab:1x10gbit+3x1gbit, lab:2x1gbit/ranks=2, ...")
      ->capture_default_str();
  auto command = std::make_shared<std::vector<std::string>>();
  runner->add_option("command", *command, "The command, after --");
  runner->footer(
      "Examples:\n"
      "  entrain lab check\n"
      "  entrain lab run --cluster lab:2x100mbit -- ip address show eth0\n"
      "  entrain lab run --cluster lab:4x1gbit -- env GLOO_SOCKET_IFNAME=eth0 python3 ddp.py\n"
      "ENTRAIN_LAB=root|user|userspace chooses the kind of lab.");
  runner->callback([text, command, &action] { action = [text, command] { return run(*text, *command); }; });
}

}  // namespace entrain::app::lab_verb
