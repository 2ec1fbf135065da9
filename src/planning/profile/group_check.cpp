#include "planning/profile/group_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/core/numbers/median.h"
#include "planning/profile/recording.h"

namespace lowgear::profile {
namespace {

/// Stages are made to take about as long as each other: published partitions differ by 1.5 at most, and a large head
/// on few layers by more. Of two stages, either can be the usual one.
constexpr double kStagesApart = 2.5;
constexpr double kTwoStagesApart = 5;
/// A backward computes twice as much as its forward, three times with a recomputation, and as much where the weights
/// are frozen, since it still passes gradients on.
constexpr double kBackwardByForward = 5;
constexpr double kForwardByBackward = 1.25;
/// How many forwards a backward takes differs between stages by a half where some recompute: 3 for 2.
constexpr double kRatiosApart = 1.6;
/// Ops of a kind at a clock, and forwards and backwards of all stages: a tenth in published profiles, and GPUs of one
/// model differ by a quarter.
constexpr double kPowersApart = 1.45;
/// Share of the clocks of most ops that one may lack, as where single rows were taken out.
constexpr double kLackedClocks = 0.25;
/// Between two measurements of the same work.
constexpr double kSameWork = 1.5;
constexpr double kSameTime = 1.1;
constexpr double kAnyTime = std::numeric_limits<double>::infinity();
/// A recomputation may repeat a part of its forward.
constexpr double kMostOfForward = 2;
constexpr double kLeastOfForward = 0.05;

constexpr std::string_view kCheckUnits = "check the units of these rows";

/// Time of a microbatch on a stage at its highest clock.
struct StageTime {
  int stage = 0;
  double time_s = 0;
  int clock_mhz = 0;
  int line = 0;
};

bool is_apart(double ratio, double allowed) { return !(ratio <= allowed && ratio >= 1 / allowed); }

std::string line_text(int line) { return line == 0 ? "" : fmt::format(" (line {})", line); }

std::optional<StageTime> stage_time(const StageProfile& profile, int stage, OpKind kind) {
  if (!profile.has(stage, kind)) return std::nullopt;
  const Measurement& row = profile.at_max_clock(stage, kind);
  return StageTime{stage, row.time_s, row.clock_mhz, row.line};
}

/// Whole backwards, however they were measured.
std::optional<StageTime> backward_time(const StageProfile& profile, int stage) {
  if (const auto whole = stage_time(profile, stage, OpKind::backward)) return whole;
  auto halves = stage_time(profile, stage, OpKind::weight_gradient);
  const auto input = stage_time(profile, stage, OpKind::input_gradient);
  if (!halves || !input) return stage_time(profile, stage, OpKind::recomputing_backward);
  halves->time_s += input->time_s;
  return halves;
}

/// What the same work took, stated by two kinds: `a` is to be within the bounds of `b`.
struct Comparison {
  std::string_view a;
  std::string_view b;
  double least = 0;
  double most = 0;
};

class GroupChecker {
 public:
  explicit GroupChecker(const StageProfile& profile) : profile_(profile) {}

  std::vector<GroupFinding> check() {
    for (int stage = 0; stage < profile_.stages(); ++stage) {
      if (const auto time = stage_time(profile_, stage, OpKind::forward)) forwards_.push_back(*time);
      if (const auto time = backward_time(profile_, stage)) backwards_.push_back(*time);
    }
    compare_stages("forward", forwards_, false);
    compare_stages("backward", backwards_, true);
    for (const OpKind kind : {OpKind::input_gradient, OpKind::weight_gradient, OpKind::recomputation}) {
      std::vector<StageTime> times;
      for (int stage = 0; stage < profile_.stages(); ++stage) {
        if (const auto time = stage_time(profile_, stage, kind)) times.push_back(*time);
      }
      compare_stages(name(kind), times, true);
    }
    compare_directions();
    compare_powers();
    compare_clocks();
    for (int stage = 0; stage < profile_.stages(); ++stage) compare_kinds(stage);
    return std::move(findings_);
  }

