#include "planning/profile/compose/composed_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/units.h"
#include "planning/profile/row_check.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

namespace {

/// Stands for the clock of rows that hold at all clocks.
constexpr int kEveryClock = 0;
/// Shorter ones are nothing.
constexpr double kShortestPartS = 1e-9;

struct PartRow {
  int stage = 0;
  OpKind kind = OpKind::forward;
  std::string part;
  int clock_mhz = kEveryClock;
  int count = 1;
  PartOption option;
  int line = 0;
};

/// Reads rows whose values are good by themselves.
class PartRowReader {
 public:
  explicit PartRowReader(const CsvTable& table)
      : table_(table),
        stage_(table.column("stage")),
        instruction_(table.column("instruction")),
        part_(table.column("part")),
        frequency_(table.column("frequency")),
        setting_(table.column("setting")),
        time_(table.column("time")),
        energy_(table.column("energy")) {
    if (table.has_column("count")) count_ = table.column("count");
  }

  [[nodiscard]] PartRow read(std::size_t row) const {
    return {.stage = integer(row, stage_, 0, kMaxStages - 1),
            .kind = kind(row),
            .part = part(row),
            .clock_mhz = table_.text(row, frequency_).empty()
                             ? kEveryClock
                             : integer(row, frequency_, kLowestSmClockMhz, kHighestSmClockMhz),
            .count = count_ ? integer(row, *count_, 1, kMaxPartCount) : 1,
            .option = {number(row, time_, kMaxTimeS), number(row, energy_, kMaxEnergyJ), setting(row)},
            .line = table_.where(row, stage_).line};
  }

 private:
  [[nodiscard]] int integer(std::size_t row, std::size_t column, int low, int high) const {
    const long long value = table_.integer(row, column);
    if (value < low || value > high) {
      throw_input_error(table_.where(row, column), fmt::format("{} is not in {} to {}", value, low, high));
    }
    return static_cast<int>(value);
  }

  [[nodiscard]] double number(std::size_t row, std::size_t column, double high) const {
    const double value = table_.number(row, column);
    if (!(value >= 0 && value <= high)) {
      throw_input_error(table_.where(row, column), fmt::format("{} is not in 0 to {}", value, high),
                        "measure it again or remove the row");
    }
    return value;
  }

  [[nodiscard]] OpKind kind(std::size_t row) const {
    const std::string& text = table_.text(row, instruction_);
    const std::optional<OpKind> kind = op_kind_from_name(text);
    if (!kind) {
      throw_input_error(table_.where(row, instruction_), fmt::format("unknown instruction {}", quote(text)),
                        "use forward, backward, input_gradient or weight_gradient");
    }
    return *kind;
  }

  /// Part and setting become `part=setting;...`, which has to be readable again.
  [[nodiscard]] std::optional<std::string> problem_with_name(const std::string& name) const {
    if (name.find_first_of("=;") == std::string::npos) return problem_with_setting(name);
    return fmt::format("the name {} has = or ;, which separate parts and settings where they are composed",
                       quote(name));
  }

  [[nodiscard]] std::string part(std::size_t row) const {
    const std::string& text = table_.text(row, part_);
    if (text.empty() || text.size() > kMaxPartNameBytes) {
      throw_input_error(table_.where(row, part_),
                        fmt::format("a part's name has 1 to {} characters", kMaxPartNameBytes));
    }
    if (const auto problem = problem_with_name(text)) throw_input_error(table_.where(row, part_), *problem);
    return text;
  }

  [[nodiscard]] std::string setting(std::size_t row) const {
    const std::string& text = table_.text(row, setting_);
    if (const auto problem = problem_with_name(text)) throw_input_error(table_.where(row, setting_), *problem);
    return text;
  }

  const CsvTable& table_;
  std::size_t stage_;
  std::size_t instruction_;
  std::size_t part_;
  std::size_t frequency_;
  std::size_t setting_;
  std::size_t time_;
  std::size_t energy_;
  std::optional<std::size_t> count_;
};

std::string clock_text(int clock_mhz) {
  return clock_mhz == kEveryClock ? "every clock" : fmt::format("{} MHz", clock_mhz);
}

/// The rows of one part of an op, while the file is read.
struct ReadPart {
  int count = 1;
  int first_line = 0;
  /// By clock, lowest first, and setting.
  std::map<int, std::map<std::string, std::pair<PartOption, int>>> rows;

