#include "planning/profile/stage_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/units.h"
#include "planning/profile/plausibility.h"
#include "planning/profile/rank_merge.h"
#include "planning/profile/row_check.h"

namespace lowgear::profile {
namespace {

constexpr double kMinTimeS = 1 / kPsPerSecond;

std::string describe(int stage, OpKind kind) { return fmt::format("stage {} {}", stage, name(kind)); }

// What is wrong with a value, if anything.

std::optional<std::string> problem_with_clock(long long clock_mhz) {
  if (clock_mhz >= 1 && clock_mhz <= kMaxClockMhz) return std::nullopt;
  return fmt::format("frequency {} MHz is not in 1 to {}", clock_mhz, kMaxClockMhz);
}

std::optional<std::string> problem_with_time(double time_s) {
  if (time_s >= kMinTimeS && time_s <= kMaxTimeS) return std::nullopt;
  return fmt::format("time {} s is not in {} to {}", time_s, kMinTimeS, kMaxTimeS);
}

std::optional<std::string> problem_with_energy(double energy_j) {
  if (energy_j > 0 && energy_j <= kMaxEnergyJ) return std::nullopt;
  return fmt::format("energy {} J is not above 0 and at most {}", energy_j, kMaxEnergyJ);
}

/// The order in which a profile holds the rows of a (stage, kind).
bool is_before(const Measurement& a, const Measurement& b) {
  return std::tie(b.clock_mhz, a.time_s, a.energy_j, a.setting) <
         std::tie(a.clock_mhz, b.time_s, b.energy_j, b.setting);
}

/// The first row of a clock, or of the next lower one.
auto begin_of(std::span<const Measurement> measurements, int clock_mhz) {
  return std::partition_point(measurements.begin(), measurements.end(),
                              [&](const Measurement& row) { return row.clock_mhz > clock_mhz; });
}

/// The rows of one clock.
std::span<const Measurement> rows_at(std::span<const Measurement> measurements, int clock_mhz) {
  const auto begin = begin_of(measurements, clock_mhz);
  const auto end = std::partition_point(begin, measurements.end(),
                                        [&](const Measurement& row) { return row.clock_mhz == clock_mhz; });
  return {begin, end};
}

/// ` with setting sm6`, or nothing.
std::string with_setting(std::string_view setting) {
  return setting.empty() ? "" : fmt::format(" with setting {}", setting);
}

std::string list_clocks(std::span<const Measurement> measurements) {
  if (measurements.empty()) return "none";
  std::vector<int> clocks_mhz;
  for (const Measurement& measurement : measurements) {
    if (clocks_mhz.empty() || clocks_mhz.back() != measurement.clock_mhz) clocks_mhz.push_back(measurement.clock_mhz);
  }
  return fmt::format("{}", fmt::join(clocks_mhz, ", "));
}

}  // namespace

StageProfile::StageProfile(int stages) {
  if (stages < 0 || stages > kMaxStages) {
    throw InputError(fmt::format("a profile cannot have {} stages; the most are {}", stages, kMaxStages));
  }
  cells_.resize(static_cast<std::size_t>(stages));
}

bool StageProfile::has(int stage, OpKind kind) const { return !measurements(stage, kind).empty(); }

std::span<const Measurement> StageProfile::measurements(int stage, OpKind kind) const {
  if (stage < 0 || stage >= stages()) return {};
  return cells_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(kind)];
}

std::vector<StageOp> StageProfile::ops() const {
  std::vector<StageOp> ops;
  for (int stage = 0; stage < stages(); ++stage) {
    for (int kind = 0; kind < kOpKindCount; ++kind) {
      const auto rows = measurements(stage, static_cast<OpKind>(kind));
      if (!rows.empty()) ops.push_back({stage, static_cast<OpKind>(kind), rows});
    }
  }
  return ops;
}

const Measurement& StageProfile::at_max_clock(int stage, OpKind kind) const {
  const std::span<const Measurement> found = measurements(stage, kind);
  if (found.empty()) throw InputError(fmt::format("the profile has no measurement of {}", describe(stage, kind)));
  return found.front();
}

const Measurement& StageProfile::at_clock(int stage, OpKind kind, int clock_mhz) const {
  const std::span<const Measurement> found = measurements(stage, kind);
  const auto at = begin_of(found, clock_mhz);
  if (at == found.end() || at->clock_mhz != clock_mhz) {
    throw InputError(fmt::format("the profile has no measurement of {} at {} MHz; its clocks are {}",
                                 describe(stage, kind), clock_mhz, list_clocks(found)));
  }
  return *at;
}

