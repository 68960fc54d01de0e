#include "entrain/strategy/shape_file.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "entrain/base/error.h"
#include "entrain/base/files.h"
#include "entrain/strategy/shape_text.h"
#include "entrain/strategy/stored.h"

namespace entrain::strategy {
namespace {

Shape of_strategy(Strategy strategy) {
  if (!strategy.shape) bad_input("a strategy without a shape; allowed: one that has `shape`");
  validate(*strategy.shape);
  return *std::move(strategy.shape);
}

// A shape, or a strategy that has one.
Shape of_json(const std::string& text) {
  const bool whole = text.find("\"cells\"") < text.find("\"shape\"");
  return of_strategy(from_json(whole ? "{\"shape\": " + text + "}" : text));
}

// In no text; in any stored strategy that has a shape.
bool is_binary(char letter) { return letter == 0 || static_cast<unsigned char>(letter) > 126; }

Shape in_file(const std::filesystem::path& path, int layers) {
  const std::string content = read_file(path);
  const size_t first = content.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) bad_input("no shape there; allowed: cells as 0-12@0,1,2");
  if (content[first] == '{') return of_json(content);
  if (std::any_of(content.begin(), content.end(), is_binary)) return of_strategy(from_binary(content));
  std::string text;
  bool comment = false;
  for (const char letter : content) {
    if (letter == '#') comment = true;
    if (letter == '\n') comment = false;
    if (!comment) text += std::isspace(static_cast<unsigned char>(letter)) != 0 ? ' ' : letter;
  }
  return parse_shape(text, layers);
}

}  // namespace

Shape shape_from(const std::string& given, int layers) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(given, error)) {
    if (given.find('@') == std::string::npos) {
      bad_input("shape: '{}' is neither a file nor a shape, allowed: cells as 0-12@0,1,2 or @0-3, or a file",
                given);
    }
    return parse_shape(given, layers);
  }
  try {
    return in_file(given, layers);
  } catch (const InputError& e) {
    bad_input("{}: {}", given, e.what());
  }
}

}  // namespace entrain::strategy
