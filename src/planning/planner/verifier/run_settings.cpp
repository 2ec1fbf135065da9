#include "planning/planner/verifier/run_settings.h"

#include <fmt/format.h>

#include <limits>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/units.h"
#include "planning/profile/options.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/microbatches.h"

namespace lowgear::planner::verifier {
namespace {

/// Whether the text is the second of two choices.
bool is_second(const JsonView& value, std::string_view first, std::string_view second) {
  const std::string text = value.text();
  if (text != first && text != second) value.fail(fmt::format("expected {} or {}", quote(first), quote(second)));
  return text == second;
}

}  // namespace

RunSettings read_run_settings(std::string_view text, const std::string& source) {
  const Json json = parse_json(text, source);
  const JsonView document(json, source);
  require_format(document, "lowgear.run/1");
  RunSettings run;
  run.policy = document.at("policy").text();
  run.schedule = document.at("schedule").text();
  run.ranks = document.at("stages").integer_in(1, profile::kMaxStages);
  run.microbatches = document.at("microbatches").integer_in(1, schedule::kMaxMicrobatches);
  const JsonView power = document.at("blocking_power_w");
  if (power.size() != static_cast<std::size_t>(run.ranks)) {
    power.fail(fmt::format("{} values for {} stages", power.size(), run.ranks), "it needs one for each");
  }
  for (std::size_t rank = 0; rank < power.size(); ++rank) {
    run.blocking_power_w.push_back(number_in(power.at(rank), 0, profile::kMaxBlockingPowerW));
  }
  run.exact = !is_second(document.at("frontier_method"), "exact", "sandwich");
  if (!run.exact) run.epsilon = number_in(document.at("epsilon"), 0, 1);
  run.per_stage_kind = is_second(document.at("granularity"), "per_op", "per_stage_kind");
  run.switch_latency_s = number_in(document.at("switch_latency_s"), 0, kMaxTimeS);
  if (document.has("asked_deadline_s")) {
    run.asked_deadline_s = number_in(document.at("asked_deadline_s"), 0, std::numeric_limits<double>::max());
  }
  return run;
}

}  // namespace lowgear::planner::verifier
