#include "planning/workflow/run_file.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <optional>

#include "base/core/formats/json.h"
#include "base/core/units.h"
#include "planning/profile/options.h"

namespace lowgear::workflow {
namespace {

constexpr std::string_view kFormat = "lowgear.run/1";
constexpr auto kMethods = std::to_array({planner::FrontierMethod::exact, planner::FrontierMethod::sandwich});
constexpr auto kGranularities =
    std::to_array({planner::PlanGranularity::per_op, planner::PlanGranularity::per_stage_kind});

Json to_json(const ComparisonRow& policy) {
  Json json = {{"policy", policy.label()},
               {"time_s", policy.time_s},
               {"energy_j", policy.energy_j},
               {"switches", policy.switches},
               {"note", policy.note}};
  if (policy.lower_bound_j) json["lower_bound_j"] = *policy.lower_bound_j;
  if (policy.plan_time_s) json["plan_time_s"] = *policy.plan_time_s;
  if (policy.own_order) json["own_order"] = true;
  if (policy.peak_activations) json["peak_activations"] = *policy.peak_activations;
  return json;
}

std::optional<double> optional_number(const JsonView& view, std::string_view key) {
  return view.has(key) ? std::optional(view.at(key).number()) : std::nullopt;
}

ComparisonRow read_policy(const JsonView& view) {
  std::optional<int> peak_activations;
  if (view.has("peak_activations")) {
    peak_activations = view.at("peak_activations").integer_in(0, std::numeric_limits<int>::max());
  }
  return {.policy = view.at("policy").text(),
          .time_s = view.at("time_s").number(),
          .energy_j = view.at("energy_j").number(),
          .lower_bound_j = optional_number(view, "lower_bound_j"),
          .switches = view.at("switches").integer_in(0, std::numeric_limits<int>::max()),
          .plan_time_s = optional_number(view, "plan_time_s"),
          .note = view.at("note").text(),
          .own_order = view.has("own_order") && view.at("own_order").boolean(),
          .peak_activations = peak_activations};
}

/// The one of `values` that is named so.
template <typename Values>
auto one_of(const JsonView& view, const Values& values) {
  const std::string text = view.text();
  for (const auto value : values) {
    if (name(value) == text) return value;
  }
  view.fail(fmt::format("expected {} or {}", name(values.front()), name(values.back())));
}

template <typename Item, typename Read>
std::vector<Item> read_array(const JsonView& view, Read read) {
  std::vector<Item> items;
  for (std::size_t i = 0; i < view.size(); ++i) items.push_back(read(view.at(i)));
  return items;
}

Json to_json(const JointRun& joint) {
  Json orders = Json::array();
  for (const JointOrder& order : joint.orders) {
    orders.push_back({{"name", order.name},
                      {"stages_per_rank", order.stages_per_rank},
                      {"peak_activations", order.peak_activations}});
  }
  Json json = {{"memory_limit", joint.memory_limit},
               {"reference", joint.reference},
               {"baseline", {{"time_s", joint.baseline.time_s}, {"energy_j", joint.baseline.energy_j}}},
               {"orders", orders}};
  if (joint.partition) json["partition"] = workflow::to_json(*joint.partition);
  return json;
}

PartitionRun read_partition(const JsonView& view, int ranks) {
  const auto layers = [ranks](const JsonView& of) {
    std::vector<int> counts =
        read_array<int>(of, [](const JsonView& count) { return count.integer_in(1, profile::kMaxStages); });
    if (counts.size() != static_cast<std::size_t>(ranks)) {
      of.fail(fmt::format("expected the layers of each of {} ranks", ranks));
    }
    return counts;
  };
  PartitionRun partition{.given = layers(view.at("given")),
                         .chosen = layers(view.at("chosen")),
                         .tried = view.at("tried").integer_in(1, std::numeric_limits<int>::max()),
                         .deadline_s = number_in(view.at("deadline_s"), 0, kMaxTimeS)};
  if (view.has("given_plan")) {
    const JsonView plan = view.at("given_plan");
    partition.given_plan = {plan.at("time_s").number(), plan.at("energy_j").number()};
  }
  return partition;
}

JointRun read_joint(const JsonView& view, int ranks) {
  constexpr int kMost = std::numeric_limits<int>::max();
  JointRun joint;
  joint.memory_limit = view.at("memory_limit").text();
  joint.reference = view.at("reference").text();
  joint.baseline = {view.at("baseline").at("time_s").number(), view.at("baseline").at("energy_j").number()};
  joint.orders = read_array<JointOrder>(view.at("orders"), [&](const JsonView& order) {
    JointOrder read;
    read.name = order.at("name").text();
    read.stages_per_rank = order.at("stages_per_rank").integer_in(1, profile::kMaxStages);
    read.peak_activations =
        read_array<int>(order.at("peak_activations"), [](const JsonView& peak) { return peak.integer_in(0, kMost); });
    if (read.peak_activations.size() != static_cast<std::size_t>(ranks)) {
      order.at("peak_activations").fail(fmt::format("expected one number for each of {} ranks", ranks));
    }
    return read;
  });
  if (view.has("partition")) joint.partition = read_partition(view.at("partition"), ranks);
  if (joint.orders.empty()) view.at("orders").fail("expected at least one order");
  return joint;
}

}  // namespace

std::string_view name(planner::PlanGranularity granularity) {
  return granularity == planner::PlanGranularity::per_op ? "per_op" : "per_stage_kind";
}

Json to_json(const PartitionRun& partition) {
  Json json = {{"given", partition.given},
               {"chosen", partition.chosen},
               {"tried", partition.tried},
               {"deadline_s", partition.deadline_s}};
  if (partition.given_plan) {
    json["given_plan"] = {{"time_s", partition.given_plan->time_s}, {"energy_j", partition.given_plan->energy_j}};
  }
  return json;
}

std::string write_run(const RunFile& run) {
  Json policies = Json::array();
  for (const ComparisonRow& policy : run.policies) policies.push_back(to_json(policy));
  Json json = {{"format", kFormat},
               {"version", run.version},
               {"command", run.command},
               {"policy", run.policy},
               {"profile", run.profile},
               {"stages", run.stages},
               {"microbatches", run.microbatches},
               {"schedule", run.schedule},
               {"blocking_power_w", run.blocking_power_w},
               {"frontier_method", name(run.method)},
               {"epsilon", run.epsilon},
               {"granularity", name(run.granularity)},
               {"switch_latency_s", run.switch_latency_s},
               {"policies", policies},
               {"warnings", run.warnings}};
  if (run.asked_deadline_s) json["asked_deadline_s"] = *run.asked_deadline_s;
  if (run.joint) json["joint"] = to_json(*run.joint);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

RunFile read_run(std::string_view text, const std::string& source) {
  const Json json = parse_json(text, source);
  const JsonView document(json, source);
  require_format(document, kFormat);
  constexpr int kMost = std::numeric_limits<int>::max();
  RunFile run;
  run.version = document.at("version").text();
  run.command = document.at("command").text();
  run.policy = document.at("policy").text();
  run.profile = document.at("profile").text();
  run.stages = document.at("stages").integer_in(1, profile::kMaxStages);
  run.microbatches = document.at("microbatches").integer_in(1, kMost);
  run.schedule = document.at("schedule").text();
  run.blocking_power_w = read_array<double>(document.at("blocking_power_w"), [](const JsonView& view) {
    return number_in(view, 0, profile::kMaxBlockingPowerW);
  });
  if (run.blocking_power_w.size() != static_cast<std::size_t>(run.stages)) {
    document.at("blocking_power_w").fail(fmt::format("expected one power for each of {} stages", run.stages));
  }
  run.method = one_of(document.at("frontier_method"), kMethods);
  run.epsilon = number_in(document.at("epsilon"), 0, 1);
  run.granularity = one_of(document.at("granularity"), kGranularities);
  run.switch_latency_s = number_in(document.at("switch_latency_s"), 0, kMaxTimeS);
  if (document.has("asked_deadline_s")) {
    run.asked_deadline_s = number_in(document.at("asked_deadline_s"), 0, std::numeric_limits<double>::max());
  }
  run.policies = read_array<ComparisonRow>(document.at("policies"), read_policy);
  run.warnings = read_array<std::string>(document.at("warnings"), [](const JsonView& view) { return view.text(); });
  if (document.has("joint")) run.joint = read_joint(document.at("joint"), run.stages);
  return run;
}

}  // namespace lowgear::workflow