const Measurement* StageProfile::find(int stage, OpKind kind, int clock_mhz, std::string_view setting) const {
  const std::span<const Measurement> rows = rows_at(measurements(stage, kind), clock_mhz);
  const auto found = std::ranges::find(rows, setting, &Measurement::setting);
  return found == rows.end() ? nullptr : &*found;
}

const Measurement& StageProfile::at_setting(int stage, OpKind kind, int clock_mhz, std::string_view setting) const {
  if (const Measurement* const found = find(stage, kind, clock_mhz, setting)) return *found;
  (void)at_clock(stage, kind, clock_mhz);  // says which clocks there are
  throw InputError(fmt::format("the profile has no measurement of {} at {} MHz{}", describe(stage, kind), clock_mhz,
                               setting.empty() ? " without a setting" : with_setting(setting)));
}

void StageProfile::add(int stage, OpKind kind, Measurement measurement) {
  if (stage < 0 || stage >= stages()) {
    throw InputError(fmt::format("stage {} is not one of the profile's {} stages", stage, stages()));
  }
  for (const auto& problem : {problem_with_clock(measurement.clock_mhz), problem_with_time(measurement.time_s),
                              problem_with_energy(measurement.energy_j), problem_with_setting(measurement.setting)}) {
    if (problem) throw InputError(fmt::format("{}: {}", describe(stage, kind), *problem));
  }
  auto& cell = cells_[static_cast<std::size_t>(stage)][static_cast<std::size_t>(kind)];
  if (find(stage, kind, measurement.clock_mhz, measurement.setting) != nullptr) {
    throw InputError(fmt::format("{} occurs twice at {} MHz{}", describe(stage, kind), measurement.clock_mhz,
                                 with_setting(measurement.setting)));
  }
  if (rows_at(cell, measurement.clock_mhz).size() >= kMaxSettings) {
    throw InputError(fmt::format("{} has more than {} settings at {} MHz; keep those that no other one beats",
                                 describe(stage, kind), kMaxSettings, measurement.clock_mhz));
  }
  has_settings_ = has_settings_ || !measurement.setting.empty();
  const auto at = std::lower_bound(cell.begin(), cell.end(), measurement, is_before);
  cell.insert(at, std::move(measurement));
}

StageProfile with_split_backward(const StageProfile& profile, double fraction) {
  if (!(fraction > 0 && fraction < 1)) {
    throw InputError(
        fmt::format("the input gradient's fraction of the backward pass is {}; it must lie between 0 and 1", fraction));
  }
  StageProfile split = profile;
  for (int stage = 0; stage < profile.stages(); ++stage) {
    if (profile.has(stage, OpKind::input_gradient) || profile.has(stage, OpKind::weight_gradient)) continue;
    for (const auto& [clock_mhz, time_s, energy_j, setting, line] : profile.measurements(stage, OpKind::backward)) {
      const Measurement input{clock_mhz, time_s * fraction, energy_j * fraction, setting};
      split.add(stage, OpKind::input_gradient, input);
      split.add(stage, OpKind::weight_gradient, {clock_mhz, time_s - input.time_s, energy_j - input.energy_j, setting});
    }
  }
  return split;
}

StageProfile with_recomputation(const StageProfile& profile, std::optional<double> share) {
  if (share && !(*share > 0 && *share <= kMostRecomputation)) {
    throw InputError(fmt::format("a recomputation takes {} of the forward's time; it must be above 0 and at most {}",
                                 *share, kMostRecomputation));
  }
  StageProfile result = profile;
  for (int stage = 0; stage < profile.stages(); ++stage) {
    if (share && !profile.has(stage, OpKind::recomputation)) {
      for (const auto& [clock_mhz, time_s, energy_j, setting, line] : profile.measurements(stage, OpKind::forward)) {
        result.add(stage, OpKind::recomputation, {clock_mhz, time_s * *share, energy_j * *share, setting});
      }
    }
    if (profile.has(stage, OpKind::recomputing_backward)) continue;
    for (const auto& [clock_mhz, time_s, energy_j, setting, line] : profile.measurements(stage, OpKind::backward)) {
      const Measurement* const repeated = result.find(stage, OpKind::recomputation, clock_mhz, setting);
      if (repeated == nullptr) continue;
      result.add(stage, OpKind::recomputing_backward,
                 {clock_mhz, time_s + repeated->time_s, energy_j + repeated->energy_j, setting});
    }
  }
  return result;
}

