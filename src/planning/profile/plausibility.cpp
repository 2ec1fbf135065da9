#include "planning/profile/plausibility.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace lowgear::profile {
namespace {

/// What a GPU may draw while it computes: from the smallest embedded one to well above today's largest module.
constexpr double kLeastPowerW = 4;
constexpr double kMostPowerW = 3000;
/// The least that one draws while it waits.
constexpr double kLeastBlockingW = 1;
/// Longest pass of a microbatch through a stage that is taken for one without a word.
constexpr double kLongestOpS = 20;

constexpr double kMilli = 1e-3;
constexpr double kMicro = 1e-6;
constexpr double kKilo = 1e3;

/// How far above its power limit a GPU's power is measured: its controller works on averages, and readings have errors.
constexpr double kOvershoot = 1.15;
/// Most GPUs whose energies are taken to have been added up.
constexpr double kMostGpusOfNode = 16;

/// A unit that makes a figure what it can be: `factor` of the right unit.
struct UnitGuess {
  double factor;
  std::string_view text;
};

/// The highest power that a profile of this GPU shows.
double most_power_w(const std::optional<NamedPowerLimit>& gpu) { return gpu ? kOvershoot * gpu->limit_w : kMostPowerW; }

std::string excess_text(const std::optional<NamedPowerLimit>& gpu) {
  return gpu ? fmt::format("more than the power limit of {} ({:.4g} W)", gpu->gpu_name, gpu->limit_w)
             : "more than any GPU does";
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Medians over all measurements, and the highest power.
struct TypicalFigures {
  double time_s = 0;
  double power_w = 0;
  double highest_power_w = 0;
};

TypicalFigures typical_figures(const StageProfile& profile) {
  std::vector<double> times_s;
  std::vector<double> powers_w;
  for (const StageOp& op : profile.ops()) {
    for (const Measurement& measured : op.measurements) {
      times_s.push_back(measured.time_s);
      powers_w.push_back(measured.energy_j / measured.time_s);
    }
  }
  if (times_s.empty()) return {};
  return {median(times_s), median(powers_w), *std::ranges::max_element(powers_w)};
}

/// Energies in a smaller unit make powers too high, times in a smaller one too low.
constexpr auto kPowerGuesses = std::to_array<UnitGuess>({
    {1 / kMilli, "times look like milliseconds: give seconds"},
    {1 / kMicro, "times look like microseconds: give seconds"},
    {kMilli, "energies look like millijoules: give joules"},
    {kMicro, "energies look like microjoules: give joules"},
});
constexpr auto kBlockingGuesses = std::to_array<UnitGuess>({
    {kMilli, "it looks like milliwatts"},
    {kMicro, "it looks like microwatts"},
    {kKilo, "it looks like kilowatts"},
});

/// What is likely wrong where powers are `power_w`.
std::string likely_unit(double power_w, double most_w) {
  const auto is_power = [most_w](double w) { return w >= kLeastPowerW && w <= most_w; };
  const auto* const guess =
      std::ranges::find_if(kPowerGuesses, [&](const UnitGuess& unit) { return is_power(power_w * unit.factor); });
  if (guess != kPowerGuesses.end()) return std::string(guess->text);
  if (power_w > most_w && power_w <= kMostGpusOfNode * most_w) {
    return "energies look like those of several GPUs together: give the joules of one GPU";
  }
  return "give seconds and joules";
}

std::optional<std::string> profile_warning(const TypicalFigures& typical, const std::optional<NamedPowerLimit>& gpu) {
  const double most_w = most_power_w(gpu);
  const auto warning = [&](double power_w, std::string_view which) {
    return fmt::format("check the units of the profile: its ops draw {:.4g} W (energy by time, {}), {}; {}", power_w,
                       which, power_w > most_w ? excess_text(gpu) : "less than any GPU does",
                       likely_unit(power_w, most_w));
  };
  if (typical.power_w < kLeastPowerW || typical.power_w > most_w) return warning(typical.power_w, "median");
  if (gpu && typical.highest_power_w > most_w) return warning(typical.highest_power_w, "the highest");
  if (typical.time_s <= kLongestOpS) return std::nullopt;
  return fmt::format(
      "check the units of the profile: an op takes {:.3g} s (median); times and energies look like "
      "milliseconds and millijoules: give seconds and joules",
      typical.time_s);
}

std::optional<std::string> blocking_warning(double blocking_w, const TypicalFigures& typical) {
  const auto can_be = [&](double power_w) { return power_w >= kLeastBlockingW && power_w <= typical.highest_power_w; };
  if (blocking_w == 0 || can_be(blocking_w)) return std::nullopt;
  const auto* const guess =
      std::ranges::find_if(kBlockingGuesses, [&](const UnitGuess& unit) { return can_be(blocking_w * unit.factor); });
  const std::string_view what = blocking_w < kLeastBlockingW ? "is less than any GPU draws while it waits"
                                                             : "is more than any op of the profile draws";
  return fmt::format(
      "check --blocking-power: {:.6g} W {} ({:.3g} W at most); {}: give the watts of one GPU that waits", blocking_w,
      what, typical.highest_power_w,
      guess == kBlockingGuesses.end() ? "a GPU that waits draws less than one that computes" : guess->text);
}

}  // namespace

std::optional<std::string> unit_warning(const StageProfile& profile, std::span<const double> blocking_power_w,
                                        const std::optional<NamedPowerLimit>& gpu) {
  const TypicalFigures typical = typical_figures(profile);
  std::optional<std::string> warning = profile_warning(typical, gpu);
  for (const double blocking_w : blocking_power_w) {
    if (warning) break;
    warning = blocking_warning(blocking_w, typical);
  }
  return warning;
}

}  // namespace lowgear::profile
