#include "planning/profile/profile_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "planning/profile/options.h"
#include "planning/profile/rank_merge.h"
#include "planning/profile/row_check.h"

namespace lowgear::profile {
namespace {

constexpr std::string_view kActivations = "activation_bytes";
constexpr std::string_view kBlocking = "blocking_power";
constexpr std::string_view kTransfer = "transfer";
constexpr std::string_view kLatency = "switch_latency";
constexpr std::string_view kOrigin = "origin";
constexpr std::string_view kTimeError = "time_error";
constexpr std::string_view kEnergyError = "energy_error";
constexpr auto kOrigins = std::to_array<std::string_view>({"", "measured", "simulated", "predicted"});
constexpr double kMostBytes = 1e15;
constexpr double kMostTransferS = 1000;
/// GPUs take milliseconds to change their clock, some of them tenths of a second.
constexpr double kMostLatencyS = 1;
/// Longest transfer, by the forward of its stage: pipelines hide messages behind computations.
constexpr double kMostTransferByForward = 10;

/// A column with a unit that profiles do not have, and how to mend it.
struct OtherUnit {
  std::string_view column;
  std::string_view unit;
  std::string_view fix;
};

constexpr auto kOtherUnits = std::to_array<OtherUnit>({
    {"time_ms", "milliseconds", "divide its values by 1000 and name it time_s: a profile has seconds"},
    {"time_us", "microseconds", "divide its values by 1000000 and name it time_s: a profile has seconds"},
    {"time_ns", "nanoseconds", "divide its values by 1000000000 and name it time_s: a profile has seconds"},
    {"energy_mj", "millijoules", "divide its values by 1000 and name it energy_j: a profile has joules"},
    {"energy_kj", "kilojoules", "multiply its values by 1000 and name it energy_j: a profile has joules"},
    {"energy_wh", "watt hours", "multiply its values by 3600 and name it energy_j: a profile has joules"},
    {"frequency_hz", "hertz", "divide its values by 1000000 and name it clock_mhz: a profile has MHz"},
    {"frequency_ghz", "gigahertz", "multiply its values by 1000 and name it clock_mhz: a profile has MHz"},
    {"clock_hz", "hertz", "divide its values by 1000000 and name it clock_mhz: a profile has MHz"},
    {"clock_ghz", "gigahertz", "multiply its values by 1000 and name it clock_mhz: a profile has MHz"},
});

void refuse_powers(const CsvTable& table) {
  if (table.has_column("energy")) return;
  for (const CsvCell& cell : table.header()) {
    if (cell.text != "power" && cell.text != "power_w") continue;
    throw_input_error({table.source(), cell.line, cell.column}, "a profile has energies, and this column powers",
                      "add the column energy in joules: energy = power x time");
  }
}

void refuse_other_units(const CsvTable& table) {
  for (const CsvCell& cell : table.header()) {
    const auto other = std::ranges::find(kOtherUnits, cell.text, &OtherUnit::column);
    if (other == kOtherUnits.end()) continue;
    throw_input_error({table.source(), cell.line, cell.column},
                      fmt::format("the column {} is in {}", quote(cell.text), other->unit), other->fix);
  }
}

/// Reads the columns of a row.
class RowReader {
 public:
  explicit RowReader(const CsvTable& table)
      : table_(table),
        stage_(table.column("stage")),
        instruction_(table.column("instruction")),
        frequency_(table.column("frequency")),
        time_(table.column("time")),
        energy_(table.column("energy")) {
    table.refuse_both("frequency", "clock_mhz");
    if (table.has_column("rank")) rank_ = table.column("rank");
    if (table.has_column("setting")) setting_ = table.column("setting");
  }

  /// Whether the row's op is planned: `load` is only recorded.
  [[nodiscard]] bool is_planned(std::size_t row) const { return table_.text(row, instruction_) != "load"; }

  [[nodiscard]] ProfileRow read(std::size_t row) const {
    const int line = table_.where(row, stage_).line;
    Measurement measurement{clock_mhz(row), time_s(row), energy_j(row), setting(row), line};
    const long long rank = rank_ ? table_.integer(row, *rank_) : 0;
    return {stage(row), kind(row), std::move(measurement), line, rank};
  }

