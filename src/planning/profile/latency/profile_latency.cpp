#include "planning/profile/latency/profile_latency.h"

#include <fmt/format.h>

#include "base/core/error.h"
#include "base/core/formats/csv.h"

namespace lowgear::profile {
namespace {

constexpr std::string_view kColumn = "switch_latency";

}  // namespace

std::optional<double> read_switch_latency(std::string_view text, const std::string& source) {
  const CsvTable table(text, source);
  if (!table.has_column(kColumn)) return std::nullopt;
  const std::size_t column = table.column(kColumn);
  std::optional<double> largest_s;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, column).empty()) continue;
    const double latency_s = table.number(row, column);
    if (!(latency_s >= 0 && latency_s <= kMaxProfiledLatencyS)) {
      throw_input_error(table.where(row, column),
                        fmt::format("a switch latency of {} s is not in 0 to {}", latency_s, kMaxProfiledLatencyS),
                        latency_s < 0 ? "measure it again or leave the cell empty"
                                      : fmt::format("give seconds: did you mean {}?", latency_s / 1e3));
    }
    if (!largest_s || latency_s > *largest_s) largest_s = latency_s;
  }
  return largest_s;
}

std::string with_switch_latency(std::string profile_csv, std::optional<double> latency_s) {
  if (!latency_s) return profile_csv;
  std::string text;
  std::string cell(kColumn);
  for (const char character : profile_csv) {
    if (character == '\n') {
      text += ',' + cell;
      cell = fmt::to_string(*latency_s);  // of the rows below the header
    }
    text += character;
  }
  return text;
}

}  // namespace lowgear::profile
