// Words of a POSIX shell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace entrain::app {

// One word that every POSIX shell reads as exactly `text`.
std::string quote(std::string_view text);

// The words of a command as a shell reads them: separated by blanks, with '...', "..." and backslashes, but
// nothing is expanded. Throws InputError naming `field` when a quote is not closed or there is no word.
std::vector<std::string> split_words(const std::string& text, const std::string& field);

// Whether the shell takes `name` as the name of a variable.
bool is_variable_name(std::string_view name);

}  // namespace entrain::app