  [[nodiscard]] bool is_fixed() const { return rows.contains(kEveryClock); }
};

/// The parts of one (stage, kind).
class ReadOp {
 public:
  ReadOp(int stage, OpKind kind, std::string source)
      : name_(fmt::format("stage {} {}", stage, lowgear::name(kind))), source_(std::move(source)) {}

  void add(PartRow row) {
    const auto [found, is_new] = index_.try_emplace(row.part, parts_.size());
    if (is_new) {
      if (parts_.size() == kMaxParts) fail(row.line, fmt::format("{} has more than {} parts", name_, kMaxParts));
      parts_.emplace_back(row.part, ReadPart{row.count, row.line, {}});
    }
    ReadPart& part = parts_[found->second].second;
    if (part.count != row.count) {
      fail(row.line, fmt::format("part {} of {} has count {} here and {} in line {}", row.part, name_, row.count,
                                 part.count, part.first_line));
    }
    if (!part.rows.empty() && part.is_fixed() != (row.clock_mhz == kEveryClock)) {
      fail(row.line, fmt::format("part {} of {} has rows with a frequency and rows without one (line {})", row.part,
                                 name_, part.first_line));
    }
    std::string setting = row.option.setting;
    const auto [same, is_first] =
        part.rows[row.clock_mhz].try_emplace(std::move(setting), std::move(row.option), row.line);
    if (is_first) return;
    fail(row.line,
         fmt::format("part {} of {} at {}{} is measured in line {} already", row.part, name_, clock_text(row.clock_mhz),
                     same->first.empty() ? "" : " with setting " + same->first, same->second.second));
  }

  /// Every clock of the op, after checks across rows.
  [[nodiscard]] std::vector<int> clocks_mhz() const {
    const std::pair<std::string, ReadPart>* most = nullptr;
    for (const auto& part : parts_) {
      if (part.second.is_fixed()) continue;
      if (most == nullptr || part.second.rows.size() > most->second.rows.size()) most = &part;
    }
    if (most == nullptr) {
      fail(parts_.front().second.first_line,
           fmt::format("{} has only parts without a frequency, so its clocks are unknown", name_));
    }
    for (const auto& part : parts_) require_clocks_of(*most, part);
    for (const auto& [part, read] : parts_) require_monotone(part, read);
    for (const auto& [part, read] : parts_) require_possible(part, read);
    std::vector<int> clocks_mhz;
    for (const auto& [clock_mhz, rows] : most->second.rows) clocks_mhz.push_back(clock_mhz);
    return clocks_mhz;
  }

  [[nodiscard]] std::vector<SeriesPart> at(int clock_mhz) const {
    std::vector<SeriesPart> parts;
    for (const auto& [part, read] : parts_) {
      SeriesPart& made = parts.emplace_back(SeriesPart{part, read.count, {}});
      for (const auto& [setting, row] : read.rows.at(read.is_fixed() ? kEveryClock : clock_mhz)) {
        made.options.push_back(row.first);
      }
    }
    return parts;
  }

 private:
  [[noreturn]] void fail(int line, const std::string& what, const std::string& fix = "") const {
    throw_input_error({source_, line, 0}, what, fix);
  }

  void require_clocks_of(const std::pair<std::string, ReadPart>& most,
                         const std::pair<std::string, ReadPart>& part) const {
    if (part.second.is_fixed()) return;
    const auto require = [this](const std::pair<std::string, ReadPart>& has,
                                const std::pair<std::string, ReadPart>& lacks) {
      for (const auto& [clock_mhz, rows] : has.second.rows) {
        if (lacks.second.rows.contains(clock_mhz)) continue;
        fail(rows.begin()->second.second,
             fmt::format("part {} of {} has no row at {} MHz, where part {} has one", lacks.first, name_, clock_mhz,
                         has.first),
             "measure every part at the same clocks, or leave the frequency of a part empty whose time does not depend "
             "on it");
      }
    };
    require(most, part);
    require(part, most);
  }

