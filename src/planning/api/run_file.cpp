#include "planning/api/run_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>

#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"
#include "base/core/units.h"
#include "planning/profile/options.h"

namespace lowgear::api {

namespace {

using Curve = std::vector<simulator::PipelineFigures>;

/// Infinite before the curve's first time; after its last, where waiting only uses energy, that of its last.
double energy_j_at(const Curve& curve, double time_s) {
  if (time_s < curve.front().time_s) return std::numeric_limits<double>::infinity();
  const auto slower = std::ranges::lower_bound(curve, time_s, {}, &simulator::PipelineFigures::time_s);
  if (slower == curve.end()) return curve.back().energy_j;
  if (slower == curve.begin()) return slower->energy_j;
  const simulator::PipelineFigures& fast = *std::prev(slower);
  const double share = (time_s - fast.time_s) / (slower->time_s - fast.time_s);
  return fast.energy_j + share * (slower->energy_j - fast.energy_j);
}

std::size_t best_at(std::span<const Curve> curves, double time_s) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < curves.size(); ++i) {
    if (energy_j_at(curves[i], time_s) < energy_j_at(curves[best], time_s)) best = i;
  }
  return best;
}

JointPoint point_at(std::span<const Curve> curves, std::size_t order, double time_s) {
  return {time_s, energy_j_at(curves[order], time_s), static_cast<int>(order)};
}

/// From `before` to where another order is best: the points of both at each change of the order up to `time_s`.
void add_changes(std::span<const Curve> curves, double time_s, std::vector<JointPoint>& points) {
  constexpr int kHalvings = 50;
  const auto next = static_cast<int>(best_at(curves, time_s));
  for (std::size_t changes = 0; changes < curves.size() && points.back().order != next; ++changes) {
    const auto present = static_cast<std::size_t>(points.back().order);
    double still_s = points.back().time_s;
    double changed_s = time_s;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle_s = still_s + (changed_s - still_s) / 2;
      (best_at(curves, middle_s) == present ? still_s : changed_s) = middle_s;
    }
    points.push_back(point_at(curves, present, changed_s));
    points.push_back(point_at(curves, best_at(curves, changed_s), changed_s));
  }
}

}  // namespace

std::string describe(const PartitionRun& partition, const simulator::PipelineFigures& shown_plan) {
  std::string text = fmt::format("layers by rank: {} instead of {}", fmt::join(partition.chosen, ","),
                                 fmt::join(partition.given, ","));
  if (partition.chosen == partition.given) {
    text = fmt::format("layers by rank: {} as given", fmt::join(partition.given, ","));
  } else if (partition.given_plan) {
    constexpr double kPercent = 100;
    const simulator::PipelineFigures& given = *partition.given_plan;
    text += fmt::format(", whose own joint plan uses {:.6g} J in {:.6g} s (planned, replayed): {:+.2f} % energy",
                        given.energy_j, given.time_s, kPercent * (shown_plan.energy_j / given.energy_j - 1));
  } else {
    text += ", whose orders cannot keep the plan's deadline";
  }
  return text + fmt::format("; best of {} tried, not proven best: bounds are of this partition", partition.tried);
}

std::string write_joint_frontier(std::span<const JointPoint> points) {
  std::string out = "time_s,energy_j,order\n";
  for (const JointPoint& point : points) {
    fmt::format_to(std::back_inserter(out), "{},{},{}\n", point.time_s, point.energy_j, point.order);
  }
  return out;
}

std::vector<JointPoint> read_joint_frontier(std::string_view text, const std::string& source) {
  const CsvTable table(text, source);
  if (table.rows() == 0) throw_input_error({source, 0, 0}, "has no rows", "plan again");
  const std::size_t time = table.column("time_s");
  const std::size_t energy = table.column("energy_j");
  const std::size_t order = table.column("order");
  std::vector<JointPoint> points;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const long long number = table.integer(row, order);
    constexpr long long kMost = 1000;
    if (number < 0 || number > kMost) throw_input_error(table.where(row, order), fmt::format("no order {}", number));
    points.push_back({table.number(row, time), table.number(row, energy), static_cast<int>(number)});
  }
  return points;
}

std::vector<JointPoint> joint_frontier(std::span<const Curve> frontiers) {
  std::vector<double> times_s;
  for (const Curve& curve : frontiers) {
    for (const simulator::PipelineFigures& vertex : curve) times_s.push_back(vertex.time_s);
  }
  std::ranges::sort(times_s);
  times_s.erase(std::ranges::unique(times_s).begin(), times_s.end());
  std::vector<JointPoint> points;
  for (const double time_s : times_s) {
    if (!points.empty()) add_changes(frontiers, time_s, points);
    const JointPoint point = point_at(frontiers, best_at(frontiers, time_s), time_s);
    if (!points.empty() && point.energy_j >= points.back().energy_j) continue;
    points.push_back(point);
  }
  return points;
}

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
  if (joint.partition) json["partition"] = api::to_json(*joint.partition);
  return json;
}

std::vector<int> read_layer_counts(const JsonView& view) {
  return read_array<int>(view, [](const JsonView& count) { return count.integer_in(1, profile::kMaxStages); });
}

PartitionRun read_partition(const JsonView& view, int ranks) {
  const auto layers = [ranks](const JsonView& of) {
    std::vector<int> counts = read_layer_counts(of);
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
               {"late_by_s", run.late_by_s},
               {"clock_lead_s", run.clock_lead_s},
               {"policies", policies},
               {"warnings", run.warnings}};
  if (run.asked_deadline_s) json["asked_deadline_s"] = *run.asked_deadline_s;
  if (!run.conditions.empty()) json["conditions"] = run.conditions;
  if (run.joint) json["joint"] = to_json(*run.joint);
  if (run.layers) json["layers"] = {{"counts", run.layers->counts}, {"alike", run.layers->alike}};
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
  run.late_by_s = number_in(document.at("late_by_s"), 0, kMaxTimeS);
  if (document.has("clock_lead_s")) run.clock_lead_s = number_in(document.at("clock_lead_s"), 0, kMaxTimeS);
  if (document.has("asked_deadline_s")) {
    run.asked_deadline_s = number_in(document.at("asked_deadline_s"), 0, std::numeric_limits<double>::max());
  }
  if (document.has("conditions")) {
    run.conditions =
        read_array<std::string>(document.at("conditions"), [](const JsonView& view) { return view.text(); });
  }
  run.policies = read_array<ComparisonRow>(document.at("policies"), read_policy);
  run.warnings = read_array<std::string>(document.at("warnings"), [](const JsonView& view) { return view.text(); });
  if (document.has("joint")) run.joint = read_joint(document.at("joint"), run.stages);
  if (document.has("layers")) {
    const JsonView layers = document.at("layers");
    run.layers = {.counts = read_layer_counts(layers.at("counts")), .alike = layers.at("alike").boolean()};
    const std::size_t counts = run.layers->counts.size();
    if (counts == 0 || counts % static_cast<std::size_t>(run.stages) != 0) {
      layers.at("counts").fail(fmt::format("expected the layers of each of {} ranks, or of their stages", run.stages));
    }
  }
  return run;
}

}  // namespace lowgear::api
