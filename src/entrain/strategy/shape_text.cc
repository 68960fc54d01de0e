#include "entrain/strategy/shape_text.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "entrain/base/error.h"
#include "entrain/base/limits.h"

namespace entrain::strategy {
namespace {

constexpr const char* kForms = "cells as 0-12@0,1,2 or @0-3*.25, m=8, schedule=1f1b, remat=never";

constexpr size_t kShown = 80;  // letters of what is wrong

[[noreturn]] void refuse_shape(std::string_view part) {
  bad_input("shape: '{}' cannot be read, allowed: {}", part.substr(0, kShown), kForms);
}

template <typename Number>
Number number_of(std::string_view text, std::string_view part) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) refuse_shape(part);
  return value;
}

// "3" or "3-7".
std::pair<int, int> range_of(std::string_view text, std::string_view part) {
  const size_t dash = text.find('-');
  const int first = number_of<int>(text.substr(0, dash), part);
  const int last = dash == std::string_view::npos ? first : number_of<int>(text.substr(dash + 1), part);
  constexpr int kMost = 1 << 20;  // more layers than anyone has
  if (last < first || last > kMost) refuse_shape(part);
  return {first, last};
}

void add_ranks(Cell& cell, std::string_view text, std::string_view part) {
  const size_t star = text.find('*');
  const auto [first, last] = range_of(text.substr(0, star), part);
  if (last >= kMaxRanks || cell.ranks.size() > kMaxRanks) {
    bad_input("shape: '{}' has rank {}, allowed: 0 to {}, each once", part.substr(0, kShown), last,
              kMaxRanks - 1);
  }
  for (int rank = first; rank <= last; ++rank) {
    cell.ranks.push_back(rank);
    if (star != std::string_view::npos) cell.shares.push_back(number_of<double>(text.substr(star + 1), part));
  }
}

Cell read_cell(std::string_view part, int layers) {
  const size_t at = part.find('@');
  Cell cell{0, layers, {}};
  if (at > 0) {
    const auto [first, last] = range_of(part.substr(0, at), part);
    cell.begin = first;
    cell.end = last + 1;
  }
  for (std::string_view rest = part.substr(at + 1);;) {
    const size_t comma = rest.find(',');
    add_ranks(cell, rest.substr(0, comma), part);
    if (comma == std::string_view::npos) return cell;
    rest.remove_prefix(comma + 1);
  }
}

void read_setting(Shape& shape, std::string_view part) {
  const size_t equals = part.find('=');
  if (equals == std::string_view::npos) refuse_shape(part);
  const std::string_view name = part.substr(0, equals), value = part.substr(equals + 1);
  if (name == "m") {
    shape.micro_batches = number_of<int>(value, part);
  } else if (name == "schedule") {
    shape.schedule = value;
  } else if (name == "remat") {
    shape.remat = pipeline::parse_remat(std::string(value));
  } else {
    refuse_shape(part);
  }
}

std::string ranks_text(const Cell& cell) {
  std::string text;
  for (size_t i = 0; i < cell.ranks.size();) {
    size_t next = i + 1;
    const auto joins = [&](size_t j) {
      return cell.ranks[j] == cell.ranks[j - 1] + 1 &&
             (cell.shares.empty() || cell.shares[j] == cell.shares[i]);
    };
    while (next < cell.ranks.size() && joins(next)) ++next;
    if (!text.empty()) text += ',';
    text += fmt::format("{}", cell.ranks[i]);
    if (next > i + 1) text += fmt::format("-{}", cell.ranks[next - 1]);
    if (!cell.shares.empty()) text += fmt::format("*{}", cell.shares[i]);
    i = next;
  }
  return text;
}

}  // namespace

Shape parse_shape(const std::string& text, int layers) {
  Shape shape;
  for (size_t at = 0; (at = text.find_first_not_of(" ;", at)) != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(" ;", at), text.size());
    const std::string_view part = std::string_view(text).substr(at, end - at);
    if (part.find('@') != std::string_view::npos) {
      shape.cells.push_back(read_cell(part, layers));
    } else {
      read_setting(shape, part);
    }
    at = end;
  }
  validate(shape);
  return shape;
}

std::string to_text(const Shape& shape) {
  std::string text;
  for (const Cell& cell : shape.cells) {
    if (!text.empty()) text += ' ';
    if (shape.cells.size() > 1) {
      text += cell.end == cell.begin + 1 ? fmt::format("{}", cell.begin)
                                         : fmt::format("{}-{}", cell.begin, cell.end - 1);
    }
    text += '@' + ranks_text(cell);
  }
  const Shape plain;
  if (shape.micro_batches != plain.micro_batches) text += fmt::format(" m={}", shape.micro_batches);
  if (shape.schedule != plain.schedule) text += " schedule=" + shape.schedule;
  if (shape.remat != plain.remat) text += " remat=" + pipeline::remat_name(shape.remat);
  return text;
}

}  // namespace entrain::strategy
