#include "planning/profile/row_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "base/core/energy/energy_check.h"
#include "base/core/error.h"
#include "base/core/numbers/median.h"
#include "base/core/units.h"
#include "planning/profile/recording.h"

namespace lowgear::profile {

namespace {

/// Neighbours of published profiles differ by at most 6.6 % in a time that should not rise, 3.1 % in one that should
/// not fall faster than the clock rises, and 2.1 % in power from the mean of both sides.
constexpr double kSlowerAtHigherClock = 1.08;
constexpr double kFasterThanTheClock = 1.035;
constexpr double kPowerNoise = 1.15;
constexpr double kPowerBetweenNoise = 1.1;
/// Beyond these bounds by so much, it is no throttling either, and no other work on the GPU.
constexpr double kImpossibleTime = 8;
constexpr double kImpossiblePower = 4;
/// Power follows the clock with an exponent from 0.3, below the voltage's knee, to 2.8: half their distance is how far
/// the power between two clocks may lie from their geometric mean.
constexpr double kPowerCurvature = 1.25;
/// Rows below this share of the waiting power: both have errors.
constexpr double kBelowWaiting = 0.9;
/// Other ops at the same clock.
constexpr std::size_t kFewestToCompare = 4;
constexpr std::size_t kFewestAtAnyClock = 3;
constexpr double kPowerFromOthers = 2.5;
/// Between settings of an op.
constexpr double kTimeFromOtherSettings = 4;
/// By how much a time that is derived from those at other clocks may err.
constexpr double kDerivedTime = 2;

double drawn_w(const Measurement& row) { return row.energy_j / row.time_s; }

/// A row of a series, and where its finding goes.
struct SeriesRow {
  const Measurement* measured = nullptr;
  std::size_t place = 0;       ///< in the profile
  bool is_measurable = false;  ///< it is long enough, or would be by the op's other rows
};

/// Rows of one (stage, kind, setting), highest clock first.
using RowSeries = std::vector<SeriesRow>;

std::string at_text(const Measurement& row) {
  return row.line == 0 ? fmt::format("at {} MHz", row.clock_mhz)
                       : fmt::format("at {} MHz (line {})", row.clock_mhz, row.line);
}

/// By how much two rows contradict each other: the factor beyond what is allowed, and why.
struct Contradiction {
  double beyond = 0;  ///< above 1: they do
  std::string_view rule;
  bool of_time = false;
};

Contradiction contradiction(const SeriesRow& higher_row, const SeriesRow& lower_row) {
  if (!higher_row.is_measurable || !lower_row.is_measurable) return {};
  const Measurement& higher = *higher_row.measured;
  const Measurement& lower = *lower_row.measured;
  const double clocks = static_cast<double>(higher.clock_mhz) / lower.clock_mhz;
  const double times = higher.time_s / lower.time_s;
  const double powers = drawn_w(higher) / drawn_w(lower);
  const auto all = {
      Contradiction{times / kSlowerAtHigherClock, "a higher clock makes no op slower", true},
      Contradiction{1 / (times * clocks * kFasterThanTheClock), "no op gains more than the clock does", true},
      Contradiction{1 / (powers * kPowerNoise), "a higher clock does not draw less power", false},
      Contradiction{powers / (clocks * clocks * clocks * kPowerNoise), "power rises with the clock's cube at most",
                    false}};
  const Contradiction worst = std::ranges::max(all, {}, &Contradiction::beyond);
  return worst.beyond > 1 ? worst : Contradiction{};
}

class RowChecker {
 public:
  RowChecker(const StageProfile& profile, double waiting_w, const std::optional<NamedPowerLimit>& gpu)
      : ops_(profile.ops()), waiting_w_(waiting_w), gpu_(&gpu) {}

