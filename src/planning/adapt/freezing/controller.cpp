#include "planning/adapt/freezing/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"

namespace lowgear::adapt::freezing {

namespace {

/// A learning rate that rises by less is the same.
constexpr double kRise = 1.01;
constexpr int kWindowsOver = 2;
constexpr std::int64_t kMostDoublings = 6;

double relative_change(double now, double before) {
  if (before == 0) return now == 0 ? 0 : 1;
  return std::abs(now - before) / before;
}

/// Whether the first of some values is among the smaller half of them.
bool first_in_lower_half(const std::vector<double>& values) {
  const auto smaller =
      std::count_if(values.begin(), values.end(), [&](double value) { return value < values.front(); });
  return 2 * smaller < static_cast<std::ptrdiff_t>(values.size());
}

void require_options(std::int64_t blocks, const Options& options) {
  if (blocks < 1) throw InputError(fmt::format("freezing: a model of {} blocks", blocks));
  const bool in_range = options.cap >= 0 && options.cap < 1 && options.dwell_windows >= 1 &&
                        options.steady_windows >= 1 && options.steady_drift > 0 && options.loss_margin >= 0 &&
                        std::isfinite(options.steady_drift) && std::isfinite(options.loss_margin);
  if (!in_range) {
    throw InputError(
        "freezing: the cap must be at least 0 and below 1, numbers of windows at least 1, the steady drift above "
        "0, and the loss margin at least 0");
  }
}

}  // namespace

std::string_view name(Change change) {
  switch (change) {
    case Change::none:
      return "none";
    case Change::freeze:
      return "freeze";
    case Change::unfreeze:
      return "unfreeze";
    case Change::wait:
      return "wait";
  }
  return "";
}

Controller::Controller(std::int64_t blocks, const Options& options) : Controller(blocks, options, {}) {}

Controller::Controller(std::int64_t blocks, const Options& options, State state)
    : blocks_(blocks), options_(options), state_(std::move(state)) {
  require_options(blocks, options);
  const std::size_t known = state_.gradients.size();
  const bool whole = known == 0 || known == static_cast<std::size_t>(blocks);
  if (state_.blocks < 0 || state_.blocks >= blocks || !whole || state_.drifts.size() != known ||
      state_.steady.size() != known) {
    throw InputError(fmt::format("freezing: the state is not of a model of {} blocks", blocks));
  }
}

std::int64_t Controller::most_blocks() const {
  return static_cast<std::int64_t>(std::floor(options_.cap * static_cast<double>(blocks_)));
}

std::int64_t Controller::dwell() const {
  return std::int64_t{options_.dwell_windows} << std::min(state_.unfreezings, kMostDoublings);
}

Decision Controller::observe(const Observation& observation) {
  const auto blocks = static_cast<std::size_t>(blocks_);
  if (observation.gradients.size() != blocks || observation.drifts.size() != blocks) {
    throw InputError(fmt::format("freezing: {} gradients and {} drifts of a model of {} blocks",
                                 observation.gradients.size(), observation.drifts.size(), blocks));
  }
  ++state_.windows;
  if (!is_usable(observation)) {
    Decision decision = keep(observation, "a number is missing");
    if (state_.trial && state_.blocks > 0 && state_.windows <= dwell()) {
      decision = unfreeze(observation.steps_done, "a number is missing: back to the last good configuration");
    }
    adopt(decision);
    return decision;
  }
  Decision decision = decide(observation);
  adopt(decision);
  return decision;
}

bool Controller::is_usable(const Observation& observation) const {
  bool usable = std::isfinite(observation.held_out_loss) && std::isfinite(observation.learning_rate);
  for (auto block = static_cast<std::size_t>(state_.blocks); block < observation.gradients.size(); ++block) {
    usable = usable && std::isfinite(observation.gradients[block]) && std::isfinite(observation.drifts[block]);
  }
  return usable;
}

Decision Controller::decide(const Observation& observation) {
  const bool rises =
      !observation.warming_up && state_.learning_rate && observation.learning_rate > kRise * *state_.learning_rate;
  const double loss = observation.held_out_loss;
  const bool over = state_.least_loss && loss > *state_.least_loss * (1 + options_.loss_margin);
  const double predicted = state_.least_loss.value_or(loss);
  state_.windows_over = over ? state_.windows_over + 1 : 0;
  state_.least_loss = std::min(predicted, loss);
  Decision decision;
  if (state_.blocks > 0 && rises) {
    decision = unfreeze(observation.steps_done, fmt::format("the learning rate rises from {:.4g} to {:.4g}",
                                                            *state_.learning_rate, observation.learning_rate));
  } else if (state_.blocks > 0 && state_.windows_over >= kWindowsOver) {
    decision = unfreeze(observation.steps_done,
                        fmt::format("the held-out loss of {:.5f} exceeds its prediction of {:.5f} by more "
                                    "than {:.3g} % in {} windows in a row",
                                    loss, predicted, 100 * options_.loss_margin, state_.windows_over));
  } else {
    decision = decide_freezing(observation);
  }
  remember(observation);
  return decision;
}

/// By the windows before and this one.
Decision Controller::decide_freezing(const Observation& observation) const {
  const std::int64_t next = state_.blocks;
  if (observation.warming_up) return keep(observation, "warm-up");
  if (state_.windows < dwell()) {
    return keep(observation, fmt::format("{} of {} windows since the last change", state_.windows, dwell()));
  }
  if (next + 1 > most_blocks()) {
    return keep(observation, fmt::format("the cap of {} frozen blocks is reached", most_blocks()));
  }
  if (state_.gradients.empty()) return keep(observation, "the first window");
  std::vector<double> changes;
  std::vector<double> drifts;
  for (auto block = static_cast<std::size_t>(next); block < observation.gradients.size(); ++block) {
    // A block that was frozen in the window before has no number of it.
    const double before = state_.gradients[block];
    changes.push_back(std::isfinite(before) ? relative_change(observation.gradients[block], before) : HUGE_VAL);
    drifts.push_back(observation.drifts[block]);
  }
  const auto first = static_cast<std::size_t>(next);
  const bool steady = relative_change(drifts.front(), state_.drifts[first]) < options_.steady_drift;
  const int windows = steady ? state_.steady[first] + 1 : 0;
  const std::string numbers = fmt::format("block {} changed its gradient by {:.3g} and drifts by {:.3g}", next,
                                          changes.front(), drifts.front());
  if (!first_in_lower_half(changes)) return keep(observation, numbers + ": more change than half of the others");
  if (!first_in_lower_half(drifts)) return keep(observation, numbers + ": more drift than half of the others");
  if (windows < options_.steady_windows) {
    return keep(observation, fmt::format("{}, steady for {} of {} windows", numbers, windows, options_.steady_windows));
  }
  if (observation.hold) {
    return {observation.steps_done, next, Change::wait, numbers + ": freezing it waits until another change is over"};
  }
  return {observation.steps_done, next + 1, Change::freeze,
          fmt::format("{}, both in the lower half, steady for {} windows", numbers, windows)};
}

Decision Controller::keep(const Observation& observation, std::string reason) const {
  return {observation.steps_done, state_.blocks, Change::none, std::move(reason)};
}

Decision Controller::unfreeze(std::int64_t steps_done, std::string reason) const {
  return {steps_done, state_.blocks - 1, Change::unfreeze, std::move(reason)};
}

Decision Controller::undo(std::int64_t steps_done, std::string reason) {
  if (state_.blocks == 0) throw InputError("freezing: no block is frozen");
  Decision decision = unfreeze(steps_done, std::move(reason));
  adopt(decision);
  return decision;
}

void Controller::remember(const Observation& observation) {
  std::vector<int> steady(observation.drifts.size(), 0);
  for (std::size_t block = 0; block < steady.size() && !state_.drifts.empty(); ++block) {
    const bool is_steady = relative_change(observation.drifts[block], state_.drifts[block]) < options_.steady_drift;
    if (is_steady) steady[block] = state_.steady[block] + 1;
  }
  state_.steady = std::move(steady);
  state_.gradients = observation.gradients;
  state_.drifts = observation.drifts;
  state_.learning_rate = observation.learning_rate;
}

void Controller::adopt(const Decision& decision) {
  if (decision.change == Change::none || decision.change == Change::wait) return;
  state_.blocks = decision.blocks;
  state_.windows = 0;
  state_.windows_over = 0;
  state_.trial = decision.change == Change::freeze;
  if (decision.change == Change::unfreeze) ++state_.unfreezings;
}

namespace {

constexpr int kMaxCount = 1'000'000'000;

Json numbers_json(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number_or_null(value));
  return list;
}

std::vector<double> numbers_of(const JsonView& list) {
  std::vector<double> values;
  for (std::size_t i = 0; i < list.size(); ++i) values.push_back(number_or_nan(list.at(i)));
  return values;
}

std::optional<double> optional_number(const JsonView& view) {
  return view.json().is_null() ? std::nullopt : std::optional(view.number());
}

}  // namespace

