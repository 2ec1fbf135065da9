#include "server/steering/slowdown_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/numbers/figure_text.h"

namespace lowgear::server {
namespace {

constexpr double kMostHolds = 64;
/// Standard errors of the sums that the job's limit leaves to noise.
constexpr double kJobSignificance = 3;
/// An iteration that takes more than this times its planned time may be a stall.
constexpr double kStallFactor = 2;
constexpr int kMostIterationsOfAStall = 2;
constexpr double kMostStalls = 2;
constexpr double kStallsPerIteration = 1.0 / 16;

bool is_positive(double value) { return value > 0 && std::isfinite(value); }

void require_sane(const IterationBaseline& baseline) {
  if (is_positive(baseline.mean_s) && baseline.error_s >= 0 && std::isfinite(baseline.error_s) &&
      baseline.spread_s >= 0 && std::isfinite(baseline.spread_s)) {
    return;
  }
  throw InputError(
      fmt::format("slowdown guard: baseline of {} s, error {} s, spread {} s; the mean must be above 0, the "
                  "others 0 or more, all finite",
                  baseline.mean_s, baseline.error_s, baseline.spread_s));
}

void check_range(std::string_view what, double value, double least, double most) {
  if (value >= least && value <= most) return;
  throw InputError(fmt::format("slowdown guard: {} {}: it must be from {} to {}", what, value, least, most));
}

void require_sane(const GuardOptions& options) {
  check_range("limit_pct", options.limit_pct, 0, 10'000);
  check_range("significance", options.significance, 1, 100);
  check_range("window", options.window, 2, 100'000);
  check_range("reaction_iterations", options.reaction_iterations, 0, 1000);
  check_range("surprise_factor", options.surprise_factor, 1, 100);
  check_range("overrun_iterations", options.overrun_iterations, 0, 1e6);
  check_range("hold_s", options.hold_s, 0, 1e9);
}

double pct_above(double ratio) { return (ratio - 1) * 100; }

std::string difference_text(double time_s) {
  return fmt::format("{} {}", duration_text(std::abs(time_s)), time_s < 0 ? "shorter" : "longer");
}

std::string lateness_text(double lost_s, double limit_pct) {
  return fmt::format("the job is {} {} than at {:g} % above full clocks", duration_text(std::abs(lost_s)),
                     lost_s < 0 ? "earlier" : "later", limit_pct);
}

}  // namespace

std::string_view name(GuardAction action) {
  switch (action) {
    case GuardAction::step_back:
      return "step_back";
    case GuardAction::full_clocks:
      return "full_clocks";
    case GuardAction::recover:
      return "recover";
    case GuardAction::stale_baseline:
      return "stale_baseline";
    case GuardAction::excuse_stall:
      break;
  }
  return "excuse_stall";
}

SlowdownGuard::SlowdownGuard(const IterationBaseline& baseline, const GuardOptions& options)
    : baseline_(baseline), options_(options) {
  change_.hold_s = options.hold_s;
  stall_.allowance = kMostStalls;
  require_sane(baseline);
  require_sane(options);
}

void SlowdownGuard::set_plans(std::vector<double> planned_times_s, double full_clock_scale) {
  if (!is_positive(full_clock_scale)) {
    throw InputError(
        fmt::format("slowdown guard: plans under full clocks of {} times the baseline; it must be above 0 "
                    "and finite",
                    full_clock_scale));
  }
  if (planned_times_s.empty()) throw InputError("slowdown guard: no plans; give the wanted one at least");
  for (std::size_t i = 0; i < planned_times_s.size(); ++i) {
    if (!is_positive(planned_times_s[i]) || (i > 0 && planned_times_s[i] >= planned_times_s[i - 1])) {
      throw InputError(fmt::format("slowdown guard: plan {} takes {} s; times must be above 0, finite and falling", i,
                                   planned_times_s[i]));
    }
  }
  const double before_s = planned_times_s_.empty() ? 0 : planned_time_s(level_);
  const double in_flight_s = std::max(change_.settling > 0 ? change_.in_flight_time_s : 0, before_s);
  planned_times_s_ = std::move(planned_times_s);
  scale_ = full_clock_scale;
  level_.steps_back = std::min(level_.steps_back, last_step());
  if (!level_.is_full_clocks &&
      account_.lost_s + reserve_s(std::max(in_flight_s, planned_time_s(level_))) > allowed_s()) {
    level_.is_full_clocks = true;
    change_.at_s = now_s_;
  }
  if (planned_time_s(level_) == before_s) return;
  change_.in_flight_time_s = in_flight_s;
  change_.settling = options_.reaction_iterations;
  ratios_.clear();
}

std::optional<GuardDecision> SlowdownGuard::observe(double now_s, double iteration_time_s, double full_clock_scale) {
  if (!std::isfinite(now_s) || !is_positive(iteration_time_s) || !is_positive(full_clock_scale)) {
    throw InputError(
        fmt::format("slowdown guard: an iteration of {} s at {} s, full clocks {} times the baseline; all "
                    "must be finite, times above 0",
                    iteration_time_s, now_s, full_clock_scale));
  }
  if (planned_times_s_.empty()) throw InputError("slowdown guard: an iteration before there is a plan");
  scale_ = full_clock_scale;
  std::optional<GuardDecision> excuse = account(now_s, iteration_time_s);
  if (level_.is_full_clocks) {
    if (auto decision = check_baseline()) return decision;
  } else {
    if (auto decision = check_job()) return decision;
    if (auto decision = check_pace()) return decision;
  }
  if (auto decision = recover()) return decision;
  return excuse;
}

void SlowdownGuard::not_in_effect() { change_.settling = std::max(change_.settling, 1); }

void SlowdownGuard::excuse(double time_s) {
  if (!(time_s >= 0) || !std::isfinite(time_s)) {
    throw InputError(fmt::format("slowdown guard: {} s to excuse: it must be 0 or more and finite", time_s));
  }
  account_.lost_s -= time_s;
}

void SlowdownGuard::set_baseline(const IterationBaseline& baseline) {
  require_sane(baseline);
  baseline_ = baseline;
  ratios_.clear();
  is_stale_reported_ = false;
}

double SlowdownGuard::allowed_s() const {
  return options_.overrun_iterations * baseline_.mean_s +
         kJobSignificance *
             (account_.iterations * baseline_.error_s + std::sqrt(account_.iterations) * baseline_.spread_s);
}

/// 0 at full clocks.
double SlowdownGuard::planned_time_s(const GuardLevel& level) const {
  return level.is_full_clocks ? 0 : planned_times_s_[static_cast<std::size_t>(level.steps_back)];
}

/// What plans of this time may still lose before the guard has acted on it.
double SlowdownGuard::reserve_s(double planned_time_s) const {
  const double each_s = options_.surprise_factor * planned_time_s - limit() * scale_ * baseline_.mean_s;
  return std::max(0.0, each_s) * (options_.reaction_iterations + 1);
}

SlowdownGuard::Pace SlowdownGuard::pace() const {
  const auto count = static_cast<double>(ratios_.size());
  double sum = 0;
  double squares = 0;  // of successive differences: a spread that a change of pace does not enlarge (von Neumann 1941)
  for (std::size_t i = 0; i < ratios_.size(); ++i) {
    sum += ratios_[i];
    if (i > 0) squares += (ratios_[i] - ratios_[i - 1]) * (ratios_[i] - ratios_[i - 1]);
  }
  const double own_variance = count > 1 ? squares / (2 * (count - 1)) : 0;
  const double spread = baseline_.spread_s / baseline_.mean_s;
  const double error = baseline_.error_s / baseline_.mean_s;
  return {sum / count, std::sqrt(error * error + std::max(own_variance, spread * spread) / count),
          static_cast<int>(ratios_.size())};
}

double SlowdownGuard::planned_time_in_effect_s() const {
  return std::max(planned_time_s(level_), change_.settling > 0 ? change_.in_flight_time_s : 0);
}

double SlowdownGuard::fastest_in_effect_s() const {
  const double slowest_s = planned_time_in_effect_s();
  if (level_.is_full_clocks) return slowest_s;
  const bool is_changing = change_.settling > 0 && change_.in_flight_time_s > 0;
  return is_changing ? std::min(planned_time_s(level_), change_.in_flight_time_s) : slowest_s;
}

double SlowdownGuard::without_stall(double iteration_time_s, std::optional<GuardDecision>& excuse) {
  const double planned_s = planned_time_in_effect_s();
  stall_.allowance = std::min(kMostStalls, stall_.allowance + kStallsPerIteration);
  const double fastest_s = fastest_in_effect_s();
  const bool is_as_planned = iteration_time_s <= options_.surprise_factor * fastest_s;
  const bool may_begin = stall_.iterations == 0 && stall_.allowance >= 1 && iteration_time_s > kStallFactor * planned_s;
  const bool may_continue = stall_.iterations > 0 && stall_.iterations < kMostIterationsOfAStall && !is_as_planned;
  if (may_begin || may_continue) {
    stall_.iterations += 1;
    stall_.time_s += iteration_time_s;
    stall_.planned_s += planned_s;
    return planned_s;
  }
  if (stall_.iterations == 0) return iteration_time_s;
  if (is_as_planned) {
    stall_.allowance -= 1;
    excuse = GuardDecision{
        GuardAction::excuse_stall, level_,
        fmt::format(
            "the guard excuses a stall: {} took {} than planned, and the next one {} (planned: {} each), so the "
            "plan was not the cause",
            stall_.iterations == 1 ? "one iteration" : "two iterations",
            difference_text(stall_.time_s - stall_.iterations * fastest_s),
            difference_text(iteration_time_s - fastest_s), duration_text(fastest_s))};
  } else {
    account_.lost_s += stall_.time_s - stall_.planned_s;
  }
  stall_ = {.allowance = stall_.allowance};
  return iteration_time_s;
}

std::optional<GuardDecision> SlowdownGuard::account(double now_s, double iteration_time_s) {
  if (!is_started_) now_s_ = change_.at_s = now_s;
  is_started_ = true;
  now_s_ = std::max(now_s_, now_s);
  const double baseline_s = scale_ * baseline_.mean_s;
  const bool is_full_clocks = level_.is_full_clocks && (change_.settling == 0 || change_.in_flight_time_s == 0);
  std::optional<GuardDecision> excuse;
  if (!is_full_clocks) iteration_time_s = without_stall(iteration_time_s, excuse);
  account_.lost_s += (is_full_clocks ? baseline_s : iteration_time_s) - limit() * baseline_s;
  account_.iterations += 1;
  if (change_.settling > 0) {
    --change_.settling;
    return excuse;
  }
  ratios_.push_back(iteration_time_s / baseline_s);
  if (static_cast<int>(ratios_.size()) > options_.window) ratios_.pop_front();
  return excuse;
}

std::optional<GuardDecision> SlowdownGuard::check_job() {
  const double reserve = reserve_s(planned_time_in_effect_s());
  if (account_.lost_s + reserve <= allowed_s()) return std::nullopt;
  return change(
      GuardAction::full_clocks, {true, level_.steps_back},
      fmt::format("the guard withdraws the plan: after {:.0f} iterations {}, it may be {} later, and the plan could "
                  "cost {} more until full clocks are in effect",
                  account_.iterations, lateness_text(account_.lost_s, options_.limit_pct), duration_text(allowed_s()),
                  duration_text(reserve)));
}

std::optional<GuardDecision> SlowdownGuard::check_pace() {
  if (ratios_.size() < 2) return std::nullopt;
  const Pace now = pace();
  const double noise = options_.significance * now.error;
  if (now.mean <= limit() + noise) return std::nullopt;
  const std::string measured = fmt::format(
      "the last {} iterations took {:.2f} % longer on average than full clocks, {:g} % are allowed, and noise explains "
      "{:.2f} % at most",
      now.iterations, pct_above(now.mean), options_.limit_pct, noise * 100);
  if (level_.steps_back == last_step()) {
    return change(GuardAction::full_clocks, {true, level_.steps_back}, "the guard withdraws the plan: " + measured);
  }
  const GuardLevel next{false, level_.steps_back + 1};
  return change(GuardAction::step_back, next,
                fmt::format("the guard goes back to a faster plan of {:.4f} s: {}", planned_time_s(next), measured));
}

std::optional<GuardDecision> SlowdownGuard::check_baseline() {
  if (is_stale_reported_ || static_cast<int>(ratios_.size()) < std::min(options_.window, 8)) return std::nullopt;
  const Pace now = pace();
  const double noise = options_.significance * now.error;
  if (now.mean <= 1 + noise) return std::nullopt;
  is_stale_reported_ = true;
  return GuardDecision{
      GuardAction::stale_baseline, level_,
      fmt::format("the guard replaces the baseline, {:.4f} s on average: the last {} iterations at full clocks took "
                  "{:.2f} % longer on average, and noise explains {:.2f} % at most",
                  baseline_.mean_s, now.iterations, pct_above(now.mean), noise * 100),
      now.iterations};
}

std::optional<GuardDecision> SlowdownGuard::recover() {
  if (level_ == GuardLevel{false, 0} || change_.settling > 0 || now_s_ - change_.at_s < change_.hold_s)
    return std::nullopt;
  const GuardLevel next{false, level_.is_full_clocks ? last_step() : level_.steps_back - 1};
  if (account_.lost_s + reserve_s(planned_time_s(next)) > allowed_s()) return std::nullopt;
  return change(
      GuardAction::recover, next,
      fmt::format(
          "the guard tries the plan of {:.4f} s again: it has changed nothing for {}, {}, and it may be {} later",
          planned_time_s(next), duration_text(now_s_ - change_.at_s),
          lateness_text(account_.lost_s, options_.limit_pct), duration_text(allowed_s())));
}

GuardDecision SlowdownGuard::change(GuardAction action, GuardLevel level, std::string reason) {
  if (action != GuardAction::recover && change_.at_s < now_s_) {
    change_.hold_s = std::min(change_.hold_s * 2, options_.hold_s * kMostHolds);
  }
  change_.in_flight_time_s = std::max(change_.settling > 0 ? change_.in_flight_time_s : 0, planned_time_s(level_));
  level_ = level;
  change_.at_s = now_s_;
  change_.settling = options_.reaction_iterations;
  ratios_.clear();
  return {.action = action, .level = level_, .reason = std::move(reason)};
}

}  // namespace lowgear::server
