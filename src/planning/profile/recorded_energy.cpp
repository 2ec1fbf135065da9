#include "planning/profile/recorded_energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/core/energy/energy_check.h"
#include "base/core/error.h"
#include "base/core/numbers/median.h"
#include "base/core/numbers/number.h"
#include "planning/profile/recording_check.h"
#include "planning/profile/row_check.h"

namespace lowgear::profile {
namespace {

/// Counter and power readings are compared over the whole recording and over about so many stretches of it. A stretch
/// is long enough for its edges not to count, and short enough for a fault in a part of a recording to show.
constexpr double kStretches = 12;
constexpr double kShortestStretchS = 3;
constexpr double kLongestStretchS = 10;
/// Readings of power that are further apart say nothing of the time between them.
constexpr double kLongestGapS = 2;
/// A power reading may be the mean of the second before it: what a comparison may err by at either end.
constexpr double kAveragedS = 0.5;
/// Fewer readings, or those of a smaller share of the time, say nothing of a counter.
constexpr std::size_t kFewestReadings = 4;
constexpr double kCoveredShare = 0.9;
/// So many readings of a GPU that works are not all the same.
constexpr std::size_t kStuckReadings = 10;
/// Stretches differ by chance up to this multiple of what two that follow each other usually do.
constexpr double kNoiseFactor = 4;
/// The energies of single steps of the counter vary by more than this share where power does.
constexpr double kSteadySteps = 0.1;

/// What counter and power readings say of the same time.
struct Stretch {
  double begin_s = 0;
  double end_s = 0;
  double time_s = 0;  ///< that both cover
  double counter_j = 0;
  double power_j = 0;
  double edges_j = 0;     ///< what readings that are means leave open at begin and end
  double changes_j2 = 0;  ///< what each change of power leaves open, squared: it may have happened at any time
  double lowest_w = std::numeric_limits<double>::infinity();
  double highest_w = 0;
  std::size_t readings = 0;
  std::vector<double> steps_j;  ///< of the counter

  void add(const EnergySample& from, const EnergySample& to) {
    const double over_s = to.time_s - from.time_s;
    const double step_j = *to.energy_j - *from.energy_j;
    const double change_j = (*to.power_w - *from.power_w) * over_s;
    if (time_s == 0) begin_s = from.time_s;
    end_s = to.time_s;
    time_s += over_s;
    counter_j += step_j;
    power_j += over_s * (*from.power_w + *to.power_w) / 2;
    changes_j2 += change_j * change_j / 3;
    lowest_w = std::min({lowest_w, *from.power_w, *to.power_w});
    highest_w = std::max({highest_w, *from.power_w, *to.power_w});
    ++readings;
    if (step_j > 0) steps_j.push_back(step_j);
  }
  void add(const Stretch& other) {
    if (time_s == 0) begin_s = other.begin_s;
    end_s = other.end_s;
    time_s += other.time_s;
    counter_j += other.counter_j;
    power_j += other.power_j;
    edges_j = std::max(edges_j, other.edges_j);
    changes_j2 += other.changes_j2;
    lowest_w = std::min(lowest_w, other.lowest_w);
    highest_w = std::max(highest_w, other.highest_w);
    readings += other.readings;
    steps_j.insert(steps_j.end(), other.steps_j.begin(), other.steps_j.end());
  }
  [[nodiscard]] double ratio() const { return counter_j / power_j; }
  [[nodiscard]] bool power_is_stuck() const { return readings >= kStuckReadings && lowest_w == highest_w; }
  [[nodiscard]] bool counter_varies() const {
    if (steps_j.size() < kStuckReadings) return false;
    std::vector<double> sorted = steps_j;
    std::ranges::sort(sorted);
    const std::size_t tenth = sorted.size() / 10;
    return sorted[sorted.size() - 1 - tenth] - sorted[tenth] > kSteadySteps * sorted[sorted.size() / 2];
  }
  [[nodiscard]] StatedEnergy stated(double highest_power_w) const {
    return {.energy_j = counter_j, .time_s = time_s, .period_s = kLongestStepS, .highest_power_w = highest_power_w};
  }
  [[nodiscard]] EnergyVerdict verdict(double highest_power_w) const {
    StatedEnergy with_readings = stated(highest_power_w);
    with_readings.readings = IntegratedPower{power_j, edges_j + std::sqrt(changes_j2)};
    return check_energy(with_readings);
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("shows {:.0f} J from {:.1f} to {:.1f} s, and the power readings make {:.0f} J: {:+.0f} %",
                       counter_j, begin_s, end_s, power_j, change_pct(power_j, counter_j));
  }
};

/// Which of the two cannot be right by itself.
enum class Wrong : unsigned char { unknown, counter, power };

/// Bounds of a GPU's power.
struct Limits {
  double highest_w = 0;    ///< for a moment
  double least_w = 0;      ///< while it trains
  double sustained_w = 0;  ///< for seconds

