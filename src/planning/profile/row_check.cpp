#include "planning/profile/row_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "base/core/energy/energy_check.h"
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
constexpr double kPowerFromOthers = 3;
constexpr double kTimeFromOthers = 50;

double drawn_w(const Measurement& row) { return row.energy_j / row.time_s; }
bool is_measurable(const Measurement& row) { return row.time_s >= kShortestUnitS; }

/// A row of a series, and where its finding goes.
struct SeriesRow {
  const Measurement* measured = nullptr;
  std::size_t place = 0;  ///< in the profile
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

Contradiction contradiction(const Measurement& higher, const Measurement& lower) {
  if (!is_measurable(higher) || !is_measurable(lower)) return {};
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
      for (const Measurement& row : op.measurements) {
        if (!check_power(op, row, place)) by_setting[row.setting].push_back({&row, place});
        ++place;
      }
      for (auto& [setting, series] : by_setting) {
        check_neighbours(op, series);
        check_between(op, series);
      }
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

  /// Against the GPU; whether something was found.
  bool check_power(const StageOp& op, const Measurement& row, std::size_t place) {
    const double power_w = drawn_w(row);
    const std::string draws = fmt::format("draws {:.6g} W ({:.6g} J in {:.4g} s)", power_w, row.energy_j, row.time_s);
    const std::optional<double> limit_w = *gpu_ ? std::optional((*gpu_)->limit_w) : std::nullopt;
    if (power_w > highest_profiled_power_w(*gpu_)) {
      add(op, row, place, fmt::format("{}, {}", draws, excess_text(*gpu_)), power_w > highest_gpu_power_w(limit_w));
    } else if (!is_measurable(row)) {
      return false;
    } else if (power_w < kLeastPowerW) {
      add(op, row, place, draws + ", less than any GPU does that computes", power_w < kLeastBlockingW);
    } else if (power_w < kBelowWaiting * waiting_w_) {
      add(op, row, place, fmt::format("{}, less than the {:.6g} W of a GPU that waits", draws, waiting_w_), false);
    } else {
      return false;
    }
    return true;
  }

  /// Takes rows out until the others agree, each time the one that leaves the fewest contradictions.
  void check_neighbours(const StageOp& op, RowSeries& series) {
    const auto contradicts = [&](std::size_t a, std::size_t b) {
      return contradiction(*series[a].measured, *series[b].measured).beyond > 1 ? 1 : 0;
    };
    for (std::size_t i = 0; i + 1 < series.size();) {
      if (contradicts(i, i + 1) == 0) {
        ++i;
        continue;
      }
      // What is left between the neighbours without either; an inner row rather than one at the end, which has only
      // one.
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
    const Contradiction found = contradiction(higher, lower);
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
      if (!is_measurable(row) || !is_measurable(higher) || !is_measurable(lower)) continue;
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

  /// What one op has at a clock, against the median of all that have it.
  struct Others {
    std::vector<double> powers_w;
    std::vector<double> times_s;
  };
  static double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

  void check_against_others() {
    std::map<std::pair<int, std::string_view>, Others> at_clock;
    for (const StageOp& op : ops_) {
      for (const Measurement& row : op.measurements) {
        if (!is_measurable(row)) continue;
        Others& others = at_clock[{row.clock_mhz, row.setting}];
        others.powers_w.push_back(drawn_w(row));
        others.times_s.push_back(row.time_s);
      }
    }
    std::map<std::pair<int, std::string_view>, std::pair<double, double>> medians;
    for (auto& [key, others] : at_clock) {
      if (others.times_s.size() < kFewestToCompare) continue;
      medians[key] = {median(std::move(others.powers_w)), median(std::move(others.times_s))};
    }
    std::size_t place = 0;
    for (const StageOp& op : ops_) {
      for (const Measurement& row : op.measurements) {
        const auto found = medians.find({row.clock_mhz, row.setting});
        if (found != medians.end() && is_measurable(row)) compare_with_others(op, row, place, found->second);
        ++place;
      }
    }
  }

  void compare_with_others(const StageOp& op, const Measurement& row, std::size_t place,
                           const std::pair<double, double>& medians) {
    const auto [median_w, median_s] = medians;
    const double powers = drawn_w(row) / median_w;
    if (powers > kPowerFromOthers || powers < 1 / kPowerFromOthers) {
      add(op, row, place,
          fmt::format("draws {:.6g} W ({:.6g} J in {:.4g} s), and the ops of this clock {:.6g} W (median)",
                      drawn_w(row), row.energy_j, row.time_s, median_w),
          false);
    } else if (row.time_s > kTimeFromOthers * median_s) {
      add(op, row, place,
          fmt::format("takes {:.4g} s, and the ops of this clock {:.4g} s (median)", row.time_s, median_s), false);
    }
  }

  std::vector<StageOp> ops_;
  double waiting_w_;
  const std::optional<NamedPowerLimit>* gpu_;
  std::map<std::size_t, RowFinding> findings_;  ///< by place in the profile
};

}  // namespace

double highest_profiled_power_w(const std::optional<NamedPowerLimit>& gpu) {
  return gpu ? kMeasuredOvershoot * gpu->limit_w : kHighestGpuPowerW;
}

std::string excess_text(const std::optional<NamedPowerLimit>& gpu) {
  return gpu ? fmt::format("more than the power limit of {} ({:.6g} W)", gpu->gpu_name, gpu->limit_w)
             : "more than any GPU does";
}

std::vector<RowFinding> check_rows(const StageProfile& profile, double waiting_w,
                                   const std::optional<NamedPowerLimit>& gpu) {
  return RowChecker(profile, waiting_w, gpu).check();
}

}  // namespace lowgear::profile
