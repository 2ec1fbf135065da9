/// CSV: text that is read is written and read back the same, and every cell can be asked for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/csv.h"
#include "checks.h"

namespace {

using lowgear::CsvRow;

std::string write(const std::vector<CsvRow>& rows) {
  std::string text;
  for (const CsvRow& row : rows) {
    const bool single_empty = row.cells.size() == 1 && row.cells.front().text.empty();
    if (single_empty) text += "\"\"";  // unquoted, it would be an empty line
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      if (i > 0) text += ',';
      text += lowgear::csv_cell(row.cells[i].text);
    }
    text += '\n';
  }
  return text;
}

void check_round_trip(std::string_view text) {
  const std::vector<CsvRow> rows = lowgear::parse_csv(text, "fuzz.csv");
  // Text that begins with a byte order mark would lose it on reading again.
  const std::vector<CsvRow> again = lowgear::parse_csv("\xEF\xBB\xBF" + write(rows), "fuzz.csv");
  if (again.size() != rows.size()) std::abort();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (again[row].cells.size() != rows[row].cells.size()) std::abort();
    for (std::size_t i = 0; i < rows[row].cells.size(); ++i) {
      if (again[row].cells[i].text != rows[row].cells[i].text) std::abort();
      if (rows[row].cells[i].line < rows[row].line || rows[row].cells[i].column < 1) std::abort();
    }
  }
}

void ask_for_every_cell(std::string_view text) {
  const lowgear::CsvTable table(text, "fuzz.csv");
  ignore_input_error([&] { (void)table.column("time"); });
  const std::size_t columns = lowgear::parse_csv(text, "fuzz.csv").front().cells.size();
  for (std::size_t row = 0; row < table.rows(); ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      ignore_input_error([&] { (void)table.number(row, column); });
      ignore_input_error([&] { (void)table.integer(row, column); });
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  ignore_input_error([text] { check_round_trip(text); });
  ignore_input_error([text] { ask_for_every_cell(text); });
  return 0;
}