Json options_json(const Options& options) {
  return {{"cap", options.cap},
          {"dwell_windows", options.dwell_windows},
          {"steady_windows", options.steady_windows},
          {"steady_drift", options.steady_drift},
          {"loss_margin", options.loss_margin}};
}

Options options_of(const JsonView& map) {
  return {.cap = map.at("cap").number(),
          .dwell_windows = map.at("dwell_windows").integer_in(1, kMaxCount),
          .steady_windows = map.at("steady_windows").integer_in(1, kMaxCount),
          .steady_drift = map.at("steady_drift").number(),
          .loss_margin = map.at("loss_margin").number()};
}

Json state_json(const State& state) {
  return {{"blocks", state.blocks},
          {"windows", state.windows},
          {"unfreezings", state.unfreezings},
          {"trial", state.trial},
          {"windows_over", state.windows_over},
          {"least_loss", or_null(state.least_loss)},
          {"learning_rate", or_null(state.learning_rate)},
          {"gradients", numbers_json(state.gradients)},
          {"drifts", numbers_json(state.drifts)},
          {"steady", state.steady}};
}

State state_of(const JsonView& map) {
  State state;
  state.blocks = map.at("blocks").integer_in(0, kMaxCount);
  state.windows = map.at("windows").integer_in(0, kMaxCount);
  state.unfreezings = map.at("unfreezings").integer_in(0, kMaxCount);
  state.trial = map.at("trial").boolean();
  state.windows_over = map.at("windows_over").integer_in(0, kMaxCount);
  state.least_loss = optional_number(map.at("least_loss"));
  state.learning_rate = optional_number(map.at("learning_rate"));
  state.gradients = numbers_of(map.at("gradients"));
  state.drifts = numbers_of(map.at("drifts"));
  const JsonView steady = map.at("steady");
  for (std::size_t i = 0; i < steady.size(); ++i) state.steady.push_back(steady.at(i).integer_in(0, kMaxCount));
  return state;
}

Json observation_json(const Observation& seen) {
  Json json = {{"steps_done", seen.steps_done},
               {"warming_up", seen.warming_up},
               {"learning_rate", number_or_null(seen.learning_rate)},
               {"held_out_loss", number_or_null(seen.held_out_loss)},
               {"gradients", numbers_json(seen.gradients)},
               {"drifts", numbers_json(seen.drifts)}};
  if (seen.hold) json["hold"] = true;
  return json;
}

Observation observation_of(const JsonView& map) {
  return {.steps_done = map.at("steps_done").integer_in(0, kMaxCount),
          .warming_up = map.at("warming_up").boolean(),
          .learning_rate = number_or_nan(map.at("learning_rate")),
          .held_out_loss = number_or_nan(map.at("held_out_loss")),
          .hold = map.has("hold") && map.at("hold").boolean(),
          .gradients = numbers_of(map.at("gradients")),
          .drifts = numbers_of(map.at("drifts"))};
}

}  // namespace lowgear::adapt::freezing
