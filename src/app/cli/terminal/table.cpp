#include "app/cli/terminal/table.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/core/utf8.h"

namespace lowgear::cli {
namespace {

constexpr std::string_view kGap = "  ";

/// Characters, as a terminal counts them for the text that stands in these tables.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char byte) { return !is_utf8_continuation(byte); }));
}

}  // namespace

void Table::add_row(std::vector<std::string> cells) {
  assert(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::size_t width = width_of(columns_[column].header);
    for (const auto& row : rows_) width = std::max(width, width_of(row[column]));
    widths.push_back(width);
  }
  return widths;
}

std::string Table::text() const {
  const std::vector<std::size_t> width = widths();
  std::string out;
  const auto write_row = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const std::string& cell = cell_of(column);
      const std::string blanks(width[column] - width_of(cell), ' ');
      if (column > 0) line += kGap;
      line += columns_[column].align == Align::right ? blanks + cell : cell + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  write_row([&](std::size_t column) -> const std::string& { return columns_[column].header; });
  for (const auto& row : rows_) write_row([&](std::size_t column) -> const std::string& { return row[column]; });
  return out;
}

}  // namespace lowgear::cli