  explicit Limits(std::optional<double> limit_w)
      : highest_w(highest_gpu_power_w(limit_w)),
        least_w(least_training_power_w(limit_w)),
        sustained_w(lasting_gpu_power_w(limit_w)) {}

  [[nodiscard]] bool is_impossible(double energy_j, double time_s) const {
    return energy_j > sustained_w * time_s || energy_j < least_w * time_s;
  }
  [[nodiscard]] Wrong wrong_of(const Stretch& both) const {
    const bool counter = !check_energy(both.stated(highest_w)).usable() || is_impossible(both.counter_j, both.time_s);
    const bool stuck = both.power_is_stuck() && (counter || both.counter_varies());
    const bool power = stuck || is_impossible(both.power_j, both.time_s);
    if (counter == power) return Wrong::unknown;
    return counter ? Wrong::counter : Wrong::power;
  }
};

/// Leaves out power readings that no GPU can have had.
void drop_impossible_readings(Recording& recording, double highest_w) {
  std::size_t readings = 0;
  std::size_t dropped = 0;
  for (EnergySample& sample : recording.samples) {
    if (!sample.power_w) continue;
    ++readings;
    if (why_no_power(*sample.power_w, highest_w).empty()) continue;
    sample.power_w.reset();
    ++dropped;
  }
  if (dropped == 0) return;
  recording.warnings.push_back(fmt::format(
      "{}/energy.csv: {} of {} power readings are below {:g} W, or above the {:.0f} W that are possible; left out",
      recording.source, dropped, readings, kLowestGpuPowerW, highest_w));
}

/// How long the counter was read.
double counted_s(const std::vector<EnergySample>& samples) {
  const auto has_energy = [](const EnergySample& sample) { return sample.energy_j.has_value(); };
  const auto first = std::ranges::find_if(samples, has_energy);
  const auto last = std::find_if(samples.rbegin(), samples.rend(), has_energy);
  return first == samples.end() ? 0 : last->time_s - first->time_s;
}

/// Of the readings within half a second.
double power_around_w(const std::vector<EnergySample>& samples, double time_s) {
  double sum_w = 0;
  double count = 0;
  for (auto at = std::ranges::lower_bound(samples, time_s - kAveragedS, {}, &EnergySample::time_s);
       at != samples.end() && at->time_s <= time_s + kAveragedS; ++at) {
    if (!at->power_w) continue;
    sum_w += *at->power_w;
    ++count;
  }
  return count > 0 ? sum_w / count : 0;
}

std::vector<Stretch> stretches_of(const std::vector<EnergySample>& samples) {
  const double length_s = std::clamp(counted_s(samples) / kStretches, kShortestStretchS, kLongestStretchS);
  std::vector<Stretch> stretches;
  Stretch stretch;
  const EnergySample* from = nullptr;
  for (const EnergySample& to : samples) {
    // Samples without one of the two are left out, so that the next one is compared over a longer time.
    if (!to.energy_j || !to.power_w) continue;
    if (from != nullptr && to.time_s - from->time_s <= kLongestGapS) stretch.add(*from, to);
    from = &to;
    if (stretch.time_s < length_s) continue;
    stretches.push_back(std::exchange(stretch, {}));
  }
  // A short rest belongs to the stretch before it.
  if (stretch.time_s > 0 && stretches.empty()) stretches.emplace_back();
  if (stretch.time_s > 0) stretches.back().add(stretch);
  for (Stretch& each : stretches) {
    each.edges_j = kAveragedS * std::abs(power_around_w(samples, each.end_s) - power_around_w(samples, each.begin_s));
  }
  return stretches;
}

/// The stretches that differ from those which agree best with their power readings.
struct Parts {
  Stretch rest;
  std::vector<Stretch> others;  ///< neighbours in one
};

Parts parts_of(const std::vector<Stretch>& stretches) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<double> changes;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    best = std::min(best, std::abs(stretches[i].ratio() - 1));
    if (i > 0) changes.push_back(std::abs(stretches[i].ratio() - stretches[i - 1].ratio()));
  }
  std::vector<double> agreeing;
  for (const Stretch& stretch : stretches) {
    if (std::abs(stretch.ratio() - 1) <= best + kIntegratedPowerError) agreeing.push_back(stretch.ratio());
  }
  const double usual = upper_median(agreeing);
  const double noise = changes.empty() ? 0 : kNoiseFactor * upper_median(changes);
  const auto beyond = [&](const Stretch& stretch) {
    const double allowed = std::max(kIntegratedPowerError, noise) + stretch.edges_j / stretch.power_j;
    return std::abs(stretch.ratio() - usual) / (usual > 0 ? allowed * usual : allowed);
  };
  Parts parts;
  bool was_other = false;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const bool next_is_other = i + 1 < stretches.size() && beyond(stretches[i + 1]) > 1;
    // A part begins and ends within a stretch.
    const bool is_other = beyond(stretches[i]) > (was_other || next_is_other ? 0.5 : 1);
    if (is_other && !was_other) parts.others.emplace_back();
    (is_other ? parts.others.back() : parts.rest).add(stretches[i]);
    was_other = is_other;
  }
  return parts;
}

