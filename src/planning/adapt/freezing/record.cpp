#include "planning/adapt/freezing/record.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "base/core/error.h"
#include "base/core/formats/json.h"

namespace lowgear::adapt::freezing {
namespace {

constexpr std::string_view kFormat = "lowgear.freezing/1";
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

Decision decision_of(const JsonView& map, std::int64_t steps_done) {
  constexpr std::array kChanges = {Change::none, Change::freeze, Change::unfreeze, Change::wait};
  const std::string change = map.at("change").text();
  for (const Change known : kChanges) {
    if (change != name(known)) continue;
    return {.steps_done = steps_done,
            .blocks = map.at("blocks").integer_in(0, kMaxCount),
            .change = known,
            .reason = map.at("reason").text()};
  }
  map.at("change").fail(fmt::format("unknown change {}", quote(change)));
}

Record header_of(const JsonView& root) {
  require_format(root, kFormat);
  return {.blocks = root.at("blocks").integer_in(1, kMaxCount),
          .options = options_of(root.at("options")),
          .start = state_of(root.at("state")),
          .steps = {}};
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

std::string write_header(std::int64_t blocks, const Options& options, const State& start, std::int64_t steps_done) {
  return Json({{"step", steps_done - 1},
               {"format", kFormat},
               {"blocks", blocks},
               {"options", options_json(options)},
               {"state", state_json(start)}})
      .dump();
}

std::string write_line(const Step& step) {
  const Observation& seen = step.observation;
  return Json({{"step", seen.steps_done - 1},
               {"observation", observation_json(seen)},
               {"decision",
                {{"blocks", step.decision.blocks},
                 {"change", name(step.decision.change)},
                 {"reason", step.decision.reason}}}})
      .dump();
}

std::vector<Record> read_records(std::string_view text, const std::string& source) {
  std::vector<Record> records;
  for_each_json_line(text, source, [&records](const JsonView& root) {
    if (root.has("format")) {
      records.push_back(header_of(root));
      return;
    }
    if (records.empty()) root.fail("the first line is no header");
    const Observation observation = observation_of(root.at("observation"));
    records.back().steps.push_back({observation, decision_of(root.at("decision"), observation.steps_done)});
  });
  return records;
}

std::vector<Decision> replay(const Record& record) {
  Controller controller(record.blocks, record.options, record.start);
  std::vector<Decision> decisions;
  for (const Step& step : record.steps) decisions.push_back(controller.observe(step.observation));
  return decisions;
}

std::string write_state(const State& state) { return state_json(state).dump(); }

State parse_state(std::string_view text, const std::string& source) {
  const Json document = parse_json(text, source);
  return state_of(JsonView(document, source));
}

}  // namespace lowgear::adapt::freezing
