#include "planning/profile/group_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace lowgear::profile {
namespace {

/// Stages are made to take about as long as each other.
constexpr double kStagesApart = 5;
/// A backward computes twice as much as its forward, three times with a recomputation, and as much where the weights
/// are frozen, since it still passes gradients on.
constexpr double kBackwardByForward = 5;
constexpr double kForwardByBackward = 1.25;
/// Between two measurements of the same work.
constexpr double kSameWork = 1.5;
constexpr double kSameTime = 1.1;
constexpr double kAnyTime = std::numeric_limits<double>::infinity();
/// A recomputation may repeat a part of its forward.
constexpr double kMostOfForward = 2;
constexpr double kLeastOfForward = 0.05;

/// What a stage takes for a microbatch at its highest clock.
struct StageTime {
  int stage = 0;
  double time_s = 0;
  int clock_mhz = 0;
  int line = 0;
};

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
      if (ratio <= kStagesApart && ratio >= 1 / kStagesApart) continue;
      const bool is_first = each.stage == times.front().stage;
      if (first_may_be_short && (are_two ? ratio > 1 : is_first && ratio < 1)) continue;
      const std::string usual = are_two ? fmt::format("that of stage {} {:.4g} s{}", times.front().stage, usual_s,
                                                      line_text(times.front().line))
                                        : fmt::format("that of the stages {:.4g} s (median)", usual_s);
      findings_.push_back({fmt::format("stage {}: the {} takes {:.4g} s at {} MHz{}, and {}", each.stage, what,
                                       each.time_s, each.clock_mhz, line_text(each.line), usual),
                           each.line});
    }
  }

  /// Backwards against forwards, in the stages that have both.
  void compare_directions() {
    std::vector<GroupFinding> wrong;
    std::size_t right = 0;
    for (const StageTime& backward : backwards_) {
      const auto forward = std::ranges::find(forwards_, backward.stage, &StageTime::stage);
      if (forward == forwards_.end()) continue;
      const double ratio = backward.time_s / forward->time_s;
      if (ratio <= kBackwardByForward && ratio >= 1 / kForwardByBackward) {
        ++right;
        continue;
      }
      // The first one that is trained may train its last layers only.
      const bool others_are = backward.stage > 0 || backwards_.size() > 1;
      if (ratio < 1 && others_are && backward.stage == backwards_.front().stage) continue;
      wrong.push_back({fmt::format("stage {}: the backward takes {:.4g} s at {} MHz{}, {:.3g} times as long as the "
                                   "forward ({:.4g} s at {} MHz{})",
                                   backward.stage, backward.time_s, backward.clock_mhz, line_text(backward.line), ratio,
                                   forward->time_s, forward->clock_mhz, line_text(forward->line)),
                       backward.line});
    }
    if (wrong.size() > 1 && right == 0) {
      wrong.resize(1);
      wrong.front().what += ", and so in every stage";
    }
    std::ranges::move(wrong, std::back_inserter(findings_));
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
                           row.line});
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
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return std::sqrt(*middle * *std::max_element(values.begin(), middle));
}

std::vector<GroupFinding> check_groups(const StageProfile& profile) { return GroupChecker(profile).check(); }

}  // namespace lowgear::profile
