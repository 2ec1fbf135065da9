#include "planning/profile/plausibility.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "base/core/energy/energy_check.h"
#include "base/core/error.h"
#include "planning/profile/group_check.h"
#include "planning/profile/recording.h"

namespace lowgear::profile {

namespace {

/// Longest pass of a microbatch through a stage that is taken for one without a word.
constexpr double kLongestOpS = 20;
/// Shortest pass that a change of units is taken to give.
constexpr double kShortestOpS = 1e-3;
/// Most rows of a profile that are listed.
constexpr std::size_t kMostRows = 8;

constexpr double kMilli = 1e-3;
constexpr double kMicro = 1e-6;
constexpr double kKilo = 1e3;

/// GPUs that wait for others draw a twelfth of their limit and more.
constexpr double kMostByWaiting = 25;
/// Most GPUs whose energies are taken to have been added up.
constexpr double kMostGpusOfNode = 16;
/// Most GPUs draw less in training: from a B200 on, modules have higher limits.
constexpr double kUsualGpuPowerW = 800;
constexpr std::string_view kOfSeveralGpus =
    "energies look like those of several GPUs together: give the joules of one GPU";

/// A unit that makes a figure what it can be: `factor` of the right unit.
struct UnitGuess {
  double factor;
  std::string_view text;
};

/// Median time of a measurement, and powers of all of them.
struct TypicalFigures {
  double time_s = 0;
  DrawnPower power = {};
};

TypicalFigures typical_figures(const StageProfile& profile) {
  std::vector<double> times_s;
  for (const StageOp& op : profile.ops()) {
    for (const Measurement& measured : op.measurements) times_s.push_back(measured.time_s);
  }
  if (times_s.empty()) return {};
  return {.time_s = median_of(times_s), .power = drawn_power(profile)};
}

/// Units of both figures that make powers and times what they can be, the likeliest first.
struct UnitsGuess {
  double time = 1;    ///< factor of seconds
  double energy = 1;  ///< factor of joules
  std::string_view text;
};
constexpr auto kUnitsGuesses = std::to_array<UnitsGuess>({
    {kMilli, 1, "times look like milliseconds: give seconds"},
    {kMicro, 1, "times look like microseconds: give seconds"},
    {1, kKilo, "energies look like kilojoules: give joules"},
    {1, kMilli, "energies look like millijoules: give joules"},
    {1, kMicro, "energies look like microjoules: give joules"},
    {kMilli, kMilli, "times and energies look like milliseconds and millijoules: give seconds and joules"},
    {kMicro, kMilli, "times and energies look like microseconds and millijoules: give seconds and joules"},
    {kMicro, kMicro, "times and energies look like microseconds and microjoules: give seconds and joules"},
});
constexpr auto kBlockingGuesses = std::to_array<UnitGuess>({
    {kMilli, "it looks like milliwatts"},
    {kMicro, "it looks like microwatts"},
    {kKilo, "it looks like kilowatts"},
});

/// The likely error in these times and powers.
std::string likely_units(const TypicalFigures& typical, double most_w) {
  const auto* const guess = std::ranges::find_if(kUnitsGuesses, [&](const UnitsGuess& units) {
    const double power_w = typical.power.median_w * units.energy / units.time;
    return power_w >= kLeastPowerW && power_w <= most_w && typical.time_s * units.time <= kLongestOpS &&
           typical.time_s * units.time >= kShortestOpS;
  });
  if (guess != kUnitsGuesses.end()) return std::string(guess->text);
  if (typical.power.median_w > most_w && typical.power.median_w <= kMostGpusOfNode * most_w) {
    return std::string(kOfSeveralGpus);
  }
  return "give seconds and joules";
}

std::string lack_text(const std::optional<NamedPowerLimit>& gpu) {
  return gpu ? fmt::format("less than {} ({:.6g} W) draws in training", gpu->gpu_name, gpu->limit_w)
             : "less than any GPU draws";
}

[[noreturn]] void refuse_units(const std::string& what, const ProfileContext& context) {
  const bool can_accept = context.units == ImpossibleUnits::refuse_unless_accepted;
  throw_input_error({context.source, 0, 0}, what, can_accept ? "or accept the units as they are: --accept-units" : "");
}

/// Of a GPU that is not known: ops that draw more than most GPUs. Throws InputError where some draw more than any,
/// unless units are accepted.
std::optional<std::string> several_gpus_doubt(const TypicalFigures& typical, const ProfileContext& context) {
  if (context.gpu || typical.time_s < kShortestUnitS || typical.power.majority_w <= kUsualGpuPowerW)
    return std::nullopt;
  const std::string draw =
      fmt::format("check the energies of the profile: its ops draw {:.4g} W (median)", typical.power.median_w);
  if (typical.power.highest_w <= kHighestGpuPowerW) {
    return fmt::format(
        "{}, more than most GPUs: if they are those of several GPUs together, give the joules of one "
        "GPU; --gpu NAME compares them with the GPU's power limit",
        draw);
  }
  const std::string what = fmt::format("{} and up to {:.4g} W, {}; {}", draw, typical.power.highest_w,
                                       excess_text(context.gpu), kOfSeveralGpus);
  if (context.units != ImpossibleUnits::accept) refuse_units(what, context);
  return what;
}

/// About the profile as a whole. Throws InputError where no GPU can have measured it, and, unless units are accepted,
/// where other units are likely: ops take long, or draw more than the limit of the GPU that is named.
std::optional<std::string> units_doubt(const TypicalFigures& typical, const ProfileContext& context) {
  const double most_w = highest_profiled_power_w(context.gpu);
  if (typical.power.median_w == 0) return std::nullopt;  // no rows
  const std::optional<double> limit_w = context.gpu ? std::optional(context.gpu->limit_w) : std::nullopt;
  const double least_w = std::max(kLeastPowerW, least_training_power_w(limit_w));
  if (typical.power.median_w < least_w || typical.power.median_w > most_w) {
    const std::string what = fmt::format(
        "check the units of the profile: its ops draw {:.4g} W (energy by time, median), {}; {}",
        typical.power.median_w, typical.power.median_w > most_w ? excess_text(context.gpu) : lack_text(context.gpu),
        likely_units(typical, most_w));
    const bool exceeds_named = context.gpu && typical.power.median_w > most_w;
    const bool is_possible = typical.power.median_w >= kLeastBlockingW &&
                             typical.power.median_w <= highest_gpu_power_w(limit_w) &&
                             !(exceeds_named && context.units == ImpossibleUnits::refuse_unless_accepted);
    const bool is_refused = context.units != ImpossibleUnits::accept;
    if (!is_possible && typical.time_s >= kShortestUnitS && is_refused) refuse_units(what, context);
    return what;
  }
  if (typical.time_s < kShortestUnitS) {
    return fmt::format(
        "check the units of the profile: an op takes {:.3g} s (median), too short to be measured; give seconds and "
        "joules",
        typical.time_s);
  }
  if (typical.time_s <= kLongestOpS) return std::nullopt;
  const std::string what = fmt::format("check the units of the profile: an op takes {:.3g} s (median); {}",
                                       typical.time_s, likely_units(typical, most_w));
  if (context.units == ImpossibleUnits::refuse_unless_accepted) refuse_units(what, context);
  return what;
}

std::string row_text(const RowFinding& found) {
  const Measurement& row = found.row;
  return fmt::format("stage {} {} at {} MHz{} {}", found.stage, name(found.kind), row.clock_mhz,
                     row.setting.empty() ? "" : " with setting " + row.setting, found.what);
}

/// One line for rows that all draw more than the GPU's limit, as GPUs with a higher one do, or less than one that
/// waits, as it draws less at low clocks.
std::string power_doubt(std::span<const RowFinding> findings, double waiting_w, const ProfileContext& context) {
  const auto drawn_w = [](const RowFinding& found) { return found.row.energy_j / found.row.time_s; };
  const auto [least, most] = std::ranges::minmax_element(findings, {}, drawn_w);
  const bool is_above = findings.front().power == PowerFault::above_limit;
  const RowFinding& extreme = is_above ? *most : *least;
  const std::string why =
      is_above
          ? excess_text(context.gpu) + ": its limit may be set higher, or the energies are of several GPUs; the most"
          : fmt::format(
                "less than the {:.6g} W of a GPU that waits: it may wait with less at low clocks, or these "
                "rows are predicted too low; the least",
                waiting_w);
  return fmt::format("{}{} rows draw {:.4g} to {:.4g} W, {} at stage {} {}, {} MHz",
                     context.source.empty() ? "" : context.source + ": ", findings.size(), drawn_w(*least),
                     drawn_w(*most), why, extreme.stage, name(extreme.kind), extreme.row.clock_mhz);
}

/// One line each for the first rows, and one for all others. Throws InputError where no GPU can have measured one.
std::vector<std::string> row_doubts(const StageProfile& profile, double waiting_w, const ProfileContext& context) {
  std::vector<std::string> doubts;
  std::vector<RowFinding> findings = check_rows(profile, waiting_w, context.gpu);
  if (!findings.empty() && findings.front().is_impossible) {
    throw_input_error({context.source, findings.front().row.line, 0}, row_text(findings.front()),
                      "measure it again or remove the row");
  }
  for (const PowerFault fault : {PowerFault::above_limit, PowerFault::below_waiting}) {
    std::vector<RowFinding> alike;
    std::ranges::copy_if(findings, std::back_inserter(alike), [&](const auto& found) { return found.power == fault; });
    if (alike.size() <= kMostRows) continue;
    doubts.push_back(power_doubt(alike, waiting_w, context));
    std::erase_if(findings, [&](const RowFinding& found) { return found.power == fault; });
  }
  std::size_t listed = 0;
  for (const RowFinding& found : findings) {
    const SourceLocation where{context.source, found.row.line, 0};
    if (listed++ == kMostRows) {
      doubts.push_back(fmt::format("{} more rows of the profile are in doubt", findings.size() - kMostRows));
      break;
    }
    const std::string place = context.source.empty() ? "" : to_string(where) + ": ";
    doubts.push_back(fmt::format("{}{}; measure it again, or check the row", place, row_text(found)));
  }
  return doubts;
}

/// Throws InputError where it is impossible and another unit is likely, unless units are accepted.
std::optional<std::string> blocking_warning(double blocking_w, const TypicalFigures& typical, ImpossibleUnits units) {
  const auto can_be = [&](double power_w) { return power_w >= kLeastBlockingW && power_w <= typical.power.highest_w; };
  if (blocking_w == 0) return "a blocking power of 0 W: time that a GPU waits is planned to cost nothing";
  if (can_be(blocking_w)) {
    if (typical.power.median_w <= kMostByWaiting * blocking_w) return std::nullopt;
    return fmt::format(
        "check the units of the profile and --blocking-power: its ops draw {:.4g} W (median), {:.0f} times the {:.6g} "
        "W of a GPU that waits, more than GPUs do: give the joules and the watts of one GPU",
        typical.power.median_w, typical.power.median_w / blocking_w, blocking_w);
  }
  const auto* const guess =
      std::ranges::find_if(kBlockingGuesses, [&](const UnitGuess& unit) { return can_be(blocking_w * unit.factor); });
  const std::string what =
      blocking_w < kLeastBlockingW
          ? fmt::format("is less than the {:.3g} W that any GPU draws while it waits", kLeastBlockingW)
          : fmt::format("is more than the {:.3g} W that ops of the profile draw at most", typical.power.highest_w);
  const bool is_likely = guess != kBlockingGuesses.end();
  const std::string problem =
      fmt::format("check --blocking-power: {:.6g} W {}; {}: give the watts of one GPU that waits", blocking_w, what,
                  is_likely ? guess->text : "a GPU that waits draws less than one that computes");
  if (is_likely && units != ImpossibleUnits::accept) {
    const bool can_accept = units == ImpossibleUnits::refuse_unless_accepted;
    throw InputError(fmt::format("{}, {:.6g}{}", problem, blocking_w * guess->factor,
                                 can_accept ? ", or accept it as it is: --accept-units" : ""));
  }
  return problem;
}

/// Of rows, and of the units and the blocking power that all of them together show.
std::vector<std::string> doubts_of_rows(const StageProfile& profile, const ProfileContext& context) {
  const TypicalFigures typical = typical_figures(profile);
  // Where the units are wrong, every row says so.
  if (const auto doubt = units_doubt(typical, context)) return {*doubt};
  std::vector<std::string> doubts;
  if (const auto doubt = several_gpus_doubt(typical, context)) doubts.push_back(*doubt);
  // Where units are accepted, every row above what GPUs draw would be an error.
  if (typical.power.highest_w > kHighestGpuPowerW && !doubts.empty()) return doubts;
  double waiting_w = 0;
  for (const double blocking_w : context.blocking_power_w) {
    if (const auto doubt = blocking_warning(blocking_w, typical, context.units)) {
      doubts.push_back(*doubt);
      waiting_w = 0;
      break;
    }
    waiting_w = waiting_w == 0 ? blocking_w : std::min(waiting_w, blocking_w);
  }
  std::ranges::move(row_doubts(profile, waiting_w, context), std::back_inserter(doubts));
  return doubts;
}

/// Of stages and kinds as a whole.
std::vector<std::string> doubts_of_groups(const StageProfile& profile, const std::string& source) {
  std::vector<std::string> doubts;
  const std::vector<GroupFinding> findings = check_groups(profile);
  for (const GroupFinding& found : findings) {
    if (doubts.size() == kMostRows) {
      doubts.push_back(fmt::format("{} more stages or kinds of the profile are in doubt", findings.size() - kMostRows));
      break;
    }
    const std::string place = source.empty() ? "" : to_string(SourceLocation{source, found.line, 0}) + ": ";
    doubts.push_back(fmt::format("{}{}; {}", place, found.what, found.advice));
  }
  return doubts;
}

/// Each once: ranks share what is wrong with all of them.
void add_new(std::vector<std::string>& all, std::vector<std::string> doubts) {
  for (std::string& doubt : doubts) {
    if (std::ranges::find(all, doubt) == all.end()) all.push_back(std::move(doubt));
  }
}

}  // namespace

std::vector<std::string> profile_doubts(std::span<const StageProfile> ranks, const StageProfile& merged,
                                        const ProfileContext& context) {
  std::vector<std::string> doubts;
  for (const StageProfile& measured : ranks) add_new(doubts, doubts_of_rows(measured, context));
  add_new(doubts, doubts_of_groups(merged, context.source));
  return doubts;
}

std::vector<std::string> profile_doubts(const StageProfile& profile, const ProfileContext& context) {
  return profile_doubts({&profile, 1}, profile, context);
}

}  // namespace lowgear::profile