  [[nodiscard]] int stage(std::size_t row) const {
    const long long stage = table_.integer(row, stage_);
    if (stage < 0 || stage >= kMaxStages) {
      throw_input_error(table_.where(row, stage_), fmt::format("stage {} is not in 0 to {}", stage, kMaxStages - 1),
                        "number the stages from 0");
    }
    return static_cast<int>(stage);
  }

 private:
  [[nodiscard]] OpKind kind(std::size_t row) const {
    const std::string& text = table_.text(row, instruction_);
    const std::optional<OpKind> kind = op_kind_from_name(text);
    if (!kind) {
      throw_input_error(table_.where(row, instruction_),
                        fmt::format("unknown instruction {}{}", quote(text), meant(text)),
                        fmt::format("instructions are {}", op_kind_names()));
    }
    return *kind;
  }

  /// ` (did you mean forward?)` of the usual abbreviations, and of other cases.
  static std::string meant(std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char letter) { return std::tolower(letter); });
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      const std::string_view full = name(kind);
      const std::string short_name = fmt::format("{}wd", full.front());
      const std::array<std::string_view, 3> others{full, full.substr(0, 1), short_name};
      if (std::ranges::find(others, std::string_view(text)) != others.end()) {
        return fmt::format(" (did you mean {}?)", full);
      }
    }
    return "";
  }

  [[nodiscard]] int clock_mhz(std::size_t row) const {
    const long long clock_mhz = table_.integer(row, frequency_);
    if (clock_mhz < kLowestSmClockMhz || clock_mhz > kHighestSmClockMhz) {
      throw_input_error(table_.where(row, frequency_),
                        fmt::format("frequency {} MHz is not in {} to {}, and no GPU's SM clock is", clock_mhz,
                                    kLowestSmClockMhz, kHighestSmClockMhz),
                        "give the locked SM clock in MHz");
    }
    return static_cast<int>(clock_mhz);
  }

  [[nodiscard]] double time_s(std::size_t row) const {
    const double time_s = table_.number(row, time_);
    refuse(problem_with_time(time_s), row, time_);
    return time_s;
  }

  [[nodiscard]] double energy_j(std::size_t row) const {
    if (table_.text(row, energy_).empty()) {
      throw_input_error(table_.where(row, energy_), "the energy is missing",
                        "profile with energies: Perseus' InstructionProfiler needs blocking_power_w where a trainer "
                        "reports none by instruction");
    }
    const double energy_j = table_.number(row, energy_);
    refuse(problem_with_energy(energy_j), row, energy_);
    return energy_j;
  }

  [[nodiscard]] std::string setting(std::size_t row) const {
    if (!setting_) return {};
    const std::string& text = table_.text(row, *setting_);
    if (const auto problem = problem_with_setting(text)) throw_input_error(table_.where(row, *setting_), *problem);
    return text;
  }

  void refuse(const std::optional<std::string>& problem, std::size_t row, std::size_t column) const {
    if (problem) throw_input_error(table_.where(row, column), *problem, "measure it again or remove the row");
  }

  const CsvTable& table_;
  std::size_t stage_;
  std::size_t instruction_;
  std::size_t frequency_;
  std::size_t time_;
  std::size_t energy_;
  std::optional<std::size_t> rank_;
  std::optional<std::size_t> setting_;
};

/// Columns that are read, and those that profilers write for themselves.
constexpr auto kColumns = std::to_array<std::string_view>(
    {"stage", "instruction", "frequency", "time", "energy", "rank", "setting", kActivations, kTransfer, kLatency,
     kBlocking, kOrigin, kTimeError, kEnergyError, "dp_rank", "pp_rank", "tp_rank"});

/// Optional ones, in seconds, that are likely to be written with a unit.
constexpr auto kSecondsColumns = std::to_array<std::string_view>({kTransfer, kLatency});

/// Columns that nothing reads. Throws InputError for one that was meant to be read, such as `switch_latency_s`.
std::vector<std::string> unread_columns(const CsvTable& table) {
  std::vector<std::string> unread;
  for (const CsvCell& cell : table.header()) {
    if (cell.text.empty() || std::ranges::find(kColumns, cell.text) != kColumns.end()) continue;
    for (const std::string_view column : kSecondsColumns) {
      if (!cell.text.starts_with(fmt::format("{}_", column))) continue;
      throw_input_error({table.source(), cell.line, cell.column},
                        fmt::format("the column {} is not read", quote(cell.text)),
                        fmt::format("name it {}, and give seconds", column));
    }
    unread.push_back(quote(cell.text));
  }
  if (unread.empty()) return {};
  return {fmt::format("{}: nothing reads {} {}", table.source(), unread.size() == 1 ? "the column" : "the columns",
                      fmt::join(unread, ", "))};
}