  /// As rows of a profile are; those of nothing say nothing. Rows without a clock are held against powers alone, as
  /// they are where each of them stands for itself.
  void require_possible(const std::string& part, const ReadPart& read) const {
    StageProfile profile(1);
    for (const auto& [clock_mhz, rows] : read.rows) {
      for (const auto& [setting, row] : rows) {
        const auto& [option, line] = row;
        if (option.time_s < kShortestPartS || option.energy_j <= 0) continue;
        const int some_mhz = read.is_fixed() ? kHighestSmClockMhz : clock_mhz;
        profile.add(0, OpKind::forward, {some_mhz, option.time_s, option.energy_j, setting, line});
      }
    }
    for (const RowFinding& found : check_rows(profile, 0, {})) {
      if (!found.is_impossible) continue;
      fail(found.row.line,
           fmt::format("part {} of {} at {} {}", part, name_,
                       clock_text(read.is_fixed() ? kEveryClock : found.row.clock_mhz), found.what),
           "measure it again, or remove the row");
    }
  }

  void require_monotone(const std::string& part, const ReadPart& read) const {
    std::map<std::string, std::pair<int, double>> lower;  // clock and time of the setting at the next lower clock
    for (const auto& [clock_mhz, rows] : read.rows) {
      for (const auto& [setting, row] : rows) {
        const auto& [option, line] = row;
        const auto [before, is_first] = lower.try_emplace(setting, clock_mhz, option.time_s);
        if (!is_first && option.time_s > before->second.second * (1 + kTimeNoise)) {
          fail(line,
               fmt::format("part {} of {}{} takes {} s at {} MHz, longer than the {} s at {} MHz", part, name_,
                           setting.empty() ? "" : " with setting " + setting, option.time_s, clock_mhz,
                           before->second.second, before->second.first),
               "measure it again, or remove the row");
        }
        before->second = {clock_mhz, option.time_s};
      }
    }
  }

  std::string name_;
  std::string source_;
  std::vector<std::pair<std::string, ReadPart>> parts_;
  std::map<std::string, std::size_t> index_;
};

}  // namespace

PartTable read_part_table(std::string_view text, const std::string& source) {
  const CsvTable table(text, source);
  const PartRowReader reader(table);
  std::map<std::pair<int, OpKind>, ReadOp> ops;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    PartRow read = reader.read(row);
    const auto op = ops.try_emplace({read.stage, read.kind}, read.stage, read.kind, source).first;
    op->second.add(std::move(read));
  }
  if (ops.empty()) {
    throw_input_error({source, 0, 0}, "holds no parts",
                      "it needs rows below the header: stage,instruction,part,frequency,setting,time,energy");
  }
  PartTable parts;
  for (const auto& [cell, op] : ops) {
    for (const int clock_mhz : op.clocks_mhz())
      parts.emplace(PartCell{cell.first, cell.second, clock_mhz}, op.at(clock_mhz));
  }
  return parts;
}

ComposedProfile compose_profile(const PartTable& parts, const ComposeOptions& options) {
  int stages = 0;
  for (const auto& [cell, series] : parts) stages = std::max(stages, cell.stage + 1);
  ComposedProfile composed{StageProfile(stages), {}};
  for (const auto& [cell, series] : parts) {
    const std::vector<SeriesOption> hull = compose_series(series, options.blocking_power_w);
    const std::vector<SeriesOption> kept = thinned(hull, options.max_options);
    for (const SeriesOption& option : kept) {
      composed.profile.add(cell.stage, cell.kind,
                           {cell.clock_mhz, option.time_s, option.energy_j, setting_of(option, series)});
    }
    double combinations = 1;
    for (const SeriesPart& part : series) combinations *= static_cast<double>(part.options.size());
    composed.cells.push_back({cell, series.size(), combinations, hull.size(), kept.size(), gap_of(hull, kept)});
  }
  return composed;
}

}  // namespace lowgear::profile