  std::vector<RowFinding> check() {
    std::size_t place = 0;
    for (const StageOp& op : ops_) {
      std::map<std::string_view, RowSeries> by_setting;
      RowSeries all;
      const double op_cycles = median_cycles(op);
      for (const Measurement& row : op.measurements) {
        const bool is_measurable = std::max(row.time_s, op_cycles / row.clock_mhz / kDerivedTime) >= kShortestUnitS;
        const SeriesRow in_series{&row, place++, is_measurable};
        if (check_power(op, in_series)) continue;
        by_setting[row.setting].push_back(in_series);
        all.push_back(in_series);
      }
      for (auto& [setting, series] : by_setting) {
        check_neighbours(op, series);
        check_between(op, series);
      }
      if (by_setting.size() > 1) check_settings(op, all);
      for (const SeriesRow& row : all) rows_.emplace_back(&op, row);
    }
    check_against_others();
    std::vector<RowFinding> all;
    for (auto& [at, finding] : findings_) all.push_back(std::move(finding));
    std::ranges::stable_partition(all, &RowFinding::is_impossible);
    return all;
  }

 private:
  void add(const StageOp& op, const Measurement& row, std::size_t place, std::string what, bool is_impossible) {
    findings_.try_emplace(place, RowFinding{op.stage, op.kind, row, std::move(what), is_impossible});
  }

  /// Of an op's rows, time by clock: of two the longer one, since a row that is too short is the likelier fault here.
  static double median_cycles(const StageOp& op) {
    std::vector<double> cycles;
    for (const Measurement& row : op.measurements) cycles.push_back(row.time_s * row.clock_mhz);
    return upper_median(std::span(cycles));
  }

  /// Against the GPU; whether something was found.
  bool check_power(const StageOp& op, const SeriesRow& in_series) {
    const auto& [measured, place, is_measurable] = in_series;
    const Measurement& row = *measured;
    const double power_w = drawn_w(row);
    const std::string draws = fmt::format("draws {:.6g} W ({:.6g} J in {:.4g} s)", power_w, row.energy_j, row.time_s);
    const std::optional<double> limit_w = *gpu_ ? std::optional((*gpu_)->limit_w) : std::nullopt;
    if (power_w > highest_profiled_power_w(*gpu_)) {
      add(op, row, place, fmt::format("{}, {}", draws, excess_text(*gpu_)), power_w > highest_gpu_power_w(limit_w));
      findings_.at(place).power = PowerFault::above_limit;
    } else if (!is_measurable) {
      return false;
    } else if (power_w < kLeastPowerW) {
      add(op, row, place, draws + ", less than any GPU draws that computes", power_w < kLeastBlockingW);
    } else if (power_w < kBelowWaiting * waiting_w_) {
      add(op, row, place, fmt::format("{}, less than the {:.6g} W of a GPU that waits", draws, waiting_w_), false);
      findings_.at(place).power = PowerFault::below_waiting;
    } else {
      return false;
    }
    return true;
  }

  /// Takes rows out until the others agree, each time the one that leaves the fewest contradictions.
  void check_neighbours(const StageOp& op, RowSeries& series) {
    const auto contradicts = [&](std::size_t a, std::size_t b) {
      return contradiction(series[a], series[b]).beyond > 1 ? 1 : 0;
    };
    for (std::size_t i = 0; i + 1 < series.size();) {
      if (contradicts(i, i + 1) == 0) {
        ++i;
        continue;
      }
      // Contradictions that remain between the neighbours without either row; prefers an inner row to
      // one at the end, which has only one neighbour.
      const int without_first = i == 0 ? 0 : contradicts(i - 1, i + 1);
      const int at_first = i == 0 ? 0 : contradicts(i - 1, i);
      const bool is_last = i + 2 == series.size();
      const int without_second = is_last ? 0 : contradicts(i, i + 2);
      const int at_second = is_last ? 0 : contradicts(i + 1, i + 2);
      const int first_gain = at_first - without_first;
      const int second_gain = at_second - without_second;
      const bool second = second_gain > first_gain || (second_gain == first_gain && i == 0 && !is_last);
      add_contradiction(op, series, i, second);
      series.erase(series.begin() + static_cast<std::ptrdiff_t>(second ? i + 1 : i));
      if (!second && i > 0) --i;
    }
  }

