#include "protocol/rank_plan.h"

#include <algorithm>
#include <array>

#include "base/core/formats/json.h"
#include "planning/plan/plan_json.h"
#include "protocol/json_members.h"

namespace lowgear::protocol {
namespace {

constexpr auto kPurposes = std::to_array<std::string_view>({"baseline", "profile", "train", "full_clocks"});
constexpr std::int64_t kMaxIterationNumber = std::int64_t{1} << 52;
constexpr int kMaxCountedIterations = 1 << 30;
constexpr int kMaxSettleIterations = 1'000'000;
constexpr double kMaxSettleS = 3'600;

PlanPurpose read_purpose(const JsonView& value) {
  const auto found = std::ranges::find(kPurposes, value.text());
  return found == kPurposes.end() ? PlanPurpose::train : static_cast<PlanPurpose>(found - kPurposes.begin());
}

std::int64_t read_iteration_number(const JsonView& value) {
  const long long iteration = value.integer();
  if (iteration < 0 || iteration > kMaxIterationNumber) value.fail("is not an iteration number");
  return iteration;
}

}  // namespace

std::string_view name(PlanPurpose purpose) { return kPurposes[static_cast<std::size_t>(purpose)]; }

bool is_plan_purpose(std::string_view text) { return std::ranges::find(kPurposes, text) != kPurposes.end(); }

Json to_json(const PlanHead& head) {
  return {
      {"version", head.version},
      {"purpose", name(head.purpose)},
      {"from_iteration", head.from_iteration},
      // Always 0 in plans for profiles: earlier clients read it of every plan, and earlier servers of every stored one.
      {"iterations", head.iterations},
      {"settle_iterations", head.settle_iterations},
      {"trials", to_json(head.trials)},
      {"settle_s", head.settle_s},
      {"sweep", head.sweep > 0 ? Json(head.sweep) : Json(nullptr)},
      {"reason", head.reason},
      {"time_s", head.time_s > 0 ? Json(head.time_s) : Json(nullptr)},
      {"energy_j", head.energy_j > 0 ? Json(head.energy_j) : Json(nullptr)}};
}

PlanHead read_plan_head(const JsonView& document) {
  PlanHead head;
  head.version = document.at("version").integer_in(1, INT32_MAX);
  head.purpose = read_purpose(document.at("purpose"));
  head.from_iteration = read_iteration_number(document.at("from_iteration"));
  if (has_value(document, "reason")) head.reason = document.at("reason").text();
  if (has_value(document, "iterations")) {
    head.iterations = document.at("iterations").integer_in(0, kMaxCountedIterations);
  }
  if (has_value(document, "settle_iterations")) {
    head.settle_iterations = document.at("settle_iterations").integer_in(0, kMaxSettleIterations);
  }
  if (has_value(document, "trials")) head.trials = plan::read_clock_trials(document.at("trials"));
  if (has_value(document, "settle_s")) head.settle_s = number_in(document.at("settle_s"), 0, kMaxSettleS);
  if (has_value(document, "sweep")) head.sweep = document.at("sweep").integer_in(1, INT32_MAX);
  if (has_value(document, "time_s")) head.time_s = document.at("time_s").number();
  if (has_value(document, "energy_j")) head.energy_j = document.at("energy_j").number();
  return head;
}

std::string write_rank_plan(const RankPlan& plan) {
  return with_member(to_json(static_cast<const PlanHead&>(plan)), "plan", plan.plan_json);
}

RankPlan read_rank_plan(std::string_view text, const std::string& source) {
  const Json json = parse_json(text, source);
  const JsonView view(json, source);
  RankPlan plan{read_plan_head(view), json_text(view.at("plan").json())};
  if (plan.purpose == PlanPurpose::profile) {
    for (const char* member : {"sweep", "trials", "settle_iterations", "settle_s"}) {
      if (!has_value(view, member)) view.at(member).fail("is missing in a plan with trials");
    }
  }
  if (plan::read_plan(plan.plan_json, source + ": plan").ranks.empty()) view.at("plan").fail("has no rank");
  return plan;
}

}  // namespace lowgear::protocol
