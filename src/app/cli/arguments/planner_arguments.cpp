#include "app/cli/arguments/planner_arguments.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "app/cli/arguments/options.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/numbers/quantity.h"
#include "base/core/units.h"
#include "planning/api/plan_replays.h"
#include "planning/plan/plan.h"
#include "planning/profile/switch_latency.h"
#include "rivals/policies/perseus/exponential_fit.h"

namespace lowgear::cli {
namespace {

constexpr auto kMethodWords = std::to_array<std::string_view>({"auto", "exact", "sandwich"});
constexpr auto kMethods = std::to_array(
    {planner::FrontierMethod::automatic, planner::FrontierMethod::exact, planner::FrontierMethod::sandwich});
constexpr auto kGranularityWords = std::to_array<std::string_view>({"op", "stage"});
constexpr auto kGranularities =
    std::to_array({planner::PlanGranularity::per_op, planner::PlanGranularity::per_stage_kind});

/// Not --perseus-unit, which envpipe-offline has, too.
constexpr auto kOfPerseusAlone = std::to_array<const char*>(
    {"--perseus-noise-factor", "--perseus-always-use-noise-factor", "--perseus-initial-guess"});

constexpr double kSmallestEpsilon = 1e-9;
constexpr double kSmallestNoiseFactor = 0.01;
constexpr double kLargestEpsilon = 0.5;
constexpr double kMsPerS = 1e3;
constexpr double kMaxLatencyMs = profile::kMaxSwitchLatencyS * kMsPerS;
constexpr std::string_view kInstant = "instant";

}  // namespace

void add_planner_options(CLI::App& app, PlannerArguments& arguments) {
  add_choice(
      app, "--frontier", kMethodWords, [&arguments](std::size_t place) { arguments.method = kMethods.at(place); },
      "How the frontier is computed: every vertex (exact), between proven bounds at most --epsilon apart (sandwich), "
      "or exact where that is fast enough (auto, the default)");
  add_quantity(app, "--epsilon", Unit::share, {kSmallestEpsilon, kLargestEpsilon}, into(arguments.epsilon),
               "sandwich: largest relative difference between energy and lower bound (default 0.001)");
  add_choice(
      app, "--granularity", kGranularityWords,
      [&arguments](std::size_t place) { arguments.granularity = kGranularities.at(place); },
      "One clock per op (op, the default), or one per stage and direction, with fewer clock changes (stage)");
  group_options(app, "Frontier", {"--frontier", "--epsilon", "--granularity"});
  add_switch_latency_option(app, arguments.switch_latency);
}

std::string_view name(SwitchLatencyArgument::Source source) {
  constexpr auto kNames = std::to_array<std::string_view>({"unknown", "given", "profile", "assumed", "plan_before"});
  return kNames.at(static_cast<std::size_t>(source));
}

std::optional<double> SwitchLatencyArgument::late_s() const {
  return latency_s || lead_s > 0 ? std::nullopt : std::optional(profile::kAssumedSwitchLatencyS);
}

void SwitchLatencyArgument::complete_from(std::optional<double> of_profile_s) {
  if (latency_s || !of_profile_s) return;
  latency_s = of_profile_s;
  source = Source::profile;
}

void SwitchLatencyArgument::complete_for_plan(std::optional<double> of_profile_s) {
  complete_from(of_profile_s);
  if (!latency_s) {
    latency_s = profile::kAssumedSwitchLatencyS;
    source = Source::assumed;
  }
  if (!asks_ahead) return;
  if (*latency_s > plan::kMaxClockLeadS) {
    throw InputError(fmt::format(
        "--switch-latency: agents request clocks at most {} s before their units, not {} s; add --no-ask-ahead to plan "
        "with clocks that change that late",
        plan::kMaxClockLeadS, *latency_s));
  }
  lead_s = *latency_s;
}

void add_switch_latency_option(CLI::App& app, SwitchLatencyArgument& argument) {
  const auto read = [&argument](const std::string& text) {
    const auto latency_ms =
        lower_case(text) == kInstant ? std::optional<double>(0) : parse_quantity(text, Unit::millisecond);
    if (!latency_ms || !(*latency_ms >= 0) || !(*latency_ms <= kMaxLatencyMs)) {
      throw CLI::ValidationError("--switch-latency", fmt::format("expected a time from 0 to {} ms, as 25 or 25ms, or "
                                                                 "{}, not {}",
                                                                 kMaxLatencyMs, kInstant, quote(text)));
    }
    if (may_be_share(text)) {  // as seconds
      throw CLI::ValidationError("--switch-latency",
                                 fmt::format("{0} without a unit may mean two things: give {0}ms or {0}s", text));
    }
    argument.latency_s = *latency_ms / kMsPerS;
    argument.source = SwitchLatencyArgument::Source::given;
  };
  app.add_option_function<std::string>(
         "--switch-latency", read,
         fmt::format(
             "Time that a clock change takes, in ms, or {0} (default: the profile's, else {0}; figures for {1} are "
             "shown, too, where clocks are not requested ahead)",
             kInstant, profile::kAssumedSwitchLatencyS * kMsPerS))
      ->type_name("MS|instant");
}

void add_ask_ahead_option(CLI::App& app, SwitchLatencyArgument& argument) {
  app.get_option("--switch-latency")
      ->description(fmt::format("Time that a clock change takes, in ms, or {} (default: the profile's, else {})",
                                kInstant, profile::kAssumedSwitchLatencyS * kMsPerS));
  app.add_flag(
      "--ask-ahead,!--no-ask-ahead", argument.asks_ahead,
      "The agent requests each clock one switch latency before its unit is expected to begin, so that it changes "
      "in time (the default). --no-ask-ahead: it requests each when its unit begins, and the plan allows for the "
      "delay");
}

void add_perseus_options(CLI::App& app, PerseusArguments& arguments) {
  add_quantity(app, "--perseus-unit", Unit::second, {1e-9, 1e3}, into(arguments.unit_s),
               "Time step of the policies perseus and envpipe-offline, in s (default 0.001)");
  add_number(app, "--perseus-noise-factor", {kSmallestNoiseFactor, 1}, into(arguments.noise.factor),
             "perseus: an option is dropped where another is below this factor times its time and energy, if "
             "otherwise three options or fewer are left (default 0.95)");
  app.add_flag("--perseus-always-use-noise-factor", arguments.noise.always,
               "perseus: use --perseus-noise-factor also where more options are left");
  app.add_option("--perseus-initial-guess", arguments.initial_guess,
                 "perseus: where the fits start, in place of a search: {'Forward': [(scale, rate, offset), ...], "
                 "'Backward': [...]} by stage, in J and per time step")
      ->type_name("FILE");
  group_options(
      app, "Policies of others",
      {"--perseus-unit", "--perseus-noise-factor", "--perseus-always-use-noise-factor", "--perseus-initial-guess"});
}

policies::PerseusOptions perseus_options(const PerseusArguments& arguments) {
  policies::PerseusOptions options{.unit_s = arguments.unit_s, .noise = arguments.noise, .initial_guess = {}};
  if (!arguments.initial_guess.empty()) {
    options.initial_guess = policies::read_initial_guess(read_file(arguments.initial_guess), arguments.initial_guess);
  }
  return options;
}

void refuse_unused_perseus_options(const CLI::App& app, bool plans_perseus) {
  if (plans_perseus) return;
  for (const char* name : kOfPerseusAlone) {
    if (app.get_option(name)->count() > 0) {
      throw InputError(fmt::format("{}: only the policy perseus uses it: choose that policy, or leave it out", name));
    }
  }
}

CLI::Option* add_plan_sampling_option(CLI::App& app, const std::string& name,
                                      std::optional<plan::PlanSampling>& sampling, const std::string& help) {
  return app
      .add_option_function<std::string>(
          name,
          [name, &sampling](const std::string& text) {
            try {
              sampling = plan::read_plan_sampling(text);
            } catch (const InputError& error) {
              throw CLI::ValidationError(name, error.what());
            }
          },
          help)
      ->type_name("SAMPLE");
}

planner::PlannerOptions planner_options(const PlannerArguments& arguments) {
  return {.method = arguments.method,
          .epsilon = arguments.epsilon,
          .granularity = arguments.granularity,
          .switch_latency_s = arguments.switch_latency.late_by_s()};
}

namespace {

constexpr int kMaxPlans = 100'000;        // the numbers of plans have five digits
constexpr double kMaxSlowdownPct = 1000;  // of estimates and jobs, too
constexpr double kMaxFactor = 1e6;

}  // namespace

void add_single_deadline_options(CLI::App& app, api::Deadlines& deadlines) {
  CLI::Option* deadline =
      add_quantity(app, "--deadline", Unit::second, {0, kMaxTimeS}, into(deadlines.deadline_s),
                   "Make one plan, for an iteration of at most this time, in s; with the time of all clocks at their "
                   "highest, which the plan prints, one that is no later than them");
  CLI::Option* slowdown =
      add_quantity(app, "--slowdown", Unit::percent, {0, kMaxSlowdownPct}, into(deadlines.slowdown_pct),
                   "Make one plan, that much slower than the planned T_min, in %");
  CLI::Option* straggler = add_number(
      app, "--straggler", {1, kMaxFactor}, into(deadlines.straggler_factor),
      "Make one plan, for waiting for a straggler that takes FACTOR x T_min; the deadline is min(FACTOR x T_min, T*)");
  straggler->type_name("FACTOR");
  deadline->excludes(slowdown)->excludes(straggler);
  slowdown->excludes(straggler);
}

void add_deadline_options(CLI::App& app, api::Deadlines& deadlines) {
  add_single_deadline_options(app, deadlines);
  CLI::Option* plans =
      add_whole_number(app, "--plans", {1, kMaxPlans}, into(deadlines.plans),
                       "Number of plans, from T_min to the time of least energy (default 20); equal ones "
                       "are written once. Not together with --deadline, --slowdown or --straggler");
  for (const char* single : {"--deadline", "--slowdown", "--straggler"}) app.get_option(single)->excludes(plans);
}

namespace {

constexpr double kMaxWatts = 1e9;

api::PowerCap power_cap(const std::string& text) {
  const auto [watts, scope] = split_at(text, ':');
  const auto number = parse_quantity(watts, Unit::watt);
  const auto named = scope.empty() ? std::optional(api::CapScope::gpu) : api::cap_scope(scope);
  if (!number || !(*number > 0) || !(*number <= kMaxWatts) || !named || named == api::CapScope::node) {
    throw CLI::ValidationError("--power-cap",
                               fmt::format("expected W, W:gpu or W:job, such as 300 or 2400:job, not {}", quote(text)));
  }
  return {.scope = *named, .watts = *number};
}

}  // namespace

void add_request_options(CLI::App& app, api::PlanRequest& request) {
  add_numbered_factors(
      app, "--slow-rank", "RANK", std::numeric_limits<double>::min(),
      [&request](NumberedFactor slow) {
        request.slow.push_back({.replica = 0, .rank = slow.number, .factor = slow.factor});
      },
      "Rank that takes FACTOR times as long as its profile");
  app.add_option_function<std::string>(
         "--power-cap", [&request](const std::string& text) { request.power_cap = power_cap(text); },
         "Highest power of each GPU (300), or of the pipeline's GPUs together, one per rank (2400:job), in W. Makes "
         "one plan: the fastest found within the cap, or that of least energy found that keeps its deadline")
      ->type_name("W[:SCOPE]");
}

}  // namespace lowgear::cli