  void add_contradiction(const StageOp& op, const RowSeries& series, std::size_t first, bool second_is_wrong) {
    const Measurement& higher = *series[first].measured;
    const Measurement& lower = *series[first + 1].measured;
    const Contradiction found = contradiction(series[first], series[first + 1]);
    const SeriesRow& wrong = second_is_wrong ? series[first + 1] : series[first];
    const Measurement& row = *wrong.measured;
    const Measurement& other = second_is_wrong ? higher : lower;
    const std::string what =
        found.of_time ? fmt::format("takes {:.4g} s, and {:.4g} s {}", row.time_s, other.time_s, at_text(other))
                      : fmt::format("draws {:.6g} W ({:.6g} J in {:.4g} s), and {:.6g} W {}", drawn_w(row),
                                    row.energy_j, row.time_s, drawn_w(other), at_text(other));
    add(op, row, wrong.place, fmt::format("{}: {}", what, found.rule),
        found.beyond > (found.of_time ? kImpossibleTime : kImpossiblePower));
  }

  /// The power between two clocks against theirs.
  void check_between(const StageOp& op, const RowSeries& series) {
    for (std::size_t i = 1; i + 1 < series.size(); ++i) {
      const Measurement& row = *series[i].measured;
      const Measurement& higher = *series[i - 1].measured;
      const Measurement& lower = *series[i + 1].measured;
      if (!series[i].is_measurable || !series[i - 1].is_measurable || !series[i + 1].is_measurable) continue;
      const double clocks = static_cast<double>(higher.clock_mhz) / lower.clock_mhz;
      const double along = std::log(static_cast<double>(row.clock_mhz) / lower.clock_mhz) / std::log(clocks);
      const double expected_w = drawn_w(lower) * std::pow(drawn_w(higher) / drawn_w(lower), along);
      const double allowed = kPowerBetweenNoise * std::pow(clocks, kPowerCurvature / 2);
      const double factor = drawn_w(row) / expected_w;
      if (factor <= allowed && factor >= 1 / allowed) continue;
      add(op, row, series[i].place,
          fmt::format("draws {:.6g} W ({:.6g} J in {:.4g} s), far from the {:.6g} W {} and the {:.6g} W {}",
                      drawn_w(row), row.energy_j, row.time_s, drawn_w(higher), at_text(higher), drawn_w(lower),
                      at_text(lower)),
          false);
    }
  }

  /// Rows of an op with any settings: what neighbours with one setting do not show where each has a row or two.
  void check_settings(const StageOp& op, RowSeries rows) {
    std::erase_if(rows, [](const SeriesRow& row) { return !row.is_measurable; });
    if (rows.size() < kFewestAtAnyClock) return;
    std::ranges::sort(rows, {}, [](const SeriesRow& row) { return row.measured->time_s; });
    const Measurement& usual = *rows[rows.size() / 2].measured;
    for (const SeriesRow& each : rows) {
      const Measurement& row = *each.measured;
      const double by_clock = static_cast<double>(usual.clock_mhz) / row.clock_mhz;
      const double times = row.time_s / usual.time_s;
      if (times <= kTimeFromOtherSettings * std::max(1.0, by_clock) &&
          times >= std::min(1.0, by_clock) / kTimeFromOtherSettings) {
        continue;
      }
      add(op, row, each.place,
          fmt::format("takes {:.4g} s, and the op's settings {:.4g} s (median, {})", row.time_s, usual.time_s,
                      at_text(usual)),
          false);
    }
  }

