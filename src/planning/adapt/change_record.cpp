#include "planning/adapt/change_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/core/error.h"

namespace lowgear::adapt {
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

Json options_json(const ChangeOptions& options) {
  Json json = {{"points", options.points}, {"search", search_json(options.search)}};
  if (options.freezing) {
    json["freezing"] = {{"blocks", options.freezing->blocks},
                        {"options", freezing::options_json(options.freezing->options)}};
    if (!options.freezing->tried) json["freezing"]["tried"] = false;
  }
  return json;
}

ChangeOptions options_of(const JsonView& map) {
  ChangeOptions options;
  const JsonView points = map.at("points");
  for (std::size_t i = 0; i < points.size(); ++i) options.points.push_back(points.at(i).text());
  options.search = search_of(map.at("search"));
  if (map.has("freezing")) {
    const JsonView freezing = map.at("freezing");
    options.freezing = FreezingChange{.blocks = freezing.at("blocks").integer_in(1, kMaxCount),
                                      .options = freezing::options_of(freezing.at("options")),
                                      .tried = !freezing.has("tried") || freezing.at("tried").boolean()};
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

ChangeDecision decision_of(const JsonView& map, std::int64_t steps_done) {
  constexpr std::array kKinds = {ChangeKind::freezing, ChangeKind::slowdown};
  constexpr std::array kActions = {ChangeAction::attempt, ChangeAction::drop, ChangeAction::adopt, ChangeAction::reject,
                                   ChangeAction::cut_off, ChangeAction::undo, ChangeAction::wait};
  return {.steps_done = steps_done,
          .kind = named(map.at("technique"), kKinds),
          .action = named(map.at("change"), kActions),
          .configuration = configuration_of(map),
          .reason = map.at("reason").text()};
}

ChangeStep step_of(const JsonView& root) {
  const JsonView iteration = root.at("iteration");
  ChangeStep step;
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

Json decision_json(const ChangeDecision& decision) {
  Json json = configuration_json(decision.configuration);
  json["technique"] = name(decision.kind);
  json["change"] = name(decision.action);
  json["reason"] = decision.reason;
  return json;
}

Json change_state_json(const ChangeState& state) {
  Json json = configuration_json(state.good);
  json["search_due"] = state.search_due;
  if (state.freezing) json["freezing"] = freezing::state_json(*state.freezing);
  return json;
}

ChangeState change_state_of(const JsonView& map) {
  ChangeState state{
      .good = configuration_of(map), .search_due = map.at("search_due").boolean(), .freezing = std::nullopt};
  if (map.has("freezing")) state.freezing = freezing::state_of(map.at("freezing"));
  return state;
}

std::string write_change_header(const ChangeOptions& options, const ChangeState& start, std::int64_t steps_done) {
  return Json({{"step", steps_done - 1},
               {"format", kFormat},
               {"options", options_json(options)},
               {"state", change_state_json(start)}})
      .dump();
}

std::string write_change_line(const ChangeStep& step) {
  const IterationSeen& seen = step.iteration;
  Json json = {{"step", seen.steps_done - 1},
               {"iteration",
                {{"time_s", number_or_null(seen.time_s)},
                 {"energy_j", number_or_null(seen.energy_j)},
                 {"counted", seen.counted},
                 {"switched", seen.switched}}}};
  if (step.window) json["window"] = freezing::observation_json(*step.window);
  for (const ChangeDecision& decision : step.decisions) json["decisions"].push_back(decision_json(decision));
  return json.dump();
}

std::vector<ChangeRecord> read_change_records(std::string_view text, const std::string& source) {
  std::vector<ChangeRecord> records;
  for_each_json_line(text, source, [&records](const JsonView& root) {
    if (root.has("format")) {
      require_format(root, kFormat);
      records.push_back({options_of(root.at("options")), change_state_of(root.at("state")), {}});
      return;
    }
    if (records.empty()) root.fail("the first line is not a header");
    records.back().steps.push_back(step_of(root));
  });
  return records;
}

std::vector<std::vector<ChangeDecision>> replay(const ChangeRecord& record) {
  ChangeController controller(record.options, record.start);
  std::vector<std::vector<ChangeDecision>> decisions;
  for (const ChangeStep& step : record.steps) {
    std::vector<ChangeDecision>& after = decisions.emplace_back();
    if (step.window) after = controller.observe(*step.window);
    for (ChangeDecision& decision : controller.observe(step.iteration)) after.push_back(std::move(decision));
  }
  return decisions;
}

}  // namespace lowgear::adapt
