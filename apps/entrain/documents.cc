#include "documents.h"

#include <fmt/format.h>

#include <vector>

namespace entrain::app {
namespace {

// Those that --help shows.
std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> shown;
  for (const CLI::App* each :
       app.get_subcommands([](const CLI::App* a) { return !a->get_group().empty(); })) {
    shown.push_back(each);
  }
  return shown;
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
}

// Text as roff prints it: its backslashes, and hyphens that can be copied; no line begins with a control
// character.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return out;
}

void describe(const CLI::App& command, const std::string& path, std::string& out) {
  out += fmt::format(".SS {}\n{}\n", roff(path), roff(command.get_description()));
  for (const CLI::Option* option : options_of(command)) {
    const bool flag = option->get_items_expected_max() == 0;
    out += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(option->get_name(true, true)),
                       flag ? "" : roff(" " + option->get_type_name()), roff(option->get_description()));
  }
  if (const std::string footer = command.get_footer(); !footer.empty()) {
    out += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(footer));
  }
  for (const CLI::App* each : commands_of(command)) describe(*each, path + " " + each->get_name(), out);
}

void list_words(const CLI::App& command, const std::string& path, std::string& out) {
  std::string words;
  for (const CLI::App* each : commands_of(command)) words += each->get_name() + " ";
  for (const CLI::Option* option : options_of(command)) {
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  }
  if (!words.empty()) words.pop_back();
  out += fmt::format("    [{}]=\"{}\"\n", path, words);
  for (const CLI::App* each : commands_of(command)) list_words(*each, path + "/" + each->get_name(), out);
}

}  // namespace

std::string manual_page(const CLI::App& app, const std::string& version) {
  const std::string& name = app.get_name();
  std::string out = fmt::format(".TH {0} 1 \"\" \"{0} {1}\"\n.SH NAME\n{2}\n", name, version,
                                roff(name + " - distributed training for libtorch"));
  out += fmt::format(
      ".SH SYNOPSIS\n\\fB{}\\fR \\fIVERB\\fR [\\fIOPTION\\fR]...\n.SH DESCRIPTION\n{}\n.SH VERBS\n", name,
      roff(app.get_description()));
  for (const CLI::App* verb : commands_of(app)) describe(*verb, name + " " + verb->get_name(), out);
  out +=
      ".SH EXIT STATUS\n0: done. 1: failed. 2: bad usage or input. 128 and a signal's number: ended by that "
      "signal.\n";
  return out;
}

std::string bash_completion(const CLI::App& app) {
  const std::string& name = app.get_name();
  std::string table;
  list_words(app, name, table);
  return fmt::format(R"(# Completion of {0} for bash; written by {0} itself.
_{0}() {{
  local -A words=(
{1}  )
  local path={0} word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    if [[ -n $word && -n ${{words[$path/$word]+x}} ]]; then path+=/$word; fi
  done
  COMPREPLY=($(compgen -W "${{words[$path]}}" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _{0} {0}
)",
                     name, table);
}

}  // namespace entrain::app