  /// Powers against the median of all ops at the clock, or of all rows, as far as the clocks can explain it.
  void check_against_others() {
    std::erase_if(rows_, [](const auto& row) { return !row.second.is_measurable; });
    if (rows_.size() < kFewestAtAnyClock) return;
    std::ranges::sort(rows_, {}, [](const auto& row) { return drawn_w(*row.second.measured); });
    std::map<int, std::vector<const Measurement*>> at_clock;  // by power
    for (const auto& [op, row] : rows_) at_clock[row.measured->clock_mhz].push_back(row.measured);
    const Measurement& usual = *rows_[rows_.size() / 2].second.measured;
    for (const auto& [op, row] : rows_) {
      const auto& others = at_clock.at(row.measured->clock_mhz);
      compare_powers(*op, row, others.size() < kFewestToCompare ? usual : *others[others.size() / 2]);
    }
  }

  void compare_powers(const StageOp& op, const SeriesRow& in_series, const Measurement& usual) {
    const Measurement& row = *in_series.measured;
    const double clocks = static_cast<double>(row.clock_mhz) / usual.clock_mhz;
    const double powers = drawn_w(row) / drawn_w(usual);
    const double by_clock = clocks * clocks * clocks;
    if (powers <= kPowerFromOthers * std::max(1.0, by_clock) && powers >= std::min(1.0, by_clock) / kPowerFromOthers) {
      return;
    }
    add(op, row, in_series.place,
        fmt::format("draws {:.6g} W ({:.6g} J in {:.4g} s), and the ops {} {:.6g} W (median)", drawn_w(row),
                    row.energy_j, row.time_s, clocks == 1 ? "of this clock" : fmt::format("at {} MHz", usual.clock_mhz),
                    drawn_w(usual)),
        false);
  }

  std::vector<StageOp> ops_;
  double waiting_w_;
  const std::optional<NamedPowerLimit>* gpu_;
  std::vector<std::pair<const StageOp*, SeriesRow>> rows_;
  std::map<std::size_t, RowFinding> findings_;  ///< by place in the profile
};

}  // namespace

double least_training_power_w(std::optional<double> limit_w) {
  return limit_w && *limit_w > 0 ? kLeastOfLimit * *limit_w : 0;
}

double highest_profiled_power_w(const std::optional<NamedPowerLimit>& gpu) {
  return lasting_gpu_power_w(gpu ? std::optional(gpu->limit_w) : std::nullopt);
}

std::string excess_text(const std::optional<NamedPowerLimit>& gpu) {
  return gpu ? fmt::format("more than the power limit of {} ({:.6g} W)", gpu->gpu_name, gpu->limit_w)
             : "more than any GPU draws";
}

std::vector<RowFinding> check_rows(const StageProfile& profile, double waiting_w,
                                   const std::optional<NamedPowerLimit>& gpu) {
  return RowChecker(profile, waiting_w, gpu).check();
}

std::optional<std::string> problem_with_time(double time_s) {
  constexpr double kMinTimeS = 1 / kPsPerSecond;
  if (time_s >= kMinTimeS && time_s <= kMaxTimeS) return std::nullopt;
  return fmt::format("time {} s is not in {} to {}", time_s, kMinTimeS, kMaxTimeS);
}

std::optional<std::string> problem_with_energy(double energy_j) {
  if (energy_j > 0 && energy_j <= kMaxEnergyJ) return std::nullopt;
  return fmt::format("energy {} J is not above 0 and at most {}", energy_j, kMaxEnergyJ);
}

namespace {

bool is_letter_or_digit(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9');
}

bool is_allowed(char character) {
  return is_letter_or_digit(character) || std::string_view("._=;:+/@-").find(character) != std::string_view::npos;
}

}  // namespace

std::optional<std::string> problem_with_setting(std::string_view setting) {
  if (setting.empty()) return std::nullopt;
  if (setting.size() > kMaxSettingBytes) {
    return fmt::format("a setting of {} characters is longer than {}", setting.size(), kMaxSettingBytes);
  }
  if (is_letter_or_digit(setting.front()) && std::ranges::all_of(setting, is_allowed)) return std::nullopt;
  return fmt::format(
      "the setting {} has a character that is not allowed: it begins with a letter or a digit, and has letters, digits "
      "and . _ = ; : + / @ -",
      quote(std::string(setting)));
}

}  // namespace lowgear::profile
