#include "planning/adapt/change_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/core/error.h"
#include "base/core/numbers/figure_text.h"
#include "planning/adapt/freezing/controller.h"

namespace lowgear::adapt {

namespace {

/// In a row; single ones only repeat a block.
constexpr int kMostMissing = 20;

std::string blocks_text(std::int64_t blocks) {
  return fmt::format("{} frozen block{}", blocks, blocks == 1 ? "" : "s");
}

bool is_amount(double value) { return value > 0 && std::isfinite(value); }

void require_start(const ChangeOptions& options, const Configuration& good) {
  const auto points = static_cast<int>(std::max<std::size_t>(options.points.size(), 1));
  const std::int64_t blocks = options.freezing ? options.freezing->blocks - 1 : 0;
  if (good.point >= 0 && good.point < points && good.frozen_blocks >= 0 && good.frozen_blocks <= blocks) return;
  throw InputError(
      fmt::format("techniques: the state has point {} and {}, and there are {} points and {} blocks to freeze",
                  good.point, blocks_text(good.frozen_blocks), points, blocks));
}

/// Limit of the energy's interval, which lies evenly about the estimate in logarithms; `sign` -1: lower, 1: upper.
double energy_limit_pct(const PointEstimate& estimate, int sign) {
  const double error = std::log1p(estimate.energy_error_pct / 100);
  return 100 * std::expm1(std::log1p(estimate.energy_pct / 100) + sign * error);
}

std::string gain_text(const PointEstimate& estimate) {
  return fmt::format("interval of the energy: {:+.2f} to {:+.2f} %", energy_limit_pct(estimate, -1),
                     energy_limit_pct(estimate, 1));
}

bool excludes_zero_gain(const PointEstimate& estimate) { return energy_limit_pct(estimate, 1) < 0; }

std::string energy_text(double energy_j) {
  if (energy_j < 1e3) return fmt::format("{:.4g} J", energy_j);
  return energy_j < 1e6 ? fmt::format("{:.4g} kJ", energy_j / 1e3) : fmt::format("{:.4g} MJ", energy_j / 1e6);
}

std::string cost_text(const ProbingCost& cost) {
  const auto verb = [](double amount) { return amount < 0 ? "saved " : "cost "; };
  const bool are_alike = (cost.time_s < 0) == (cost.energy_j < 0);
  return fmt::format("; trying {}{} and {}{} in {} iterations", verb(cost.time_s), duration_text(std::abs(cost.time_s)),
                     are_alike ? "" : verb(cost.energy_j), energy_text(std::abs(cost.energy_j)), cost.iterations);
}

}  // namespace

std::string_view name(ChangeKind kind) { return kind == ChangeKind::freezing ? "freezing" : "slowdown"; }

std::string_view name(ChangeAction action) {
  switch (action) {
    case ChangeAction::attempt:
      return "try";
    case ChangeAction::drop:
      return "drop";
    case ChangeAction::adopt:
      return "adopt";
    case ChangeAction::reject:
      return "reject";
    case ChangeAction::cut_off:
      return "cut off";
    case ChangeAction::undo:
      return "undo";
    case ChangeAction::wait:
      return "wait";
  }
  return "";
}

ChangeController::ChangeController(ChangeOptions options, const ChangeState& start)
    : options_(std::move(options)), good_(start.good), search_due_(start.search_due && !options_.points.empty()) {
  if (options_.points.empty() && !options_.freezing) {
    throw InputError("techniques: neither operating points nor freezing is configured");
  }
  (void)OperatingPointSearch(options_.points.empty() ? std::vector<std::string>(2) : options_.points, options_.search);
  require_start(options_, good_);
  if (!options_.freezing) return;
  freezing_.emplace(options_.freezing->blocks, options_.freezing->options, start.freezing.value_or(freezing::State{}));
  if (freezing_->state().blocks != good_.frozen_blocks) {
    throw InputError("techniques: the state states two different numbers of frozen blocks");
  }
}

Configuration ChangeController::current() const {
  Configuration now = good_;
  if (phase_ == Phase::searching) now.point = search_->current();
  if (phase_ == Phase::awaiting_loss || (phase_ == Phase::trying && search_->current() == 1)) ++now.frozen_blocks;
  return now;
}

ChangeState ChangeController::state() const {
  ChangeState state{.good = good_, .search_due = search_due_ || phase_ == Phase::searching, .freezing = {}};
  if (!freezing_) return state;
  freezing::Controller good = *freezing_;
  if (tries_freezing()) (void)good.undo(steps_done_, "");
  state.freezing = good.state();
  return state;
}

ChangeDecision ChangeController::decision(ChangeKind kind, ChangeAction action, std::string reason) const {
  return {steps_done_, kind, action, current(), std::move(reason)};
}

std::vector<ChangeDecision> ChangeController::observe(const IterationSeen& seen) {
  steps_done_ = seen.steps_done;
  if (phase_ == Phase::idle) {
    if (!search_due_) return {};
    return {begin_search()};
  }
  if (!seen.switched) return {cut_off("a rank could not switch to it")};
  if (phase_ == Phase::awaiting_loss) return {};
  if (!is_amount(seen.time_s) || !is_amount(seen.energy_j)) {
    search_->abandon_block();
    if (++missing_ < kMostMissing) return {};
    return {cut_off(fmt::format("{} iterations in a row had no time or energy", missing_))};
  }
  missing_ = 0;
  if (!seen.counted) return {};
  const ChangeKind kind = phase_ == Phase::trying ? ChangeKind::freezing : ChangeKind::slowdown;
  std::vector<ChangeDecision> decisions;
  std::string found;
  for (const SearchDecision& part : search_->observe(seen.time_s, seen.energy_j)) {
    if (part.action == SearchAction::chosen) {
      found = part.reason;
      continue;
    }
    if (part.action == SearchAction::dropped_as_slow) too_slow_[static_cast<std::size_t>(part.point)] = part.reason;
    decisions.push_back(decision(kind, ChangeAction::drop, part.reason));
  }
  if (!search_->is_done()) return decisions;
  decisions.push_back(phase_ == Phase::trying ? end_trial(found) : end_search(found));
  return decisions;
}

std::vector<ChangeDecision> ChangeController::observe(const freezing::Observation& window) {
  if (!freezing_) throw InputError("techniques: nothing is frozen");
  steps_done_ = window.steps_done;
  freezing::Observation seen = window;
  seen.hold = phase_ != Phase::idle || search_due_;
  const freezing::Decision decided = freezing_->observe(seen);
  if (decided.change == freezing::Change::unfreeze) return unfreeze(decided);
  if (decided.change == freezing::Change::freeze) {
    return {options_.freezing->tried ? begin_trial(decided.reason) : adopt_freezing(decided.reason)};
  }
  if (tries_freezing() && !std::isfinite(seen.held_out_loss)) return {cut_off("there is no held-out loss")};
  if (phase_ == Phase::awaiting_loss && passes_loss_test(seen.held_out_loss)) {
    return {adopt_freezing(fmt::format("the held-out loss of {:.5f} is within the margin of {:.3g} % of the least",
                                       seen.held_out_loss, 100 * options_.freezing->options.loss_margin))};
  }
  if (decided.change != freezing::Change::wait || waits_ || tries_freezing()) return {};
  waits_ = true;
  return {decision(ChangeKind::freezing, ChangeAction::wait, decided.reason)};
}

/// As freezing::Controller judges a window.
bool ChangeController::passes_loss_test(double held_out_loss) const {
  const std::optional<double>& least = freezing_->state().least_loss;
  return least && held_out_loss <= *least * (1 + options_.freezing->options.loss_margin);
}

ChangeDecision ChangeController::begin_search() {
  search_due_ = false;
  phase_ = Phase::searching;
  missing_ = 0;
  search_.emplace(options_.points, options_.search);
  too_slow_.assign(options_.points.size(), {});
  const std::string with = freezing_ ? fmt::format(" with {}", blocks_text(good_.frozen_blocks)) : "";
  return decision(ChangeKind::slowdown, ChangeAction::attempt,
                  fmt::format("{} operating points{}", options_.points.size(), with));
}

/// freezing::Controller has frozen the block already; all else has not.
ChangeDecision ChangeController::begin_trial(const std::string& reason) {
  phase_ = Phase::trying;
  missing_ = 0;
  SearchOptions options = options_.search;
  options.allowed_slowdown_pct = 0;
  search_.emplace(std::vector{blocks_text(good_.frozen_blocks), blocks_text(good_.frozen_blocks + 1)}, options);
  too_slow_.assign(2, {});
  return decision(ChangeKind::freezing, ChangeAction::attempt, reason);
}

ChangeDecision ChangeController::end_search(const std::string& found) {
  const int chosen = search_->current();
  const PointEstimate estimate = search_->estimate(chosen);
  const std::string cost = cost_text(search_->cost());
  phase_ = Phase::idle;
  waits_ = false;
  if (chosen != 0 && excludes_zero_gain(estimate)) {
    good_.point = chosen;
    return decision(ChangeKind::slowdown, ChangeAction::adopt,
                    fmt::format("{} ({}){}", found, gain_text(estimate), cost));
  }
  if (!too_slow_[static_cast<std::size_t>(good_.point)].empty()) good_.point = 0;
  return decision(ChangeKind::slowdown, ChangeAction::reject, why_none(found) + cost);
}

/// Of the points that are too slow it names the fastest.
std::string ChangeController::why_none(const std::string& found) const {
  const auto is_slow = [](const std::string& why) { return !why.empty(); };
  const auto fastest = std::ranges::find_if(too_slow_, is_slow);
  if (fastest == too_slow_.end()) return fmt::format("no point is shown to save energy; {}", found);
  const bool are_all = std::ranges::count_if(too_slow_, is_slow) + 1 == std::ssize(too_slow_);
  if (are_all) return fmt::format("every other point is too slow: {}", *fastest);
  return fmt::format("no point that is fast enough is shown to save energy; {}; {}", *fastest, found);
}

ChangeDecision ChangeController::end_trial(const std::string& found) {
  const PointEstimate estimate = search_->estimate(1);
  const std::string text = fmt::format("{} ({}){}", found, gain_text(estimate), cost_text(search_->cost()));
  if (search_->current() != 1 || !excludes_zero_gain(estimate)) {
    return reject_freezing(ChangeAction::reject, "no gain is shown: " + text);
  }
  phase_ = Phase::awaiting_loss;
  return decision(ChangeKind::freezing, ChangeAction::attempt, text + "; next is the loss test");
}

ChangeDecision ChangeController::adopt_freezing(const std::string& reason) {
  ++good_.frozen_blocks;
  phase_ = Phase::idle;
  if (options_.freezing->tried) freezing_->confirm();
  work_has_changed();
  return decision(ChangeKind::freezing, ChangeAction::adopt, reason);
}

ChangeDecision ChangeController::reject_freezing(ChangeAction action, const std::string& reason) {
  phase_ = Phase::idle;
  waits_ = false;
  (void)freezing_->undo(steps_done_, reason);
  return decision(ChangeKind::freezing, action, reason);
}

ChangeDecision ChangeController::cut_off(const std::string& reason) {
  if (tries_freezing()) return reject_freezing(ChangeAction::cut_off, reason);
  phase_ = Phase::idle;
  waits_ = false;
  return decision(ChangeKind::slowdown, ChangeAction::cut_off, reason);
}

std::vector<ChangeDecision> ChangeController::unfreeze(const freezing::Decision& decided) {
  if (tries_freezing()) {
    phase_ = Phase::idle;
    waits_ = false;
    return {decision(ChangeKind::freezing, ChangeAction::cut_off, decided.reason)};
  }
  std::vector<ChangeDecision> decisions;
  const bool searching = phase_ == Phase::searching;
  good_.frozen_blocks = decided.blocks;
  if (searching) decisions.push_back(cut_off("a block is unfrozen"));
  work_has_changed();
  decisions.push_back(decision(ChangeKind::freezing, ChangeAction::undo, decided.reason));
  return decisions;
}

void ChangeController::work_has_changed() {
  search_due_ = !options_.points.empty();
  waits_ = false;
}

}  // namespace lowgear::adapt
