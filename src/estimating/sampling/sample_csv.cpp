#include "estimating/sampling/sample_csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"

namespace lowgear::sampling {
namespace {

constexpr std::string_view kDuration = "dur(us)";
/// Of each pass, after the published columns.
constexpr std::array<std::string_view, 7> kOwnColumns = {
    "spread(us)", "repeats", "clock(MHz)", "energy(J)", "energy_error(J)", "window(us)", "window_clock(MHz)"};

std::string cell(double value) { return fmt::format("{:.6g}", value); }
std::string cell(const std::optional<double>& value) { return value ? cell(*value) : std::string(); }

/// In the order of kOwnColumns.
std::array<std::string, kOwnColumns.size()> own_cells(const PassSample& pass) {
  std::array<std::string, kOwnColumns.size()> cells = {cell(pass.spread_us), fmt::to_string(pass.repeats),
                                                       cell(pass.clock_mhz)};
  if (!pass.energy) return cells;
  cells[3] = cell(pass.energy->energy_j);
  cells[4] = cell(pass.energy->error_j);
  cells[5] = cell(pass.energy->window_us);
  cells[6] = cell(pass.energy->clock_mhz);
  return cells;
}

std::string line_of(const std::vector<std::string>& cells) { return fmt::format("{}\n", fmt::join(cells, ",")); }

/// `NVIDIA H100 80GB HBM3` as the published files have such names.
std::string file_word(std::string_view text) {
  std::string word;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || c == '-') word += c;
  }
  return word.empty() ? "GPU" : word;
}

std::vector<std::int64_t> shape_of(const CsvTable& table, std::size_t row, std::size_t columns) {
  std::vector<std::int64_t> cells;
  for (std::size_t column = 0; column < columns; ++column) cells.push_back(table.integer(row, column));
  return cells;
}

}  // namespace

SampleFormat SampleFormat::of(SampledOperator op) {
  const OperatorDescription& description = describe(op);
  std::vector<std::string> columns;
  for (const ShapeColumn column : description.columns) columns.emplace_back(name(column));
  return description.passes == 1 ? SampleFormat(columns, {""}) : SampleFormat(columns, {"F_", "B_"});
}

SampleFormat SampleFormat::of_collectives() { return {{"shape", "nodes", "GPUsPerNode"}, {""}}; }

std::string SampleFormat::header() const {
  std::vector<std::string> cells = shape_columns_;
  for (const std::string& pass : passes_) cells.push_back(fmt::format("{}{}", pass, kDuration));
  for (const std::string_view column : kOwnColumns) {
    for (const std::string& pass : passes_) cells.push_back(fmt::format("{}{}", pass, column));
  }
  return line_of(cells);
}

std::string SampleFormat::row(const SampleRow& row) const {
  if (row.shape.size() != shape_columns_.size() || row.passes.size() != passes_.size()) {
    throw std::invalid_argument("a row of samples has other columns than its file");
  }
  std::vector<std::string> cells;
  for (const std::int64_t value : row.shape) cells.push_back(fmt::to_string(value));
  std::vector<std::array<std::string, kOwnColumns.size()>> own;
  for (const PassSample& pass : row.passes) {
    cells.push_back(cell(pass.duration_us));
    own.push_back(own_cells(pass));
  }
  for (std::size_t column = 0; column < kOwnColumns.size(); ++column) {
    for (const auto& pass : own) cells.push_back(pass[column]);
  }
  return line_of(cells);
}

std::vector<std::int64_t> shape_cells(SampledOperator op, const OperatorShape& shape) {
  std::vector<std::int64_t> cells;
  for (const ShapeColumn column : describe(op).columns) cells.push_back(shape.at(column));
  return cells;
}

ResumePoint resume(const SampleFormat& format, std::string_view text, const std::string& source,
                   std::span<const std::vector<std::int64_t>> plan) {
  const std::string header = format.header();
  if (header.starts_with(text)) return {};  // not even the header is whole, or it alone is there
  const std::string_view kept = text.substr(0, text.rfind('\n') + 1);
  if (!kept.starts_with(header)) {
    throw_input_error({source, 1, 0}, "has other columns than these samples",
                      "give another folder, or move the file away");
  }
  const CsvTable table(kept, source);
  ResumePoint point{.kept_bytes = kept.size(), .rows = table.rows(), .next = 0};
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto begin = plan.begin() + static_cast<std::ptrdiff_t>(point.next);
    const auto found = std::find(begin, plan.end(), shape_of(table, row, format.shape_columns()));
    if (found == plan.end()) {
      throw_input_error({source, table.where(row, 0).line, 0}, "is not a row of this plan, or not in its order",
                        "give the sizes and the part that the file was begun with, or another folder");
    }
    point.next = static_cast<std::size_t>(found - plan.begin()) + 1;
  }
  return point;
}

std::string operator_file(std::string_view gpu, SampledOperator op, SampleType type, const SamplePart& part) {
  const std::string of_part = part.count > 1 ? fmt::format("_part{}of{}", part.index, part.count) : "";
  return fmt::format("operator/{}_{}_{}{}.csv", file_word(gpu), describe(op).name, name(type), of_part);
}

std::string collective_file(std::string_view library, std::string_view gpu, SampledCollective collective,
                            SampleType type, int nodes, int gpus_per_node) {
  return fmt::format("{}/{}_{}_{}_{}_{}.csv", library, file_word(gpu), name(collective), name(type), nodes,
                     gpus_per_node);
}

Spread spread_of(std::vector<double> times) {
  std::ranges::sort(times);
  const auto quantile = [&times](double share) {
    const double place = share * static_cast<double>(times.size() - 1);
    const auto low = static_cast<std::size_t>(place);
    const std::size_t high = std::min(low + 1, times.size() - 1);
    return times[low] + (place - static_cast<double>(low)) * (times[high] - times[low]);
  };
  return {.median = quantile(0.5), .quartiles = quantile(0.75) - quantile(0.25)};
}

}  // namespace lowgear::sampling
