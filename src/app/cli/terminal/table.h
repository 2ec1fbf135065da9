#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lowgear::cli {

/// A table for people: columns as wide as their widest cell, two blanks between them, numbers to the right.
class Table {
 public:
  enum class Align : unsigned char { left, right };
  struct Column {
    std::string header;
    Align align = Align::right;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// `cells` has one text per column.
  void add_row(std::vector<std::string> cells);
  /// Header and rows, each ended by a line feed, without blanks at the end of a line.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Amounts with four digits in the unit that suits them: `2.911 MJ`, `43.18 kW`, `1.2 kg`.
[[nodiscard]] std::string energy_text(double energy_j);
[[nodiscard]] std::string power_text(double power_w);
[[nodiscard]] std::string mass_text(double mass_g);

/// Number of digits after the point that shows `value` with `digits` significant digits.
[[nodiscard]] int decimals(double value, int digits);

}  // namespace lowgear::cli