StageProfile with_virtual_stages(const StageProfile& profile, int chunks) {
  if (chunks < 1 || static_cast<long long>(chunks) * profile.stages() > kMaxStages) {
    throw InputError(fmt::format("{} stages cannot be split into {} chunks each; the most stages are {}",
                                 profile.stages(), chunks, kMaxStages));
  }
  StageProfile virtual_profile(profile.stages() * chunks);
  for (const StageOp& op : profile.ops()) {
    for (int stage = op.stage; stage < virtual_profile.stages(); stage += profile.stages()) {
      for (const auto& [clock_mhz, time_s, energy_j, setting, line] : op.measurements) {
        virtual_profile.add(stage, op.kind, {clock_mhz, time_s / chunks, energy_j / chunks, setting});
      }
    }
  }
  return virtual_profile;
}

StageProfile at_fastest_settings(const StageProfile& profile) {
  StageProfile result(profile.stages());
  for (const StageOp& op : profile.ops()) {
    int last_mhz = 0;
    for (const Measurement& row : op.measurements) {
      if (row.clock_mhz != last_mhz) result.add(op.stage, op.kind, row);
      last_mhz = row.clock_mhz;
    }
  }
  return result;
}

void refuse_settings(const StageProfile& profile, std::string_view who) {
  if (!profile.has_settings()) return;
  throw InputError(fmt::format(
      "{} works on clocks alone, and the profile has settings: give a profile with one row for each clock and without "
      "the column setting",
      who));
}

StageProfile with_stages_on_ranks(const StageProfile& profile, std::span<const int> rank_of_stage) {
  std::vector<int> parts(static_cast<std::size_t>(profile.stages()));
  for (const int rank : rank_of_stage) {
    if (rank < 0 || rank >= profile.stages()) {
      throw InputError(
          fmt::format("a virtual stage on rank {}, and the profile has {} stages", rank, profile.stages()));
    }
    ++parts[static_cast<std::size_t>(rank)];
  }
  if (rank_of_stage.size() > static_cast<std::size_t>(kMaxStages)) {
    throw InputError(fmt::format("{} virtual stages; the most are {}", rank_of_stage.size(), kMaxStages));
  }
  StageProfile virtual_profile(static_cast<int>(rank_of_stage.size()));
  for (int stage = 0; stage < virtual_profile.stages(); ++stage) {
    const int rank = rank_of_stage[static_cast<std::size_t>(stage)];
    const int chunks = parts[static_cast<std::size_t>(rank)];
    for (std::size_t k = 0; k < kOpKindCount; ++k) {
      const auto kind = static_cast<OpKind>(k);
      for (Measurement part : profile.measurements(rank, kind)) {
        part.time_s /= chunks;
        part.energy_j /= chunks;
        virtual_profile.add(stage, kind, std::move(part));
      }
    }
  }
  return virtual_profile;
}

// ---- The CSV of Perseus and Zeus ----

namespace {

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

  /// The row; nothing for an instruction that is recorded but not planned.
  [[nodiscard]] std::optional<ProfileRow> read(std::size_t row) const {
    if (table_.text(row, instruction_) == "load") return std::nullopt;
    const int line = table_.where(row, stage_).line;
    Measurement measurement{clock_mhz(row), time_s(row), energy_j(row), setting(row), line};
    const long long rank = rank_ ? table_.integer(row, *rank_) : 0;
    return ProfileRow{stage(row), kind(row), std::move(measurement), line, rank};
  }

 private:
  [[nodiscard]] int stage(std::size_t row) const {
    const long long stage = table_.integer(row, stage_);
    if (stage < 0 || stage >= kMaxStages) {
      throw_input_error(table_.where(row, stage_), fmt::format("stage {} is not in 0 to {}", stage, kMaxStages - 1),
                        "number the stages from 0");
    }
    return static_cast<int>(stage);
  }

