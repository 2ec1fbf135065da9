#include "control/server/parts/plan_version.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/core/error.h"
#include "control/server/planning/json_members.h"
#include "planning/plan/plan_json.h"

namespace lowgear {
namespace {

constexpr auto kPurposes = std::to_array<std::string_view>({"baseline", "profile", "train"});
constexpr const char* kFormat = "lowgear.plan_version/1";

PlanPurpose read_purpose(const JsonView& value) {
  const std::string text = value.text();
  for (std::size_t i = 0; i < kPurposes.size(); ++i) {
    if (kPurposes[i] == text) return static_cast<PlanPurpose>(i);
  }
  value.fail("is not a purpose of a plan");
}

/// The members that versions and rank's plans share. `iterations` is one of plans for profiles, too, where it is always
/// 0: earlier clients read it of every plan, and earlier servers of every stored one.
Json head(const PlanVersion& version) {
  return {{"version", version.version},
          {"purpose", name(version.purpose)},
          {"from_iteration", version.from_iteration},
          {"iterations", version.iterations},
          {"settle_iterations", version.settle_iterations},
          {"trials", to_json(version.trials)},
          {"settle_s", version.settle_s},
          {"sweep", version.sweep > 0 ? Json(version.sweep) : Json(nullptr)},
          {"reason", version.reason},
          {"time_s", version.time_s > 0 ? Json(version.time_s) : Json(nullptr)},
          {"energy_j", version.energy_j > 0 ? Json(version.energy_j) : Json(nullptr)}};
}

/// The plan as one rank of it sees it: as its first.
Plan plan_of_rank(const Plan& plan, int pp_rank) {
  Plan own = plan;
  own.ranks = {plan.ranks.at(static_cast<std::size_t>(pp_rank))};
  own.switches = count_switches(own.ranks);
  return own;
}

/// `object` with one more member, whose text needs no parsing: plans have thousands of values.
std::string with_member(const Json& object, std::string_view name, std::string_view json) {
  std::string text = object.dump();
  text.pop_back();
  text += fmt::format(R"(,"{}":)", name);
  text += json;
  text += '}';
  return text;
}

double positive_or_zero(const JsonView& value) { return value.json().is_null() ? 0 : value.number(); }

}  // namespace

std::string_view name(PlanPurpose purpose) { return kPurposes[static_cast<std::size_t>(purpose)]; }

std::optional<int> PlanVersion::trial_mhz(std::int64_t iteration) const {
  for (const ClockTrial& trial : trials) {
    if (iteration >= trial.first_iteration && iteration < trial.end_iteration()) return trial.clock_mhz;
  }
  return std::nullopt;
}

std::string write_plan_version(const PlanVersion& version) {
  Json document = head(version);
  document["format"] = kFormat;
  document["expected_compute_s"] = version.expected_compute_s;
  document["plan_of_replica"] = version.plan_of_replica;
  std::string plans = "[";
  for (const Plan& plan : version.plans) {
    if (plans.size() > 1) plans += ',';
    plans += write_plan(plan);
  }
  return with_member(document, "plans", plans + ']');
}

PlanVersion read_plan_version(std::string_view text) {
  const Json document = parse_json(text, "plan version");
  const JsonView view(document, "plan version");
  require_format(view, kFormat);
  PlanVersion version;
  version.version = view.at("version").integer_in(1, 1 << 30);
  version.purpose = read_purpose(view.at("purpose"));
  version.from_iteration = view.at("from_iteration").integer();
  version.iterations = view.at("iterations").integer_in(0, 1 << 30);
  version.settle_iterations = view.at("settle_iterations").integer_in(0, 1 << 30);
  if (has_value(view, "trials")) version.trials = read_clock_trials(view.at("trials"));
  if (has_value(view, "settle_s")) version.settle_s = view.at("settle_s").number();
  if (has_value(view, "sweep")) version.sweep = view.at("sweep").integer_in(1, 1 << 30);
  version.reason = view.at("reason").text();
  version.time_s = positive_or_zero(view.at("time_s"));
  version.energy_j = positive_or_zero(view.at("energy_j"));
  const JsonView plans = view.at("plans");
  for (std::size_t i = 0; i < plans.size(); ++i) {
    version.plans.push_back(read_plan(plans.at(i).json().dump(), "plan version"));
  }
  const JsonView expected = view.at("expected_compute_s");
  for (std::size_t plan = 0; plan < expected.size(); ++plan) {
    std::vector<double>& by_rank = version.expected_compute_s.emplace_back();
    for (std::size_t r = 0; r < expected.at(plan).size(); ++r) by_rank.push_back(expected.at(plan).at(r).number());
  }
  const JsonView replicas = view.at("plan_of_replica");
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    version.plan_of_replica.push_back(replicas.at(i).integer_in(0, static_cast<int>(plans.size()) - 1));
  }
  return version;
}

std::shared_ptr<const std::string> RankPlanTexts::text(int dp_rank, int pp_rank, std::int64_t from_iteration) {
  const Key key{version_->plan_of_replica.at(static_cast<std::size_t>(dp_rank)), pp_rank, from_iteration};
  auto& text = texts_[key];
  if (!text) {
    Json document = head(*version_);
    document["from_iteration"] = from_iteration;
    text = std::make_shared<const std::string>(
        with_member(document, "plan", write_plan(plan_of_rank(version_->plan_of(dp_rank), pp_rank))));
  }
  return text;
}

}  // namespace lowgear