/// The first step of the counter that no GPU can have drawn.
std::optional<std::string> impossible_step(const Recording& recording, double highest_power_w) {
  const EnergySample* before = nullptr;
  for (const EnergySample& sample : recording.samples) {
    if (!sample.energy_j) continue;
    if (before != nullptr && *sample.energy_j > *before->energy_j) {
      const EnergyVerdict verdict = check_energy({.energy_j = *sample.energy_j - *before->energy_j,
                                                  .time_s = sample.time_s - before->time_s,
                                                  .period_s = kLongestStepS,
                                                  .highest_power_w = highest_power_w});
      if (!verdict.usable()) return fmt::format("{}, at {:.3f} s", verdict.reason, before->time_s);
    }
    before = &sample;
  }
  return std::nullopt;
}

/// The counter's values, made of the power readings.
void integrate_power(Recording& recording) {
  double energy_j = 0;
  const EnergySample* before = nullptr;
  for (EnergySample& sample : recording.samples) {
    sample.energy_j.reset();
    if (!sample.power_w) continue;
    if (before != nullptr) {
      if (sample.time_s - before->time_s > kLongestGapS) recording.set_aside.push_back({before->time_s, sample.time_s});
      energy_j += (sample.time_s - before->time_s) * (*before->power_w + *sample.power_w) / 2;
    }
    sample.energy_j = energy_j;
    before = &sample;
  }
  recording.energy_from_power = true;
}

/// Decides where the energies of one recording come from.
class EnergySettler {
 public:
  explicit EnergySettler(Recording& recording) : recording_(recording), limits_(recording.power_limit_w) {}

  void settle() {
    drop_impossible_readings(recording_, limits_.highest_w);
    const std::vector<Stretch> stretches = stretches_of(recording_.samples);
    note_coverage(stretches);
    if (const auto step = impossible_step(recording_, limits_.highest_w))
      return use_power(*step, kIntegratedPowerError);
    if (stretches.empty()) return;
    const Parts parts = parts_of(stretches);
    for (const Stretch& part : parts.others) {
      if (limits_.wrong_of(part) == Wrong::counter) return use_power(part.text(), kIntegratedPowerError);
    }
    if (!settle_rest(parts.rest)) return;
    for (const Stretch& part : parts.others) settle_part(part);
  }

