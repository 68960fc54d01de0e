// entrain VERB ...: reads the command line, runs the verb, turns failures into exit codes:
// 0 done, 1 failed, 2 bad usage or input.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "build_facts.h"
#include "entrain/base/blas.h"
#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/base/log.h"
#include "entrain/base/progress.h"
#include "entrain/base/reason.h"
#include "usage.h"
#include "verbs.h"

int main(int argc, char** argv) {
  using namespace entrain;
  ensure_fast_blas(argv);
  CLI::App app("entrain: distributed training for libtorch that finds its own best way to synchronize",
               "entrain");
  app.set_version_flag("--version", std::string("entrain ") + app::kVersion);
  app.require_subcommand(1);
  app::Action action;
  app::add_verbs(app, action);
  app::check_values(app);
  app.footer(  // not before: verbs would inherit it
      "entrain help VERB: a verb's options, examples, and how long it takes.\n"
      "First steps: entrain demo (2 minutes); entrain graph --list; entrain env.");
  std::vector<std::string> words(argv + 1, argv + argc);
  if (const std::string wrong = app::help_error(app, words); !wrong.empty()) {
    fmt::print(stderr, "entrain: {}\n", wrong);
    return 2;
  }
  words = app::without_help_verb(std::move(words));
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {  // --help, --version
      app.exit(e);
      return argc > 1 ? 0 : 2;  // without a verb: bad usage
    }
    fmt::print(stderr, "entrain: {}\n", app::usage_error(app, e));
    return 2;
  }
  try {
    init_logging(-1);
    return action();
  } catch (const InputError& e) {
    fmt::print(stderr, "{}entrain: {}\n", before_stderr_line(), app::fields_as_flags(app, reason_of(e)));
    return 2;
  } catch (const std::filesystem::filesystem_error& e) {
    fmt::print(stderr, "{}entrain: {}\n", before_stderr_line(), describe(e));
    return 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}entrain: {}\n", before_stderr_line(), app::fields_as_flags(app, reason_of(e)));
    return 1;
  }
}