 private:
  /// Against the median, or of two stages the second against the first.
  void compare_stages(std::string_view what, const std::vector<StageTime>& times, bool first_may_be_short) {
    if (times.size() < 2) return;
    std::vector<double> all_s;
    for (const StageTime& each : times) all_s.push_back(each.time_s);
    const bool are_two = times.size() == 2;
    const double usual_s = are_two ? times.front().time_s : median_of(std::move(all_s));
    for (const StageTime& each : times) {
      const double ratio = each.time_s / usual_s;
      if (!is_apart(ratio, are_two ? kTwoStagesApart : kStagesApart)) continue;
      const bool is_first = each.stage == times.front().stage;
      if (first_may_be_short && (are_two ? ratio > 1 : is_first && ratio < 1)) continue;
      const std::string usual = are_two ? fmt::format("that of stage {} {:.4g} s{}", times.front().stage, usual_s,
                                                      line_text(times.front().line))
                                        : fmt::format("that of the stages {:.4g} s (median)", usual_s);
      findings_.push_back({fmt::format("stage {}: the {} takes {:.4g} s at {} MHz{}, and {}", each.stage, what,
                                       each.time_s, each.clock_mhz, line_text(each.line), usual),
                           "check the units of these rows, or balance the stages (lowgear plan --change)", each.line});
    }
  }

  /// A backward and the forward of its stage.
  struct Direction {
    StageTime forward;
    StageTime backward;

    [[nodiscard]] double ratio() const { return backward.time_s / forward.time_s; }
    [[nodiscard]] bool can_be() const { return ratio() <= kBackwardByForward && ratio() >= 1 / kForwardByBackward; }
    [[nodiscard]] GroupFinding finding(std::string_view compared) const {
      return {fmt::format("stage {}: the backward takes {:.4g} s at {} MHz{}, {:.3g} times as long as the forward "
                          "({:.4g} s at {} MHz{}){}",
                          backward.stage, backward.time_s, backward.clock_mhz, line_text(backward.line), ratio(),
                          forward.time_s, forward.clock_mhz, line_text(forward.line), compared),
              kCheckUnits, backward.line};
    }
  };

  /// Of the stages that have both.
  [[nodiscard]] std::vector<Direction> directions() const {
    std::vector<Direction> all;
    for (const StageTime& backward : backwards_) {
      const auto forward = std::ranges::find(forwards_, backward.stage, &StageTime::stage);
      if (forward != forwards_.end()) all.push_back({*forward, backward});
    }
    return all;
  }

  /// Backwards against forwards, by themselves and as in the other stages.
  void compare_directions() {
    const std::vector<Direction> all = directions();
    if (all.empty()) return;
    if (all.size() > 1 && std::ranges::none_of(all, &Direction::can_be)) {
      findings_.push_back(all[all.front().ratio() < 1 ? 1 : 0].finding(", and so in every stage"));
      return;
    }
    std::vector<double> ratios;
    for (const Direction& each : all) ratios.push_back(each.ratio());
    const bool are_two = all.size() == 2;
    const double usual = are_two ? ratios.front() : median_of(ratios);
    for (const Direction& each : all) {
      const double apart = each.ratio() / usual;
      // The first one that is trained may train its last layers only.
      const bool is_first = all.size() > 1 && each.backward.stage == backwards_.front().stage;
      if (are_two ? !is_first && apart > 1 && each.can_be() : is_first && apart < 1) continue;
      if (is_apart(apart, kRatiosApart)) {
        findings_.push_back(each.finding(
            fmt::format(", and that of {} {:.3g} times", are_two ? "the other stage" : "the stages (median)", usual)));
      } else if (!each.can_be() && !(is_first && each.ratio() < 1)) {
        findings_.push_back(each.finding(""));
      }
    }
  }

  /// What an op draws at a clock with a setting, by stage.
  using PowersOfKind = std::map<std::pair<int, std::string_view>, std::map<int, double>>;

  [[nodiscard]] PowersOfKind powers_of(OpKind kind) const {
    PowersOfKind powers;
    for (int stage = 0; stage < profile_.stages(); ++stage) {
      for (const Measurement& row : profile_.measurements(stage, kind)) {
        if (row.time_s < kShortestUnitS) continue;
        powers[{row.clock_mhz, row.setting}][stage] = row.energy_j / row.time_s;
      }
    }
    return powers;
  }

