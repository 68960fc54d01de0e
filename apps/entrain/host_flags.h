// Flags that verbs with ranks on other hosts share.
#pragma once

#include <CLI/CLI.hpp>

#include "launcher/remote.h"

namespace entrain::app {

// --ssh, --ssh-port, --workdir, --env, --port. `options` must outlive the parsing.
void add_host_options(CLI::App& verb, RemoteOptions& options);

}  // namespace entrain::app
