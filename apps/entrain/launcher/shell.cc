#include "launcher/shell.h"

#include "entrain/base/error.h"

namespace entrain::app {
namespace {

bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_plain(char c) {
  return is_alpha(c) || is_digit(c) || std::string_view("./:=,+@%-").find(c) != std::string_view::npos;
}

}  // namespace

std::string quote(std::string_view text) {
  bool plain = !text.empty();
  for (const char c : text) plain = plain && is_plain(c);
  if (plain) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::vector<std::string> split_words(const std::string& text, const std::string& field) {
  std::vector<std::string> words;
  bool inside = false;  // of a word
  char open = 0;        // the quote that is open
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool escapes = c == '\\' && open != '\'' && i + 1 < text.size();
    if (open == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (escapes) {
      words.back() += text[++i];
    } else if (open == 0 && (c == '\'' || c == '"')) {
      open = c;
    } else if (c == open) {
      open = 0;
    } else {
      words.back() += c;
    }
  }
  if (open != 0) bad_input("{} is \"{}\": the quote {} is not closed", field, text, open);
  if (words.empty()) bad_input("{} is empty: a command is needed, for instance ssh -p 2222", field);
  return words;
}

bool is_variable_name(std::string_view name) {
  if (name.empty() || is_digit(name[0])) return false;
  for (const char c : name) {
    if (!is_alpha(c) && !is_digit(c)) return false;
  }
  return true;
}

}  // namespace entrain::app