std::vector<ProfileRow> read_rows(const CsvTable& table, const RowReader& reader) {
  std::vector<ProfileRow> rows;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (reader.is_planned(row)) rows.push_back(reader.read(row));
  }
  if (rows.empty()) {
    throw_input_error({table.source(), 0, 0}, "holds no measurements",
                      "it needs rows below the header: stage,instruction,frequency,time,energy");
  }
  return rows;
}

void refuse_duplicates(const std::vector<ProfileRow>& rows, const std::string& source, bool has_ranks) {
  std::map<std::tuple<int, OpKind, int, std::string_view, long long>, int> line_of;
  for (const ProfileRow& row : rows) {
    const auto& [clock_mhz, time_s, energy_j, setting, line] = row.measurement;
    const auto [first, is_new] = line_of.insert({{row.stage, row.kind, clock_mhz, setting, row.rank}, row.line});
    if (is_new) continue;
    throw_input_error({source, row.line, 0},
                      fmt::format("stage {} {} at {} MHz{} is measured in line {} already", row.stage, name(row.kind),
                                  clock_mhz, setting.empty() ? "" : " with setting " + setting, first->second),
                      has_ranks ? "a rank measures it once: keep the mean of its rows"
                                : "keep the mean of repeated measurements, or add the column rank where several ranks "
                                  "of the stage measured them");
  }
}

/// Highest clock first, as a profile holds them, so that each one is appended.
void sort_rows(std::vector<ProfileRow>& rows) {
  std::sort(rows.begin(), rows.end(), [](const ProfileRow& a, const ProfileRow& b) {
    return std::tie(b.measurement.clock_mhz, a.measurement.time_s) <
           std::tie(a.measurement.clock_mhz, b.measurement.time_s);
  });
}

/// One profile for each rank, before ranks are merged.
std::vector<StageProfile> profiles_by_rank(std::vector<ProfileRow> rows) {
  sort_rows(rows);
  std::map<long long, int> stages;
  for (const ProfileRow& row : rows) stages[row.rank] = std::max(stages[row.rank], row.stage + 1);
  std::map<long long, StageProfile> profiles;
  for (const auto& [rank, count] : stages) profiles.emplace(rank, StageProfile(count));
  for (ProfileRow& row : rows) profiles.at(row.rank).add(row.stage, row.kind, std::move(row.measurement));
  std::vector<StageProfile> all;
  for (auto& [rank, profile] : profiles) all.push_back(std::move(profile));
  return all;
}

/// The number of stages, which must be 0..S-1. Looks only at the numbers that are there, so that a wrong one costs
/// nothing.
int count_stages(const std::vector<ProfileRow>& rows, const std::string& source) {
  std::set<int> stages;
  for (const ProfileRow& row : rows) stages.insert(row.stage);
  int expected = 0;
  for (const int stage : stages) {
    if (stage != expected) {
      throw_input_error({source, 0, 0}, fmt::format("stage {} has no rows, though stage {} has", expected, stage),
                        "number the stages from 0 without a gap");
    }
    ++expected;
  }
  return expected;
}

void refuse_missing_kinds(const StageProfile& profile, const std::string& source) {
  const int forward_only = forward_only_stages(profile);
  for (int stage = 0; stage < profile.stages(); ++stage) {
    const bool input = profile.has(stage, OpKind::input_gradient);
    const bool weight = profile.has(stage, OpKind::weight_gradient);
    std::optional<OpKind> missing;
    if (!profile.has(stage, OpKind::forward)) {
      missing = OpKind::forward;
    } else if (input != weight) {
      missing = input ? OpKind::weight_gradient : OpKind::input_gradient;
    } else if (stage >= forward_only && !input && !profile.has(stage, OpKind::backward)) {
      missing = OpKind::backward;
    }
    if (!missing) continue;
    throw_input_error(
        {source, 0, 0}, fmt::format("stage {} has no {} rows", stage, name(*missing)),
        "measure it; every stage needs forward, and from the first one that is not frozen on backward or the pair "
        "input_gradient, weight_gradient");
  }
}

// ---- Columns with one value for a stage or for the whole file ----