 private:
  void warn(std::string_view what) {
    recording_.warnings.push_back(fmt::format("{}/energy.csv: the energy counter {}", recording_.source, what));
  }

  void note_coverage(const std::vector<Stretch>& stretches) {
    for (const Stretch& stretch : stretches) whole_.add(stretch);
    const double all_s = counted_s(recording_.samples);
    if (whole_.power_is_stuck() && whole_.counter_varies()) {
      recording_.uncompared = fmt::format("all of them are {:.6g} W", whole_.highest_w);
      return;
    }
    if (all_s == 0 || (whole_.readings >= kFewestReadings && whole_.time_s >= kCoveredShare * all_s)) return;
    recording_.uncompared = whole_.time_s == 0 ? "there are none next to the counter's values"
                                               : fmt::format("they cover {:.0f} of {:.0f} s", whole_.time_s, all_s);
  }

  /// Whether the counter is used.
  bool settle_rest(const Stretch& rest) {
    const EnergyVerdict verdict = rest.verdict(limits_.highest_w);
    if (verdict.fault == EnergyFault::none) return true;
    const double difference_j = std::abs(rest.counter_j - rest.power_j);
    const Wrong wrong = limits_.wrong_of(rest);
    if (wrong == Wrong::power) {
      warn(verdict.reason + "; the power readings cannot be right, and the counter is used");
    } else if (verdict.usable()) {
      recording_.energy_error_share = difference_j / rest.counter_j;
      warn(fmt::format("{}; the counter is used, and its energies are known to {:.0f} %", verdict.reason,
                       100 * recording_.energy_error_share));
    } else {
      if (wrong == Wrong::counter) {
        use_power(verdict.reason, kIntegratedPowerError);
      } else {
        use_power(verdict.reason + "; either can be wrong", difference_j / rest.power_j);
      }
      return false;
    }
    return true;
  }

  void settle_part(const Stretch& part) {
    if (limits_.wrong_of(part) == Wrong::power) {
      return warn(part.text() + "; the power readings cannot be right there, and the counter is used");
    }
    recording_.set_aside.push_back({part.begin_s, part.end_s});
    warn(part.text() + ", more than in the rest of the recording; the energies of this time are left out");
  }

  void use_power(const std::string& reason, double error_share) {
    const SourceLocation where{recording_.source + "/energy.csv", 0, 0};
    const auto readings = std::ranges::count_if(recording_.samples,
                                                [](const EnergySample& sample) { return sample.power_w.has_value(); });
    if (static_cast<std::size_t>(readings) < kFewestReadings) {
      throw_input_error(where, "the energy counter " + reason, "record again, with power readings (power_w)");
    }
    if (whole_.power_is_stuck() && whole_.counter_varies()) {
      throw_input_error(
          where, fmt::format("the energy counter {}, and all power readings are {:.6g} W", reason, whole_.highest_w),
          "record again: neither can be right");
    }
    warn(fmt::format("{}; its energies are integrated power readings, known to {:.0f} %", reason, 100 * error_share));
    integrate_power(recording_);
    recording_.energy_error_share = error_share;
  }

  Recording& recording_;
  Limits limits_;
  Stretch whole_;  ///< all that is compared
};

}  // namespace

void settle_energy(Recording& recording) { EnergySettler(recording).settle(); }

std::vector<std::string> uncompared_energies(std::span<const Recording> recordings) {
  std::map<std::string, std::vector<int>> ranks;
  for (const Recording& recording : recordings) {
    if (!recording.uncompared.empty()) ranks[recording.uncompared].push_back(recording.rank);
  }
  std::vector<std::string> lines;
  for (auto& [reason, of_reason] : ranks) {
    std::ranges::sort(of_reason);
    of_reason.erase(std::unique(of_reason.begin(), of_reason.end()), of_reason.end());
    lines.push_back(
        fmt::format("energies of {} were not compared with power readings: {}", ranks_text(of_reason), reason));
  }
  return lines;
}

}  // namespace lowgear::profile