  /// Powers of a kind in the stages, and of backwards and forwards. By the median over clocks, since single rows are
  /// judged by themselves.
  void compare_powers() {
    std::array<PowersOfKind, kOpKindCount> powers;
    for (const OpKind kind : kScheduledKinds) {
      powers.at(static_cast<std::size_t>(kind)) = powers_of(kind);
      compare_stages(kind, powers.at(static_cast<std::size_t>(kind)));
    }
    std::vector<double> ratios;
    const PowersOfKind& forwards = powers.at(static_cast<std::size_t>(OpKind::forward));
    for (const auto& [at, of_stages] : powers.at(static_cast<std::size_t>(OpKind::backward))) {
      const auto forward = forwards.find(at);
      if (forward != forwards.end()) ratios.push_back(median_power_w(of_stages) / median_power_w(forward->second));
    }
    if (ratios.empty() || !is_apart(median_of(ratios), kPowersApart)) return;
    findings_.push_back({fmt::format("the backwards draw {:.3g} times as much power as the forwards at the same clocks "
                                     "(energy by time, median)",
                                     median_of(ratios)),
                         kCheckUnits, 0});
  }

  [[nodiscard]] static double median_power_w(const std::map<int, double>& of_stages) {
    std::vector<double> powers_w;
    for (const auto& [stage, power_w] : of_stages) powers_w.push_back(power_w);
    return median_of(std::move(powers_w));
  }

  void compare_stages(OpKind kind, const PowersOfKind& powers) {
    std::map<int, std::vector<double>> ratios;  // by stage, one a clock
    for (const auto& [at, of_stages] : powers) {
      if (of_stages.size() < 2) continue;
      const double usual_w = of_stages.size() == 2 ? of_stages.begin()->second : median_power_w(of_stages);
      for (const auto& [stage, power_w] : of_stages) ratios[stage].push_back(power_w / usual_w);
    }
    for (auto& [stage, of_stage] : ratios) {
      const double ratio = median_of(std::move(of_stage));
      if (!is_apart(ratio, kPowersApart)) continue;
      const Measurement& row = profile_.at_max_clock(stage, kind);
      findings_.push_back(
          {fmt::format("stage {}: the {} draws {:.6g} W at {} MHz{}, and over its clocks {:.3g} times "
                       "as much as in the other stages (median)",
                       stage, name(kind), row.energy_j / row.time_s, row.clock_mhz, line_text(row.line), ratio),
           kCheckUnits, row.line});
    }
  }

  /// Clocks that most ops have, and one lacks: where it lacks the highest, its full speed is that of another clock.
  void compare_clocks() {
    const std::vector<StageOp> ops = profile_.ops();
    std::map<int, std::size_t, std::greater<>> ops_of_clock;
    for (const StageOp& op : ops) {
      std::set<int> clocks_mhz;
      for (const Measurement& row : op.measurements) clocks_mhz.insert(row.clock_mhz);
      for (const int clock_mhz : clocks_mhz) ++ops_of_clock[clock_mhz];
    }
    std::erase_if(ops_of_clock, [&](const auto& each) { return 2 * each.second <= ops.size(); });
    for (const StageOp& op : ops) {
      const int highest_mhz = op.measurements.front().clock_mhz;
      const int lowest_mhz = op.measurements.back().clock_mhz;
      std::vector<int> lacked_mhz;
      for (const auto& [clock_mhz, count] : ops_of_clock) {
        if (clock_mhz >= lowest_mhz &&
            std::ranges::find(op.measurements, clock_mhz, &Measurement::clock_mhz) == op.measurements.end()) {
          lacked_mhz.push_back(clock_mhz);
        }
      }
      if (lacked_mhz.empty()) continue;
      const bool lacks_highest = lacked_mhz.front() > highest_mhz;
      if (!lacks_highest &&
          static_cast<double>(lacked_mhz.size()) <= kLackedClocks * static_cast<double>(ops_of_clock.size())) {
        continue;
      }
      findings_.push_back(
          {fmt::format("stage {}: the {} has no row at {} of the clocks from {} to {} MHz that most "
                       "others have{}",
                       op.stage, name(op.kind), lacked_mhz.size(), lacked_mhz.front(), lacked_mhz.back(),
                       lacks_highest ? fmt::format("; its full speed is taken to be that of {} MHz", highest_mhz) : ""),
           "measure these, too", op.measurements.front().line});
    }
  }