/// Throws InputError if the value of a cell is out of range.
using ValueCheck = void (*)(double value, const SourceLocation& where);

void check_bytes(double bytes, const SourceLocation& where) {
  if (bytes > 0 && bytes <= kMostBytes) return;
  throw_input_error(where, fmt::format("{} is not a number of bytes", bytes),
                    "write those of one microbatch's activations on a GPU, or leave the cell empty");
}

void check_transfer(double transfer_s, const SourceLocation& where) {
  if (transfer_s >= 0 && transfer_s <= kMostTransferS) return;
  throw_input_error(where, fmt::format("a transfer of {} s is not in 0 to {}", transfer_s, kMostTransferS),
                    "measure it again or leave the cell empty");
}

void check_latency(double latency_s, const SourceLocation& where) {
  if (latency_s >= 0 && latency_s <= kMostLatencyS) return;
  throw_input_error(where, fmt::format("a switch latency of {} s is not in 0 to {}", latency_s, kMostLatencyS),
                    latency_s < 0 ? "measure it again or leave the cell empty"
                                  : fmt::format("give seconds: did you mean {}?", latency_s / 1e3));
}

void check_blocking(double power_w, const SourceLocation& where) {
  if (power_w >= 0 && power_w <= kMaxBlockingPowerW) return;
  throw_input_error(where, fmt::format("a blocking power of {} W is not in 0 to {}", power_w, kMaxBlockingPowerW),
                    "give the watts of one GPU that waits, or leave the cell empty");
}

/// The largest value of each stage in an optional column; rows may leave the cell empty.
std::vector<std::optional<double>> largest_by_stage(const CsvTable& table, const RowReader& reader, int stages,
                                                    std::string_view name, ValueCheck check) {
  std::vector<std::optional<double>> largest(static_cast<std::size_t>(stages));
  if (!table.has_column(name)) return largest;
  const std::size_t column = table.column(name);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (!reader.is_planned(row) || table.text(row, column).empty()) continue;
    const double value = table.number(row, column);
    check(value, table.where(row, column));
    std::optional<double>& of_stage = largest[static_cast<std::size_t>(reader.stage(row))];
    of_stage = std::max(of_stage.value_or(value), value);
  }
  return largest;
}

/// The values of the first `needed` stages; empty where no stage has one.
std::vector<double> complete_values(const std::vector<std::optional<double>>& by_stage, std::size_t needed,
                                    const std::string& source, std::string_view name, const std::string& fix) {
  std::vector<double> values;
  if (std::ranges::none_of(by_stage, [](const auto& value) { return value.has_value(); })) return values;
  for (std::size_t stage = 0; stage < needed; ++stage) {
    if (!by_stage[stage]) {
      throw_input_error({source, 0, 0}, fmt::format("stage {} has no {}, and others do", stage, name), fix);
    }
    values.push_back(*by_stage[stage]);
  }
  return values;
}

StageColumns read_columns(const CsvTable& table, const RowReader& reader, int stages) {
  const auto all = static_cast<std::size_t>(stages);
  return {
      .activation_bytes = complete_values(largest_by_stage(table, reader, stages, kActivations, check_bytes), all,
                                          table.source(), kActivations, "state it for every stage, or for none"),
      .transfer_s = complete_values(largest_by_stage(table, reader, stages, kTransfer, check_transfer), all - 1,
                                    table.source(), kTransfer, "state it for every stage but the last, or for none"),
      .blocking_power_w = complete_values(largest_by_stage(table, reader, stages, kBlocking, check_blocking), all,
                                          table.source(), kBlocking, "state it for every stage, or for none")};
}

std::optional<double> read_latency(const CsvTable& table, const RowReader& reader, int stages) {
  return std::ranges::max(largest_by_stage(table, reader, stages, kLatency, check_latency));
}

/// Standard error in a row; 0: not stated.
double read_error(const CsvTable& table, std::size_t row, std::string_view name) {
  if (!table.has_column(name)) return 0;
  const std::size_t column = table.column(name);
  if (table.text(row, column).empty()) return 0;
  const double error = table.number(row, column);
  if (error < 0 || error > kMaxEnergyJ) {
    throw_input_error(table.where(row, column), fmt::format("{} {} is not in 0 to {}", name, error, kMaxEnergyJ));
  }
  return error;
}

