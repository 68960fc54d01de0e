// What is wrong with a command line, in one line; what every verb's options share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace entrain::app {

// `error`: what parse() of `app` has thrown. An unknown flag or verb is named first, with the one it may have
// been meant for: a missing required flag is often that very one, mistyped.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

// The library's errors name fields in backquotes (`batch_size`); those that are flags of the verb that was
// chosen become these flags (--batch-size).
std::string fields_as_flags(const CLI::App& app, const std::string& message);

// For ->check(): numbers above 0, from 0 on, and of examples. Their messages name the value and what is
// allowed.
const CLI::Validator& positive();
const CLI::Validator& not_negative();
const CLI::Validator& examples();

// What holds for every option of every verb, whatever else it is checked for: numbers are finite and fit in
// their type, which CLI11 would cut them to; nothing is empty. Call it when all options are there.
void check_values(CLI::App& app);

// --model. What `model` holds is the default. Returned so that a verb can say more of it.
enum class Models { kZoo, kZooOrScript };  // script: a TorchScript file
CLI::Option* add_model_option(CLI::App& verb, std::string& model, Models accepted);

// --json: one document on stdout.
void add_json_option(CLI::App& verb, bool& wanted);

// What is wrong with "help VERB ...": an unknown verb, which --help would ignore; empty: nothing.
std::string help_error(const CLI::App& app, const std::vector<std::string>& words);

// The words behind the program's name, with "help VERB ..." turned into "VERB ... --help"; none at all are
// --help, too.
std::vector<std::string> without_help_verb(std::vector<std::string> words);

}  // namespace entrain::app