  /// What `kinds` take together at the clock and with the setting of `row`; null where one of them is not there.
  [[nodiscard]] std::optional<Measurement> sum_at(int stage, const Measurement& row,
                                                  std::initializer_list<OpKind> kinds) const {
    Measurement sum = row;
    sum.time_s = 0;
    sum.energy_j = 0;
    for (const OpKind kind : kinds) {
      const Measurement* const part = profile_.find(stage, kind, row.clock_mhz, row.setting);
      if (part == nullptr) return std::nullopt;
      sum.time_s += part->time_s;
      sum.energy_j += part->energy_j;
    }
    return sum;
  }

  /// The first row of `kind` whose time or energy is out of bounds; whether the stage has both.
  bool compare(int stage, OpKind kind, std::initializer_list<OpKind> others, const Comparison& comparison) {
    bool has_both = false;
    for (const Measurement& row : profile_.measurements(stage, kind)) {
      const std::optional<Measurement> sum = sum_at(stage, row, others);
      if (!sum) continue;
      has_both = true;
      const double times = row.time_s / sum->time_s;
      const double energies = row.energy_j / sum->energy_j;
      if (std::min(times, energies) >= comparison.least && std::max(times, energies) <= comparison.most) continue;
      findings_.push_back({fmt::format("stage {}: {} takes {:.4g} s and {:.4g} J at {} MHz{}, and {} {:.4g} s and "
                                       "{:.4g} J",
                                       stage, comparison.a, row.time_s, row.energy_j, row.clock_mhz,
                                       line_text(row.line), comparison.b, sum->time_s, sum->energy_j),
                           kCheckUnits, row.line});
      break;
    }
    return has_both;
  }

  void compare_kinds(int stage) {
    using enum OpKind;
    compare(stage, backward, {input_gradient, weight_gradient},
            {"the backward", "its input and weight gradient together", 1 / kSameWork, kSameWork});
    compare(stage, recomputation, {forward}, {"the recomputation", "its forward", kLeastOfForward, kMostOfForward});
    compare(stage, recomputing_backward, {backward},
            {"the recomputing backward", "the backward alone", 1 / kSameTime, kAnyTime});
    compare(stage, recomputing_backward, {backward, recomputation},
            {"the recomputing backward", "backward and recomputation together", 1 / kSameWork, kSameWork}) ||
        compare(stage, recomputing_backward, {backward, forward},
                {"the recomputing backward", "backward and forward together", 1 / kSameWork, kSameWork});
  }

  const StageProfile& profile_;
  std::vector<StageTime> forwards_;
  std::vector<StageTime> backwards_;
  std::vector<GroupFinding> findings_;
};

}  // namespace

double median_of(std::vector<double> values) {
  const double upper = upper_median(std::span(values));
  if (values.size() % 2 == 1) return upper;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  return std::sqrt(upper * *std::max_element(values.begin(), middle));
}

DrawnPower drawn_power(const StageProfile& profile) {
  std::vector<double> powers_w;
  for (const StageOp& op : profile.ops()) {
    for (const Measurement& measured : op.measurements) powers_w.push_back(measured.energy_j / measured.time_s);
  }
  if (powers_w.empty()) return {};
  std::ranges::sort(powers_w);
  return {.median_w = median_of(powers_w),
          .majority_w = powers_w[(powers_w.size() - 1) / 2],
          .lowest_w = powers_w.front(),
          .highest_w = powers_w.back()};
}

std::vector<GroupFinding> check_groups(const StageProfile& profile) { return GroupChecker(profile).check(); }

}  // namespace lowgear::profile