/// Planned rows by the column `origin`.
struct RowOrigins {
  std::vector<PredictedRow> predicted;
  long long simulated = 0;
};

RowOrigins read_origins(const CsvTable& table, const RowReader& reader) {
  RowOrigins origins;
  if (!table.has_column(kOrigin)) return origins;
  const std::size_t column = table.column(kOrigin);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string& text = table.text(row, column);
    if (std::ranges::find(kOrigins, text) == kOrigins.end()) {
      throw_input_error(table.where(row, column), fmt::format("unknown origin {}", quote(text)),
                        "write measured, simulated or predicted, or leave the cell empty");
    }
    if (!reader.is_planned(row)) continue;
    if (text == "simulated") ++origins.simulated;
    if (text != "predicted") continue;
    const ProfileRow read = reader.read(row);
    origins.predicted.push_back({{read.stage, read.kind, read.measurement.clock_mhz},
                                 read_error(table, row, kTimeError),
                                 read_error(table, row, kEnergyError)});
  }
  return origins;
}

/// A transfer that takes far longer than the forward of its stage, as it does in other units.
std::optional<std::string> transfer_doubt(const ProfileFile& file) {
  for (std::size_t stage = 0; stage < file.columns.transfer_s.size(); ++stage) {
    const double transfer_s = file.columns.transfer_s[stage];
    const double forward_s = file.profile.at_max_clock(static_cast<int>(stage), OpKind::forward).time_s;
    if (transfer_s <= kMostTransferByForward * forward_s) continue;
    return fmt::format("{}: a transfer of stage {} takes {:.4g} s, and its forward {:.4g} s: give seconds", file.source,
                       stage, transfer_s, forward_s);
  }
  return std::nullopt;
}

/// Clocks of an op that each of the first `stages` has; empty where they differ.
std::optional<std::size_t> equal_clocks(const StageProfile& profile, OpKind kind, int stages) {
  std::optional<std::size_t> clocks;
  for (int stage = 0; stage < stages; ++stage) {
    const std::size_t count = profile.has(stage, kind) ? profile.measurements(stage, kind).size() : 0;
    if (clocks.value_or(count) != count) return std::nullopt;
    clocks = count;
  }
  return clocks;
}

/// A sign that the file's end is missing.
std::optional<std::string> cut_doubt(std::string_view text, const ProfileFile& file) {
  constexpr std::size_t kFewestToCompare = 4;
  if (text.ends_with('.')) return file.source + ": ends in the middle of a number: the file may have been cut off";
  const int last = file.profile.stages() - 1;
  for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
    if (!file.profile.has(last, kind)) continue;
    const std::size_t clocks = file.profile.measurements(last, kind).size();
    const auto others = equal_clocks(file.profile, kind, last);
    if (!others || *others < kFewestToCompare || clocks >= *others) continue;
    // A profiler may end at a clock of its own, but then so do all ops of the stage.
    const OpKind other_kind = kind == OpKind::forward ? OpKind::backward : OpKind::forward;
    if (file.profile.has(last, other_kind) && file.profile.measurements(last, other_kind).size() == clocks) continue;
    return fmt::format(
        "{}: the last stage, {}, has {} rows of {}, and each other stage {}: the file may have been cut off",
        file.source, last, clocks, name(kind), *others);
  }
  return std::nullopt;
}

/// Empty where no error is stated.
std::string error_cell(double error) { return error > 0 ? fmt::to_string(error) : ""; }

/// The header of the columns that `file` has besides those of every profile.
std::string optional_header(const ProfileFile& file) {
  std::string header;
  const auto add = [&](bool has, std::string_view name) {
    if (has) header.append(",").append(name);
  };
  add(file.profile.has_settings(), "setting");
  add(!file.columns.activation_bytes.empty(), kActivations);
  add(!file.columns.transfer_s.empty(), kTransfer);
  add(!file.columns.blocking_power_w.empty(), kBlocking);
  add(file.switch_latency_s.has_value(), kLatency);
  add(file.simulated || !file.predicted.empty(), kOrigin);
  add(!file.predicted.empty(), kTimeError);
  add(!file.predicted.empty(), kEnergyError);
  return header;
}