  [[nodiscard]] OpKind kind(std::size_t row) const {
    const std::string& text = table_.text(row, instruction_);
    const std::optional<OpKind> kind = op_kind_from_name(text);
    if (!kind) {
      throw_input_error(table_.where(row, instruction_), fmt::format("unknown instruction {}", quote(text)),
                        fmt::format("instructions are {}", op_kind_names()));
    }
    return *kind;
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
      throw_input_error(table_.where(row, energy_), "the energy is not known",
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

/// Columns that are read, here or by who plans, and those that profilers write for themselves.
constexpr auto kColumns = std::to_array<std::string_view>({"stage", "instruction", "frequency", "time", "energy",
                                                           "rank", "setting", "activation_bytes", "transfer",
                                                           "switch_latency", "dp_rank", "pp_rank", "tp_rank"});

/// Optional ones, in seconds, that are likely to be written with a unit.
constexpr auto kSecondsColumns = std::to_array<std::string_view>({"transfer", "switch_latency"});

/// Columns that nothing reads. Throws InputError for one that was meant to be read, such as `switch_latency_s`.
std::vector<std::string> unread_columns(const CsvTable& table) {
  std::vector<std::string> unread;
  for (const CsvCell& cell : table.header()) {
    if (cell.text.empty() || std::ranges::find(kColumns, cell.text) != kColumns.end()) continue;
    for (const std::string_view column : kSecondsColumns) {
      if (!cell.text.starts_with(fmt::format("{}_", column))) continue;
      throw_input_error({table.source(), cell.line, cell.column}, fmt::format("no column {} is read", quote(cell.text)),
                        fmt::format("name it {}, and give seconds", column));
    }
    unread.push_back(quote(cell.text));
  }
  if (unread.empty()) return {};
  return {fmt::format("{}: nothing reads {} {}", table.source(), unread.size() == 1 ? "the column" : "the columns",
                      fmt::join(unread, ", "))};
}

std::vector<ProfileRow> read_rows(const CsvTable& table) {
  const RowReader reader(table);
  std::vector<ProfileRow> rows;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (const std::optional<ProfileRow> read = reader.read(row)) rows.push_back(*read);
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
                      fmt::format("{} at {} MHz{} is measured in line {} already", describe(row.stage, row.kind),
                                  clock_mhz, with_setting(setting), first->second),
                      has_ranks ? "a rank measures it once: keep the mean of its rows"
                                : "keep the mean of repeated measurements, or add the column rank where several ranks "
                                  "of the stage measured them");
  }
}

std::vector<ProfileRow> read_unique_rows(const CsvTable& table) {
  std::vector<ProfileRow> rows = read_rows(table);
  refuse_duplicates(rows, table.source(), table.has_column("rank"));
  return rows;
}

/// In the order in which a profile holds them, so that each one is appended.
void sort_rows(std::vector<ProfileRow>& rows) {
  std::sort(rows.begin(), rows.end(),
            [](const ProfileRow& a, const ProfileRow& b) { return is_before(a.measurement, b.measurement); });
}

/// What each rank has measured, before ranks are merged.
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

/// How many of the first stages have forwards only: frozen layers alone.
int forward_only_stages(const StageProfile& profile) {
  int stage = 0;
  while (stage < profile.stages() && !profile.has(stage, OpKind::backward) &&
         !profile.has(stage, OpKind::input_gradient) && !profile.has(stage, OpKind::weight_gradient)) {
    ++stage;
  }
  return stage < profile.stages() ? stage : 0;
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

}  // namespace

ProfileFile read_profile_file(std::string_view text, const std::string& source) {
  const CsvTable table(text, source);
  std::vector<ProfileRow> rows = read_unique_rows(table);
  ProfileFile file{.source = source, .profile = {}, .ranks = profiles_by_rank(rows), .doubts = unread_columns(table)};
  for (const StageProfile& measured : file.ranks) (void)profile_doubts(measured, {.source = source});
  if (table.has_column("rank")) {
    MergedRanks merged = merge_ranks(rows, source);
    rows = std::move(merged.rows);
    std::ranges::move(merged.doubts, std::back_inserter(file.doubts));
  }
  sort_rows(rows);
  file.profile = StageProfile(count_stages(rows, source));
  for (ProfileRow& row : rows) file.profile.add(row.stage, row.kind, std::move(row.measurement));
  refuse_missing_kinds(file.profile, source);
  // What ranks have together is written as a profile, and read again.
  if (table.has_column("rank")) (void)profile_doubts(file.profile, {.source = source});
  return file;
}

StageProfile read_stage_profile(std::string_view text, const std::string& source) {
  return read_profile_file(text, source).profile;
}

std::string write_stage_profile(const StageProfile& profile) {
  std::string text = "stage,instruction,frequency,time,energy";
  text += profile.has_settings() ? ",setting\n" : "\n";
  for (const StageOp& op : profile.ops()) {
    for (const auto& [clock_mhz, time_s, energy_j, setting, line] : op.measurements) {
      fmt::format_to(std::back_inserter(text), "{},{},{},{},{}", op.stage, name(op.kind), clock_mhz, time_s, energy_j);
      if (profile.has_settings()) text += ',' + setting;
      text += '\n';
    }
  }
  return text;
}

}  // namespace lowgear::profile
