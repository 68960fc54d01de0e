#include "usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <vector>

#include "entrain/base/limits.h"
#include "entrain/base/suggest.h"

namespace entrain::app {
namespace {

constexpr double kMostOfAnything = 1e30;  // within what a float holds, products with batch sizes, too

// The flag of `app` that `name` was meant to be; empty: none is near.
std::string nearest_flag(const CLI::App& app, const std::string& name) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& flag : option->get_lnames()) known.push_back(flag);
  }
  return nearest_name(name, known);
}

bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && (word[1] == '-' ? word.size() > 2 : std::isalpha(word[1]) != 0);
}

// Of `app` or of the verb of it that was chosen; empty: none.
std::string unknown_flag(const CLI::App& app) {
  for (const std::string& word : app.remaining()) {
    if (!is_flag(word)) continue;
    const std::string flag = word.substr(0, word.find('='));
    const std::string meant = flag.starts_with("--") ? nearest_flag(app, flag.substr(2)) : "";
    return fmt::format("unknown flag {}{}", flag,
                       meant.empty() ? "" : fmt::format("; did you mean --{}?", meant));
  }
  for (const CLI::App* verb : app.get_subcommands()) {
    if (std::string found = unknown_flag(*verb); !found.empty()) return found;
  }
  return "";
}

// The verb that was chosen last: of "dataset stats" that is "stats".
const CLI::App& chosen(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(verb->get_name());
  }
  return names;
}

std::string unknown_verb(const CLI::App& app, const std::string& word) {
  return fmt::format("unknown verb '{}'{}", word, did_you_mean(word, verbs_of(app)));
}

// A word where a verb was expected; empty: there is none.
std::string unknown_verb(const CLI::App& app) {
  const CLI::App& at = chosen(app);
  const std::vector<std::string> words = at.remaining();
  if (verbs_of(at).empty() || words.empty() || is_flag(words.front())) return "";
  return unknown_verb(at, words.front());
}

// "train", "dataset stats"
std::string verb_of(const CLI::App& app) {
  std::string name;
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    name += " " + at->get_name();
  }
  return name;
}

// CLI11's own name the whole range of a double: 309 digits.
CLI::Validator number_that(const char* wanted, bool (*fits)(double)) {
  const auto check = [=](const std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || std::isnan(value)) {
      return fmt::format("'{}' is not a number", text);
    }
    return fits(value) ? "" : fmt::format("{} is not allowed; it must be {}", text, wanted);
  };
  return {check, "", wanted};
}

// CLI11 reads -1 as the largest unsigned number, and takes the largest one for any that is larger.
template <typename T>
std::string whole_number_error(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  return fmt::format("'{}' is not allowed; it must be a whole number from {} to {}", text,
                     std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
}

std::string number_error(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return fmt::format("'{}' is not a number", text);
  if (std::abs(value) <= kMostOfAnything) return "";  // written so that NaN fails
  return fmt::format("{} is not allowed; it must be a number from {} to {}", text, -kMostOfAnything,
                     kMostOfAnything);
}

std::string value_error(const std::string& type, const std::string& text) {
  if (text.empty()) return "it is empty; give a value, or leave it out";
  if (type.starts_with("UINT")) return whole_number_error<uint64_t>(text);
  if (type.starts_with("INT")) return whole_number_error<int64_t>(text);
  return type.starts_with("FLOAT") ? number_error(text) : "";
}

}  // namespace

void check_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 0 || option->get_positional()) continue;  // a switch, or words
    const std::string type = option->get_type_name();
    option->check([type](const std::string& text) { return value_error(type, text); });
  }
  for (CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) check_values(*verb);
}

std::string fields_as_flags(const CLI::App& app, const std::string& message) {
  // Fields whose flags have other names.
  static const std::map<std::string, std::string> kRenamed = {{"rate_schedule", "lr-schedule"},
                                                              {"clip_norm", "clip"}};
  std::vector<std::string> flags;
  for (const CLI::Option* option : chosen(app).get_options()) {
    for (const std::string& flag : option->get_lnames()) flags.push_back(flag);
  }
  std::string result;
  size_t at = 0;
  while (true) {
    const size_t open = message.find('`', at);
    const size_t close = open == std::string::npos ? open : message.find('`', open + 1);
    if (close == std::string::npos) return result + message.substr(at);
    const std::string field = message.substr(open + 1, close - open - 1);
    std::string flag = field;
    std::replace(flag.begin(), flag.end(), '_', '-');
    if (const auto renamed = kRenamed.find(field); renamed != kRenamed.end()) flag = renamed->second;
    const bool known = std::find(flags.begin(), flags.end(), flag) != flags.end();
    result += message.substr(at, open - at) + (known ? "--" + flag : message.substr(open, close + 1 - open));
    at = close + 1;
  }
}

const CLI::Validator& positive() {
  static const CLI::Validator check = number_that("above 0", [](double value) { return value > 0; });
  return check;
}

const CLI::Validator& not_negative() {
  static const CLI::Validator check = number_that("0 or more", [](double value) { return value >= 0; });
  return check;
}

const CLI::Validator& examples() {
  static const std::string wanted = fmt::format("at most {}", kMaxExamples);
  static const CLI::Validator check =
      number_that(wanted.c_str(), [](double value) { return value <= kMaxExamples; });
  return check;
}

CLI::Option* add_model_option(CLI::App& verb, std::string& model, Models accepted) {
  const std::string zoo = "Model of the zoo (see entrain graph --list)";
  auto* option = verb.add_option("--model", model,
                                 accepted == Models::kZoo ? zoo : zoo + ", or a TorchScript file NAME.pt");
  return model.empty() ? option : option->capture_default_str();
}

void add_json_option(CLI::App& verb, bool& wanted) {
  verb.add_flag("--json", wanted, "One JSON document on stdout");
}

std::string help_error(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || words.front() != "help") return "";
  const CLI::App* at = &app;
  std::string path;
  for (size_t i = 1; i < words.size() && !verbs_of(*at).empty(); ++i) {
    const auto verbs =
        at->get_subcommands([&](const CLI::App* verb) { return verb->get_name() == words[i]; });
    if (verbs.empty()) return fmt::format("{} (see entrain{} --help)", unknown_verb(*at, words[i]), path);
    at = verbs.front();
    path += " " + words[i];
  }
  return "";
}

std::vector<std::string> without_help_verb(std::vector<std::string> words) {
  if (words.empty()) return {"--help"};
  if (words.front() != "help") return words;
  words.erase(words.begin());
  words.push_back("--help");
  return words;
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string unknown = unknown_verb(app);  // whose flags are unknown, too
  if (unknown.empty()) unknown = unknown_flag(app);
  return fmt::format("{} (see entrain{} --help)", unknown.empty() ? error.what() : unknown, verb_of(app));
}

}  // namespace entrain::app