/// The cells of a stage below those columns, but for `setting`.
std::string stage_cells(const ProfileFile& file, std::size_t stage) {
  const auto& [activation_bytes, transfer_s, blocking_power_w] = file.columns;
  std::string cells;
  if (!activation_bytes.empty()) cells += fmt::format(",{}", activation_bytes.at(stage));
  if (!transfer_s.empty()) cells += stage < transfer_s.size() ? fmt::format(",{}", transfer_s[stage]) : ",";
  if (!blocking_power_w.empty()) cells += fmt::format(",{}", blocking_power_w.at(stage));
  if (file.switch_latency_s) cells += fmt::format(",{}", *file.switch_latency_s);
  return cells;
}

}  // namespace

ProfileFile read_profile_file(std::string_view text, const std::string& source, ImpossibleUnits units) {
  const CsvTable table(text, source);
  refuse_other_units(table);
  refuse_powers(table);
  const RowReader reader(table);
  const bool has_ranks = table.has_column("rank");
  std::vector<ProfileRow> rows = read_rows(table, reader);
  refuse_duplicates(rows, source, has_ranks);
  const std::size_t rows_read = rows.size();
  ProfileFile file{.source = source, .ranks = profiles_by_rank(rows), .doubts = unread_columns(table)};
  for (const StageProfile& measured : file.ranks) (void)profile_doubts(measured, {.source = source, .units = units});
  if (has_ranks) {
    MergedRanks merged = merge_ranks(rows, source);
    rows = std::move(merged.rows);
    std::ranges::move(merged.doubts, std::back_inserter(file.doubts));
  }
  sort_rows(rows);
  file.profile = StageProfile(count_stages(rows, source));
  for (ProfileRow& row : rows) file.profile.add(row.stage, row.kind, std::move(row.measurement));
  refuse_missing_kinds(file.profile, source);
  // Merged ranks are written as a profile, and read again.
  if (has_ranks) (void)profile_doubts(file.profile, {.source = source, .units = units});
  RowOrigins origins = read_origins(table, reader);
  file.predicted = std::move(origins.predicted);
  if (!file.predicted.empty()) {
    file.doubts.push_back(
        fmt::format("{}: {} of {} rows are predicted, not measured; measure a plan's clocks before "
                    "relying on its savings",
                    source, file.predicted.size(), rows_read));
  }
  file.simulated = origins.simulated > 0;
  if (file.simulated) {
    file.doubts.push_back(fmt::format(
        "{}: {} of {} rows are simulated, not measured: what a plan saves on real GPUs is not known from them", source,
        origins.simulated, rows_read));
  }
  if (auto doubt = cut_doubt(text, file)) file.doubts.push_back(std::move(*doubt));
  file.columns = read_columns(table, reader, file.profile.stages());
  file.switch_latency_s = read_latency(table, reader, file.profile.stages());
  return file;
}

std::string write_profile_file(const ProfileFile& file) {
  const StageProfile& profile = file.profile;
  const std::string_view other_origin = file.simulated ? "simulated" : "measured";
  std::map<CellKey, PredictedRow> predicted;
  for (const PredictedRow& row : file.predicted) predicted.emplace(row.cell, row);
  std::string text = "stage,instruction,frequency,time,energy" + optional_header(file) + '\n';
  for (const StageOp& op : profile.ops()) {
    const std::string cells = stage_cells(file, static_cast<std::size_t>(op.stage));
    for (const auto& [clock_mhz, time_s, energy_j, setting, line] : op.measurements) {
      fmt::format_to(std::back_inserter(text), "{},{},{},{},{}", op.stage, name(op.kind), clock_mhz, time_s, energy_j);
      if (profile.has_settings()) text += ',' + setting;
      text += cells;
      if (!file.predicted.empty()) {
        const auto row = predicted.find({op.stage, op.kind, clock_mhz});
        text += row == predicted.end() ? fmt::format(",{},,", other_origin)
                                       : fmt::format(",predicted,{},{}", error_cell(row->second.time_error_s),
                                                     error_cell(row->second.energy_error_j));
      } else if (file.simulated) {
        text.append(",").append(other_origin);
      }
      text += '\n';
    }
  }
  return text;
}

std::vector<std::string> profile_doubts(const ProfileFile& file, ProfileContext context) {
  context.source = file.source;
  std::vector<std::string> doubts = profile_doubts(file.ranks, file.profile, context);
  std::ranges::copy(file.doubts, std::back_inserter(doubts));
  if (const auto doubt = transfer_doubt(file)) doubts.push_back(*doubt);
  return doubts;
}

}  // namespace lowgear::profile
