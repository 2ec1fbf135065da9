#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/error.h"

namespace lowgear {

/// Default limit on the cells of a CSV, which bounds the memory that a malicious file of commas can use.
inline constexpr std::size_t kMaxCsvCells = std::size_t{1} << 24;

struct CsvCell {
  std::string text;  ///< unquoted; blanks around a cell are removed, blanks within quotes stay
  int line = 0;      ///< 1-based line of the cell's first character: a quoted cell before it may span lines
  int column = 0;    ///< 1-based character column of the cell's first character
};

struct CsvRow {
  int line = 0;  ///< 1-based line on which the row starts
  std::vector<CsvCell> cells;
};

/// Reads comma-separated text (RFC 4180): quoted cells, doubled quotes, lines ended by LF, CRLF or CR, an optional
/// UTF-8 BOM, blanks around cells, empty lines (skipped; a line of nothing but commas is a row). Throws InputError with
/// file, line and column on an unclosed quote, text after a closing quote, a NUL byte, or more than `max_cells`
/// cells.
[[nodiscard]] std::vector<CsvRow> parse_csv(std::string_view text, const std::string& source,
                                            std::size_t max_cells = kMaxCsvCells);

/// A CSV with a header, read by column name in any order.
class CsvTable {
 public:
  /// A first line `sep=,`, which spreadsheets write, is skipped. Throws InputError when the text has no header, a
  /// header name occurs twice, or a row is wider or narrower than it.
  CsvTable(std::string_view text, std::string source);

  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  [[nodiscard]] const std::string& source() const { return source_; }
  [[nodiscard]] const std::vector<CsvCell>& header() const { return header_; }

  /// Index of the named column. Throws InputError naming the columns that are there, or where the same name with a unit
  /// (`time` and `time_s`) is there, too: which of them holds the figure is not known.
  [[nodiscard]] std::size_t column(std::string_view name) const;
  [[nodiscard]] bool has_column(std::string_view name) const;
  /// Throws InputError where both columns are there: two names of one figure.
  void refuse_both(std::string_view name, std::string_view other) const;

  [[nodiscard]] const std::string& text(std::size_t row, std::size_t column) const;
  /// A finite number; throws InputError at the cell otherwise ("nan" and "inf" are refused).
  [[nodiscard]] double number(std::size_t row, std::size_t column) const;
  /// A whole number, also when written as `4.0`; throws InputError at the cell otherwise.
  [[nodiscard]] long long integer(std::size_t row, std::size_t column) const;
  [[nodiscard]] SourceLocation where(std::size_t row, std::size_t column) const;

 private:
  friend class CsvBlocks;
  /// Rows without their header.
  CsvTable(std::vector<CsvCell> header, std::string_view rows, std::string source, int first_line);
  [[nodiscard]] const CsvCell& cell(std::size_t row, std::size_t column) const;
  void check_header() const;
  void check_width(const CsvRow& row) const;
  void refuse_comment_as_header() const;

  std::string source_;
  std::vector<CsvCell> header_;
  std::vector<CsvRow> rows_;
};

/// Default size of a block of a long CSV: about a million cells, some 50 MB of memory.
inline constexpr std::size_t kCsvBlockBytes = std::size_t{1} << 20;

/// Reads a long CSV with a header in blocks of whole lines, and holds the cells of one block in memory. A quoted cell
/// ends on the line on which it begins.
class CsvBlocks {
 public:
  /// `text` lives longer than this.
  CsvBlocks(std::string_view text, std::string source, std::size_t block_bytes = kCsvBlockBytes)
      : rest_(text), source_(std::move(source)), block_bytes_(block_bytes) {}

  /// The rows of the next block, below the header of all; empty at the end. Throws InputError as CsvTable does.
  [[nodiscard]] std::optional<CsvTable> next();

 private:
  std::string_view rest_;
  std::string source_;
  std::size_t block_bytes_;
  std::vector<CsvCell> header_;  ///< empty before the first block
  int line_ = 1;                 ///< of `rest_`
};

/// Quotes a cell when it holds a comma, a quote, a line break or blanks at its ends.
[[nodiscard]] std::string csv_cell(std::string_view text);

/// Throws InputError when `text` is HTML or XML, as a failed download leaves it under the name of another file. For
/// formats in which no file begins that way.
void refuse_web_page(std::string_view text, const std::string& source);

}  // namespace lowgear
