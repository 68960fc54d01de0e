// entrain VERB ...: reads the command line, runs the verb, turns failures into exit codes:
// 0 done, 1 failed, 2 bad usage or input.
#include <cstdio>

#include "entrain/base/blas.h"
#include "entrain/base/error.h"
#include "entrain/base/log.h"
#include "usage.h"
#include "verbs.h"

int main(int argc, char** argv) {
  using namespace entrain;
  ensure_fast_blas(argv);
  CLI::App app("entrain: distributed training for libtorch that finds its own best way to synchronize",
               "entrain");
  app.set_version_flag("--version", "entrain " ENTRAIN_VERSION);
  app.require_subcommand(1);
  app::Action action;
  app::add_verbs(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty()) {
      fmt::print(stderr, "entrain: unknown verb '{}' (see entrain --help)\n", argv[1]);
      return 2;
    }
    fmt::print(stderr, "entrain: {}\n", app::usage_error(app, e));
    return 2;
  }
  try {
    init_logging(-1);
    return action();
  } catch (const InputError& e) {
    fmt::print(stderr, "entrain: {}\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "entrain: {}\n", e.what());
    return 1;
  }
}
