#include "base/core/formats/csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "base/core/text.h"

namespace lowgear {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// That other programs write in place of commas.
constexpr auto kOtherSeparators =
    std::to_array<std::pair<char, std::string_view>>({{';', "semicolons"}, {'\t', "tabs"}, {'|', "bars"}});

/// Ends of names that state one.
constexpr auto kUnits = std::to_array<std::string_view>({"s", "j", "w", "mhz"});

/// A line of spreadsheets that names the separator.
bool names_commas(const std::vector<CsvCell>& cells) {
  return cells.front().text == "sep=," || (cells.size() == 2 && cells[0].text == "sep=" && cells[1].text.empty());
}

bool is_comment(const std::vector<CsvCell>& cells) { return cells.front().text.starts_with('#'); }

/// Walks over the text keeping line and column.
class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& source, std::size_t max_cells, int first_line = 1)
      : text_(text), source_(source), max_cells_(max_cells), line_(first_line) {
    if (text_.starts_with(kUtf8ByteOrderMark)) text_.remove_prefix(kUtf8ByteOrderMark.size());
  }

  std::vector<CsvRow> rows() {
    std::vector<CsvRow> rows;
    while (!at_end()) {
      CsvRow row = read_row();
      if (!row.cells.empty()) rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  [[nodiscard]] char peek() const { return text_[at_]; }
  [[nodiscard]] bool at_line_end() const { return at_end() || peek() == '\n' || peek() == '\r'; }

  [[noreturn]] void fail(int line, int column, std::string_view what, std::string_view fix) const {
    throw_input_error({source_, line, column}, what, fix);
  }

  void advance() {
    const char c = text_[at_++];
    if (c == '\0') fail(line_, column_, "holds a NUL byte", "save the file as UTF-8 text");
    if (c == '\n' || (c == '\r' && (at_end() || peek() != '\n'))) {
      ++line_;
      column_ = 1;
    } else if (!is_utf8_continuation(c)) {
      ++column_;
    }
  }

  void skip_blanks() {
    while (!at_end() && is_blank(peek())) advance();
  }

  void skip_line_end() {
    if (at_end()) return;
    const bool carriage_return = peek() == '\r';
    advance();
    if (carriage_return && !at_end() && peek() == '\n') advance();
  }

  /// A row without cells stands for an empty line.
  CsvRow read_row() {
    CsvRow row;
    row.line = line_;
    skip_blanks();
    if (at_line_end()) {
      skip_line_end();
      return row;
    }
    while (true) {
      row.cells.push_back(read_cell());
      if (at_line_end()) break;
      advance();  // the comma
    }
    skip_line_end();
    return row;
  }

  CsvCell read_cell() {
    if (++cells_ > max_cells_) {
      fail(line_, column_, fmt::format("more than {} cells", max_cells_), "split the file");
    }
    skip_blanks();
    CsvCell cell{{}, line_, column_};
    if (!at_end() && peek() == '"') {
      read_quoted(cell);
    } else {
      const std::size_t start = at_;
      while (!at_line_end() && peek() != ',') advance();
      std::size_t end = at_;
      while (end > start && is_blank(text_[end - 1])) --end;
      cell.text = text_.substr(start, end - start);
    }
    return cell;
  }

  void read_quoted(CsvCell& cell) {
    advance();
    while (true) {
      if (at_end()) fail(cell.line, cell.column, "a quote opens here and never closes", "close it with \"");
      const char c = peek();
      advance();
      if (c != '"') {
        cell.text += c;
      } else if (!at_end() && peek() == '"') {
        cell.text += '"';
        advance();
      } else {
        break;
      }
    }
    skip_blanks();
    if (!at_line_end() && peek() != ',') {
      fail(line_, column_, "text after a closing quote", "put a comma there, or double the quotes within the cell");
    }
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
  std::size_t max_cells_;
  std::size_t cells_ = 0;
  int line_;
  int column_ = 1;
};

}  // namespace

std::vector<CsvRow> parse_csv(std::string_view text, const std::string& source, std::size_t max_cells) {
  refuse_web_page(text, source);
  return CsvReader(text, source, max_cells).rows();
}

CsvTable::CsvTable(std::string_view text, std::string source) : source_(std::move(source)) {
  rows_ = parse_csv(text, source_);
  if (!rows_.empty() && names_commas(rows_.front().cells)) rows_.erase(rows_.begin());
  if (rows_.empty()) throw_input_error({source_, 0, 0}, "is empty", "it needs a header line that names its columns");
  header_ = std::move(rows_.front().cells);
  rows_.erase(rows_.begin());
  check_header();
  for (const CsvRow& row : rows_) check_width(row);
}

CsvTable::CsvTable(std::vector<CsvCell> header, std::string_view rows, std::string source, int first_line)
    : source_(std::move(source)), header_(std::move(header)) {
  rows_ = CsvReader(rows, source_, kMaxCsvCells, first_line).rows();
  for (const CsvRow& row : rows_) check_width(row);
}

std::optional<CsvTable> CsvBlocks::next() {
  const bool is_first = header_.empty();
  if (rest_.empty() && !is_first) return std::nullopt;
  const std::size_t line_end = rest_.find('\n', std::min(block_bytes_, rest_.size()));
  const std::string_view block = rest_.substr(0, line_end == std::string_view::npos ? rest_.size() : line_end + 1);
  CsvTable table = is_first ? CsvTable(block, source_) : CsvTable(header_, block, source_, line_);
  header_ = table.header_;
  line_ += static_cast<int>(std::ranges::count(block, '\n'));
  rest_.remove_prefix(block.size());
  return table;
}

void CsvTable::check_header() const {
  const CsvCell& first = header_.front();
  const auto* const separator = std::ranges::find_if(
      kOtherSeparators, [&](const auto& other) { return first.text.find(other.first) != std::string::npos; });
  if (header_.size() == 1 && separator != kOtherSeparators.end()) {
    throw_input_error({source_, first.line, first.column},
                      fmt::format("the cells are separated by {}", separator->second),
                      "separate them by commas, and write numbers with a point");
  }
  std::set<std::string_view> names;
  for (const CsvCell& name : header_) {
    if (!names.insert(name.text).second) {
      throw_input_error({source_, name.line, name.column}, fmt::format("column {} occurs twice", quote(name.text)),
                        "keep one of them");
    }
  }
}

void CsvTable::refuse_comment_as_header() const {
  if (!is_comment(header_)) return;
  throw_input_error({source_, header_.front().line, header_.front().column}, "the first line is a comment",
                    "begin the file with the names of its columns, without #");
}

void CsvTable::check_width(const CsvRow& row) const {
  if (row.cells.size() == header_.size()) return;
  refuse_comment_as_header();
  if (is_comment(row.cells)) {
    throw_input_error({source_, row.line, row.cells.front().column}, "the line is a comment", "remove it");
  }
  const bool narrow = row.cells.size() < header_.size();
  const CsvCell& at = narrow ? row.cells.back() : row.cells[header_.size()];
  throw_input_error({source_, at.line, at.column},
                    fmt::format("the row has {} cells, but the header has {}", row.cells.size(), header_.size()),
                    narrow ? "complete the row: the file may be truncated"
                           : "remove the extra cells, or write numbers with a point where they have a comma");
}

std::size_t CsvTable::column(std::string_view name) const {
  for (std::size_t i = 0; i < header_.size(); ++i) {
    if (header_[i].text != name) continue;
    for (const std::string_view unit : kUnits) refuse_both(name, fmt::format("{}_{}", name, unit));
    return i;
  }
  refuse_comment_as_header();
  const auto differs_by_case = [name](const CsvCell& cell) {
    return std::ranges::equal(
        cell.text, name, {}, [](unsigned char letter) { return std::tolower(letter); },
        [](unsigned char letter) { return std::tolower(letter); });
  };
  if (const auto other = std::ranges::find_if(header_, differs_by_case); other != header_.end()) {
    throw_input_error(
        {source_, other->line, other->column}, fmt::format("there is no column {}", quote(name)),
        fmt::format("the header has {}, and upper and lower case differ: write {}", quote(other->text), name));
  }
  std::vector<std::string> names;
  constexpr std::size_t kMostShown = 20;
  for (const CsvCell& cell : header_) {
    if (names.size() == kMostShown) {
      names.emplace_back("...");
      break;
    }
    names.push_back(quote(cell.text));
  }
  throw_input_error({source_, header_.front().line, 0}, fmt::format("there is no column {}", quote(name)),
                    fmt::format("the header has {}", fmt::join(names, ", ")));
}

void CsvTable::refuse_both(std::string_view name, std::string_view other) const {
  const auto second = std::ranges::find(header_, other, &CsvCell::text);
  if (second == header_.end() || !has_column(name)) return;
  throw_input_error({source_, second->line, second->column},
                    fmt::format("columns {} and {} are two names of one figure", quote(name), quote(other)),
                    fmt::format("keep the right one, as {}", name));
}

bool CsvTable::has_column(std::string_view name) const {
  return std::any_of(header_.begin(), header_.end(), [name](const CsvCell& cell) { return cell.text == name; });
}

const CsvCell& CsvTable::cell(std::size_t row, std::size_t column) const { return rows_.at(row).cells.at(column); }

const std::string& CsvTable::text(std::size_t row, std::size_t column) const { return cell(row, column).text; }

double CsvTable::number(std::size_t row, std::size_t column) const {
  const std::string& text = cell(row, column).text;
  if (const std::optional<double> value = parse_number(text)) return *value;
  throw_input_error(where(row, column),
                    fmt::format("{}: expected a number, found {}", header_[column].text,
                                text.empty() ? "an empty cell" : quote(text)),
                    "give a finite decimal number such as 0.0512");
}

long long CsvTable::integer(std::size_t row, std::size_t column) const {
  const std::string& text = cell(row, column).text;
  if (const std::optional<long long> value = parse_integer(text)) return *value;
  throw_input_error(where(row, column),
                    fmt::format("{}: expected a whole number, found {}", header_[column].text,
                                text.empty() ? "an empty cell" : quote(text)),
                    "give a whole number");
}

SourceLocation CsvTable::where(std::size_t row, std::size_t column) const {
  const CsvCell& at = cell(row, column);
  return {source_, at.line, at.column};
}

std::string csv_cell(std::string_view text) {
  const bool blank_ends = !text.empty() && (is_blank(text.front()) || is_blank(text.back()));
  if (!blank_ends && text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string cell = "\"";
  for (const char c : text) {
    if (c == '"') cell += '"';
    cell += c;
  }
  return cell + '"';
}

namespace {

char lower_case(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

bool begins_with(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() && std::ranges::equal(text.substr(0, lower.size()), lower, {}, lower_case);
}

}  // namespace

void refuse_web_page(std::string_view text, const std::string& source) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const bool is_page = begins_with(text, "<!doctype") || begins_with(text, "<html") || begins_with(text, "<?xml");
  if (!is_page) return;
  throw_input_error({source, 0, 0}, "it is a web page (HTML or XML), as a failed download leaves it",
                    "download the file itself");
}

}  // namespace lowgear
