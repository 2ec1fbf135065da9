#include "planning/adapt/techniques/technique_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "planning/adapt/freezing/controller.h"

namespace lowgear::adapt {

namespace {

/// In a row; single ones only repeat a block.
constexpr int kMostMissing = 20;

std::string blocks_text(std::int64_t blocks) {
  return fmt::format("{} frozen block{}", blocks, blocks == 1 ? "" : "s");
}

bool is_amount(double value) { return value > 0 && std::isfinite(value); }

void require_start(const TechniqueOptions& options, const Configuration& good) {
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

std::string cost_text(const ProbingCost& cost) {
  return fmt::format("; trying cost {:+.3g} s and {:+.4g} J in {} iterations", cost.time_s, cost.energy_j,
                     cost.iterations);
}

}  // namespace

std::string_view name(Technique technique) { return technique == Technique::freezing ? "freezing" : "slowdown"; }

std::string_view name(TechniqueChange change) {
  switch (change) {
    case TechniqueChange::attempt:
      return "try";
    case TechniqueChange::drop:
      return "drop";
    case TechniqueChange::adopt:
      return "adopt";
    case TechniqueChange::reject:
      return "reject";
    case TechniqueChange::cut_off:
      return "cut off";
    case TechniqueChange::undo:
      return "undo";
    case TechniqueChange::wait:
      return "wait";
  }
  return "";
}

TechniqueController::TechniqueController(TechniqueOptions options, const TechniqueState& start)
    : options_(std::move(options)), good_(start.good), search_due_(start.search_due && !options_.points.empty()) {
  if (options_.points.empty() && !options_.freezing) throw InputError("techniques: there is none");
  (void)OperatingPointSearch(options_.points.empty() ? std::vector<std::string>(2) : options_.points, options_.search);
  require_start(options_, good_);
  if (!options_.freezing) return;
  freezing_.emplace(options_.freezing->blocks, options_.freezing->options, start.freezing.value_or(freezing::State{}));
  if (freezing_->state().blocks != good_.frozen_blocks) {
    throw InputError("techniques: the state has two numbers of frozen blocks");
  }
}

Configuration TechniqueController::current() const {
  Configuration now = good_;
  if (phase_ == Phase::searching) now.point = search_->current();
  if (phase_ == Phase::awaiting_loss || (phase_ == Phase::trying && search_->current() == 1)) ++now.frozen_blocks;
  return now;
}

TechniqueState TechniqueController::state() const {
  TechniqueState state{.good = good_, .search_due = search_due_ || phase_ == Phase::searching, .freezing = {}};
  if (!freezing_) return state;
  freezing::Controller good = *freezing_;
  if (tries_freezing()) (void)good.undo(steps_done_, "");
  state.freezing = good.state();
  return state;
}

TechniqueDecision TechniqueController::decision(Technique technique, TechniqueChange change, std::string reason) const {
  return {steps_done_, technique, change, current(), std::move(reason)};
}

std::vector<TechniqueDecision> TechniqueController::observe(const IterationSeen& seen) {
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
  const Technique technique = phase_ == Phase::trying ? Technique::freezing : Technique::slowdown;
  std::vector<TechniqueDecision> decisions;
  std::string found;
  for (const SearchDecision& part : search_->observe(seen.time_s, seen.energy_j)) {
    if (part.action == SearchAction::chosen) {
      found = part.reason;
      continue;
    }
    if (part.action == SearchAction::dropped_as_slow) too_slow_[static_cast<std::size_t>(part.point)] = true;
    decisions.push_back(decision(technique, TechniqueChange::drop, part.reason));
  }
  if (!search_->is_done()) return decisions;
  decisions.push_back(phase_ == Phase::trying ? end_trial(found) : end_search(found));
  return decisions;
}

std::vector<TechniqueDecision> TechniqueController::observe(const freezing::Observation& window) {
  if (!freezing_) throw InputError("techniques: nothing is frozen");
  steps_done_ = window.steps_done;
  freezing::Observation seen = window;
  seen.hold = phase_ != Phase::idle || search_due_;
  const freezing::Decision decided = freezing_->observe(seen);
  if (decided.change == freezing::Change::unfreeze) return unfreeze(decided);
  if (decided.change == freezing::Change::freeze) return {begin_trial(decided.reason)};
  if (tries_freezing() && !std::isfinite(seen.held_out_loss)) return {cut_off("there is no held-out loss")};
  if (phase_ == Phase::awaiting_loss && passes_loss_test(seen.held_out_loss)) {
    return {adopt_freezing(fmt::format("the held-out loss of {:.5f} is within the margin of {:.3g} % of the least",
                                       seen.held_out_loss, 100 * options_.freezing->options.loss_margin))};
  }
  if (decided.change != freezing::Change::wait || waits_ || tries_freezing()) return {};
  waits_ = true;
  return {decision(Technique::freezing, TechniqueChange::wait, decided.reason)};
}

/// As freezing::Controller judges a window.
bool TechniqueController::passes_loss_test(double held_out_loss) const {
  const std::optional<double>& least = freezing_->state().least_loss;
  return least && held_out_loss <= *least * (1 + options_.freezing->options.loss_margin);
}

TechniqueDecision TechniqueController::begin_search() {
  search_due_ = false;
  phase_ = Phase::searching;
  missing_ = 0;
  search_.emplace(options_.points, options_.search);
  too_slow_.assign(options_.points.size(), false);
  return decision(Technique::slowdown, TechniqueChange::attempt,
                  fmt::format("{} operating points with {}", options_.points.size(), blocks_text(good_.frozen_blocks)));
}

/// freezing::Controller has frozen the block already; all else has not.
TechniqueDecision TechniqueController::begin_trial(const std::string& reason) {
  phase_ = Phase::trying;
  missing_ = 0;
  SearchOptions options = options_.search;
  options.allowed_slowdown_pct = 0;
  search_.emplace(std::vector{blocks_text(good_.frozen_blocks), blocks_text(good_.frozen_blocks + 1)}, options);
  too_slow_.assign(2, false);
  return decision(Technique::freezing, TechniqueChange::attempt, reason);
}

TechniqueDecision TechniqueController::end_search(const std::string& found) {
  const int chosen = search_->current();
  const PointEstimate estimate = search_->estimate(chosen);
  const std::string cost = cost_text(search_->cost());
  phase_ = Phase::idle;
  waits_ = false;
  if (chosen != 0 && excludes_zero_gain(estimate)) {
    good_.point = chosen;
    return decision(Technique::slowdown, TechniqueChange::adopt,
                    fmt::format("{} ({}){}", found, gain_text(estimate), cost));
  }
  if (too_slow_[static_cast<std::size_t>(good_.point)]) good_.point = 0;
  return decision(Technique::slowdown, TechniqueChange::reject,
                  fmt::format("no point is shown to save energy; {}{}", found, cost));
}

TechniqueDecision TechniqueController::end_trial(const std::string& found) {
  const PointEstimate estimate = search_->estimate(1);
  const std::string text = fmt::format("{} ({}){}", found, gain_text(estimate), cost_text(search_->cost()));
  if (search_->current() != 1 || !excludes_zero_gain(estimate)) {
    return reject_freezing(TechniqueChange::reject, "no gain is shown: " + text);
  }
  phase_ = Phase::awaiting_loss;
  return decision(Technique::freezing, TechniqueChange::attempt, text + "; next is the loss test");
}

TechniqueDecision TechniqueController::adopt_freezing(const std::string& reason) {
  ++good_.frozen_blocks;
  phase_ = Phase::idle;
  freezing_->confirm();
  work_has_changed();
  return decision(Technique::freezing, TechniqueChange::adopt, reason);
}

TechniqueDecision TechniqueController::reject_freezing(TechniqueChange change, const std::string& reason) {
  phase_ = Phase::idle;
  waits_ = false;
  (void)freezing_->undo(steps_done_, reason);
  return decision(Technique::freezing, change, reason);
}

TechniqueDecision TechniqueController::cut_off(const std::string& reason) {
  if (tries_freezing()) return reject_freezing(TechniqueChange::cut_off, reason);
  phase_ = Phase::idle;
  waits_ = false;
  return decision(Technique::slowdown, TechniqueChange::cut_off, reason);
}

std::vector<TechniqueDecision> TechniqueController::unfreeze(const freezing::Decision& decided) {
  if (tries_freezing()) {
    phase_ = Phase::idle;
    waits_ = false;
    return {decision(Technique::freezing, TechniqueChange::cut_off, decided.reason)};
  }
  std::vector<TechniqueDecision> decisions;
  const bool searching = phase_ == Phase::searching;
  good_.frozen_blocks = decided.blocks;
  if (searching) decisions.push_back(cut_off("a block is unfrozen"));
  work_has_changed();
  decisions.push_back(decision(Technique::freezing, TechniqueChange::undo, decided.reason));
  return decisions;
}

void TechniqueController::work_has_changed() {
  search_due_ = !options_.points.empty();
  waits_ = false;
}

namespace {

constexpr std::string_view kFormat = "lowgear.techniques/1";
constexpr int kMaxCount = 1'000'000'000;

Json search_json(const SearchOptions& options) {
  return {{"allowed_slowdown_pct", options.allowed_slowdown_pct},
          {"block_s", options.block_s},
          {"settle_iterations", options.settle_iterations},
          {"confidence", options.confidence},
          {"tolerance", options.tolerance},
          {"max_iterations", options.max_iterations},
          {"slowdown_tolerance_pct", options.slowdown_tolerance_pct}};
}

SearchOptions search_of(const JsonView& map) {
  return {.allowed_slowdown_pct = map.at("allowed_slowdown_pct").number(),
          .block_s = map.at("block_s").number(),
          .settle_iterations = map.at("settle_iterations").integer_in(0, kMaxCount),
          .confidence = map.at("confidence").number(),
          .tolerance = map.at("tolerance").number(),
          .max_iterations = map.at("max_iterations").integer_in(1, kMaxCount),
          .slowdown_tolerance_pct = map.at("slowdown_tolerance_pct").number()};
}

Json options_json(const TechniqueOptions& options) {
  Json json = {{"points", options.points}, {"search", search_json(options.search)}};
  if (options.freezing) {
    json["freezing"] = {{"blocks", options.freezing->blocks},
                        {"options", freezing::options_json(options.freezing->options)}};
  }
  return json;
}

TechniqueOptions options_of(const JsonView& map) {
  TechniqueOptions options;
  const JsonView points = map.at("points");
  for (std::size_t i = 0; i < points.size(); ++i) options.points.push_back(points.at(i).text());
  options.search = search_of(map.at("search"));
  if (map.has("freezing")) {
    const JsonView freezing = map.at("freezing");
    options.freezing = FreezingTechnique{.blocks = freezing.at("blocks").integer_in(1, kMaxCount),
                                         .options = freezing::options_of(freezing.at("options"))};
  }
  return options;
}

Json configuration_json(const Configuration& configuration) {
  return {{"frozen_blocks", configuration.frozen_blocks}, {"point", configuration.point}};
}

Configuration configuration_of(const JsonView& map) {
  return {.frozen_blocks = map.at("frozen_blocks").integer_in(0, kMaxCount),
          .point = map.at("point").integer_in(0, kMaxOperatingPoints - 1)};
}

/// The value whose name the member has.
template <typename Value, std::size_t kCount>
Value named(const JsonView& view, const std::array<Value, kCount>& values) {
  const std::string text = view.text();
  const auto* const found = std::ranges::find_if(values, [&](Value value) { return text == name(value); });
  if (found == values.end()) view.fail(fmt::format("{} is unknown", quote(text)));
  return *found;
}

TechniqueDecision decision_of(const JsonView& map, std::int64_t steps_done) {
  constexpr std::array kTechniques = {Technique::freezing, Technique::slowdown};
  constexpr std::array kChanges = {TechniqueChange::attempt, TechniqueChange::drop,    TechniqueChange::adopt,
                                   TechniqueChange::reject,  TechniqueChange::cut_off, TechniqueChange::undo,
                                   TechniqueChange::wait};
  return {.steps_done = steps_done,
          .technique = named(map.at("technique"), kTechniques),
          .change = named(map.at("change"), kChanges),
          .configuration = configuration_of(map),
          .reason = map.at("reason").text()};
}

TechniqueStep step_of(const JsonView& root) {
  const JsonView iteration = root.at("iteration");
  TechniqueStep step;
  step.iteration = {.steps_done = root.at("step").integer_in(0, kMaxCount) + 1,
                    .time_s = number_or_nan(iteration.at("time_s")),
                    .energy_j = number_or_nan(iteration.at("energy_j")),
                    .counted = iteration.at("counted").boolean(),
                    .switched = iteration.at("switched").boolean()};
  if (root.has("window")) step.window = freezing::observation_of(root.at("window"));
  if (!root.has("decisions")) return step;
  const JsonView decisions = root.at("decisions");
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    step.decisions.push_back(decision_of(decisions.at(i), step.iteration.steps_done));
  }
  return step;
}

}  // namespace

Json decision_json(const TechniqueDecision& decision) {
  Json json = configuration_json(decision.configuration);
  json["technique"] = name(decision.technique);
  json["change"] = name(decision.change);
  json["reason"] = decision.reason;
  return json;
}

Json technique_state_json(const TechniqueState& state) {
  Json json = configuration_json(state.good);
  json["search_due"] = state.search_due;
  if (state.freezing) json["freezing"] = freezing::state_json(*state.freezing);
  return json;
}

TechniqueState technique_state_of(const JsonView& map) {
  TechniqueState state{
      .good = configuration_of(map), .search_due = map.at("search_due").boolean(), .freezing = std::nullopt};
  if (map.has("freezing")) state.freezing = freezing::state_of(map.at("freezing"));
  return state;
}

std::string write_technique_header(const TechniqueOptions& options, const TechniqueState& start,
                                   std::int64_t steps_done) {
  return Json({{"step", steps_done - 1},
               {"format", kFormat},
               {"options", options_json(options)},
               {"state", technique_state_json(start)}})
      .dump();
}

std::string write_technique_line(const TechniqueStep& step) {
  const IterationSeen& seen = step.iteration;
  Json json = {{"step", seen.steps_done - 1},
               {"iteration",
                {{"time_s", number_or_null(seen.time_s)},
                 {"energy_j", number_or_null(seen.energy_j)},
                 {"counted", seen.counted},
                 {"switched", seen.switched}}}};
  if (step.window) json["window"] = freezing::observation_json(*step.window);
  for (const TechniqueDecision& decision : step.decisions) json["decisions"].push_back(decision_json(decision));
  return json.dump();
}

std::vector<TechniqueRecord> read_technique_records(std::string_view text, const std::string& source) {
  std::vector<TechniqueRecord> records;
  for_each_json_line(text, source, [&records](const JsonView& root) {
    if (root.has("format")) {
      require_format(root, kFormat);
      records.push_back({options_of(root.at("options")), technique_state_of(root.at("state")), {}});
      return;
    }
    if (records.empty()) root.fail("the first line is no header");
    records.back().steps.push_back(step_of(root));
  });
  return records;
}

std::vector<std::vector<TechniqueDecision>> replay(const TechniqueRecord& record) {
  TechniqueController controller(record.options, record.start);
  std::vector<std::vector<TechniqueDecision>> decisions;
  for (const TechniqueStep& step : record.steps) {
    std::vector<TechniqueDecision>& after = decisions.emplace_back();
    if (step.window) after = controller.observe(*step.window);
    for (TechniqueDecision& decision : controller.observe(step.iteration)) after.push_back(std::move(decision));
  }
  return decisions;
}

}  // namespace lowgear::adapt
