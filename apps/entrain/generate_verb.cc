// entrain generate man|completion: what cmake --install and the package add to the program. Not in --help.
#include <fmt/format.h>

#include "build_facts.h"
#include "documents.h"
#include "verbs.h"

namespace entrain::app::generate_verb {

void add_generate(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand("generate", "Print the manual page, or the completion for bash")->group("");
  verb->require_subcommand(1);
  verb->add_subcommand("man", "The manual page")->callback([&] {
    action = [&app] { return fmt::print("{}", manual_page(app, kVersion)), 0; };
  });
  verb->add_subcommand("completion", "The completion for bash")->callback([&] {
    action = [&app] { return fmt::print("{}", bash_completion(app)), 0; };
  });
}

}  // namespace entrain::app::generate_verb
