#include "app/cli/text/plan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/plan/plan_folder.h"
#include "app/cli/terminal/table.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/numbers/number.h"
#include "planning/plan/plan.h"
#include "planning/schedule/schedule.h"

namespace lowgear::cli {
namespace {

using api::PlannedWork;

/// Per microbatch, so that iterations of different numbers of them can be compared.
simulator::PipelineFigures per_microbatch(const simulator::PipelineFigures& figures, const PlannedWork& work) {
  const double microbatches = work.pipeline.dag.microbatches;
  return {figures.time_s / microbatches, figures.energy_j / microbatches};
}

simulator::PipelineFigures figures_of(const plan::Plan& plan) { return {plan.time_s, plan.energy_j}; }

class ReplanTable {
 public:
  explicit ReplanTable(const PlannedWork& before) : baseline_(per_microbatch(before.full_clocks, before)) {}

  void add(const std::string& what, const PlannedWork& work) {
    add_row(what, "full clocks", work.full_clocks, work, "");
    add_row("", "plan", figures_of(work.plan), work, fmt::format("{:.3f} %", work.plan.gap_pct().value_or(0)));
  }

  [[nodiscard]] std::string text() const { return table_.text(); }

 private:
  void add_row(const std::string& what, const std::string& clocks, const simulator::PipelineFigures& figures,
               const PlannedWork& work, const std::string& gap) {
    const simulator::PipelineFigures share = per_microbatch(figures, work);
    table_.add_row({what, clocks, fmt::format("{:.4f}", figures.time_s), fmt::format("{:.1f}", figures.energy_j),
                    percent_text(change_pct(baseline_.time_s, share.time_s)),
                    percent_text(change_pct(baseline_.energy_j, share.energy_j)), gap});
  }

  simulator::PipelineFigures baseline_;
  Table table_{{{"work", Table::Align::left},
                {"clocks", Table::Align::left},
                {"time s"},
                {"energy J"},
                {"time"},
                {"energy"},
                {"gap"}}};
};

Json time_and_energy(const simulator::PipelineFigures& figures) {
  return {{"time_s", figures.time_s}, {"energy_j", figures.energy_j}};
}

Json work_json(const PlannedWork& work) {
  Json plan = time_and_energy(figures_of(work.plan));
  plan["deadline_s"] = work.plan.deadline_s;
  if (work.plan.lower_bound_j) {
    plan["lower_bound_j"] = *work.plan.lower_bound_j;
    plan["gap_pct"] = *work.plan.gap_pct();
  }
  plan["switches"] = work.plan.switches;
  return {{"layers", work.partition},
          {"partition", partition_text(work.partition)},
          {"microbatches", work.pipeline.dag.microbatches},
          {"forward_only_stages", work.pipeline.schedule.frozen_stages},
          {"fastest_s", work.fastest_s},
          {"frontier", name(work.frontier.method)},
          {"full_clocks", time_and_energy(work.full_clocks)},
          {"plan", std::move(plan)}};
}

simulator::PipelineFigures changes_pct(const simulator::PipelineFigures& from, const simulator::PipelineFigures& to) {
  return {change_pct(from.time_s, to.time_s), change_pct(from.energy_j, to.energy_j)};
}

Json changes_json(const simulator::PipelineFigures& changes) {
  return {{"time_pct", changes.time_s}, {"energy_pct", changes.energy_j}};
}

/// Of the new plan against figures of the work before, per microbatch.
simulator::PipelineFigures against(const api::WorkReplan& replan, const simulator::PipelineFigures& before) {
  return changes_pct(per_microbatch(before, replan.before),
                     per_microbatch(figures_of(replan.after.plan), replan.after));
}

}  // namespace

std::string clock_changes_text(double lead_s, double late_by_s) {
  if (lead_s > 0) {
    return fmt::format("requested {} before their units, {}", duration_text(lead_s),
                       late_by_s > 0 ? fmt::format("and changed {} after these begin", duration_text(late_by_s))
                                     : "so that they change in time");
  }
  if (late_by_s > 0)
    return fmt::format("changed {} after their units begin, which all figures include", duration_text(late_by_s));
  return "changed at once (--switch-latency), which no GPU does";
}

std::string percent_text(double pct) { return signed_text(pct, 2) + " %"; }

std::string partition_text(const profile::Partition& partition) {
  std::string text = "custom:0";
  int layers = 0;
  for (const int count : partition) text += fmt::format(",{}", layers += count);
  return text;
}

std::string replan_text(const api::WorkReplan& replan) {
  const bool moved = replan.after.partition != replan.before.partition;
  ReplanTable table(replan.before);
  table.add("before", replan.before);
  if (moved && replan.same_partition) table.add("changed", *replan.same_partition);
  table.add(moved ? "changed, new partition" : "changed", replan.after);
  std::string text = table.text();
  text += fmt::format("\npartition {}\n", partition_text(replan.before.partition));
  if (moved) text += fmt::format("new       {}\n", partition_text(replan.after.partition));
  if (moved && !replan.same_partition) {
    text += "          the old partition cannot keep the new deadline\n";
  }
  const bool other_count = replan.after.pipeline.dag.microbatches != replan.before.pipeline.dag.microbatches;
  const simulator::PipelineFigures saved = against(replan, figures_of(replan.before.plan));
  text += fmt::format("plan      {} energy, {} time against the plan before\n", percent_text(saved.energy_j),
                      percent_text(saved.time_s));
  text += fmt::format(
      "Planned, full clocks replayed; for one GPU per rank. Changes are against full clocks before{}; the "
      "gap is the plan's to the\nproven least energy of its partition and order.\n",
      other_count ? ", per microbatch" : "");
  return text;
}

namespace {

/// In words: `24 of 96 layers frozen, 8 microbatches before`.
std::string describe(const api::WorkReplan& replan, const api::WorkChange& change) {
  std::vector<std::string> parts;
  const int layers = std::accumulate(replan.after.partition.begin(), replan.after.partition.end(), 0);
  if (change.frozen_layers > 0) parts.push_back(fmt::format("{} of {} layers frozen", change.frozen_layers, layers));
  if (!change.scales.empty()) parts.emplace_back("layers scaled");
  if (change.recomputation == api::Recomputation::added) parts.emplace_back("recomputation added");
  if (change.recomputation == api::Recomputation::removed) parts.emplace_back("recomputation removed");
  if (replan.after.pipeline.dag.microbatches != replan.before.pipeline.dag.microbatches) {
    parts.push_back(counted(replan.before.pipeline.dag.microbatches, "microbatch", "microbatches") + " before");
  }
  return parts.empty() ? "work unchanged" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

report::ChangedWork changed_work(const api::WorkReplan& replan, const api::WorkChange& change) {
  const bool moved = replan.after.partition != replan.before.partition;
  report::ChangedWork changed{.description = describe(replan, change),
                              .partition = partition_text(replan.after.partition),
                              .partition_before = moved ? partition_text(replan.before.partition) : "",
                              .change_pct = against(replan, figures_of(replan.before.plan)),
                              .rows = {}};
  const simulator::PipelineFigures baseline = per_microbatch(replan.before.full_clocks, replan.before);
  const auto add = [&](const std::string& name, const PlannedWork& work) {
    const auto add_row = [&](const char* clocks, const simulator::PipelineFigures& figures, std::optional<double> gap) {
      changed.rows.push_back({name, clocks, figures, changes_pct(baseline, per_microbatch(figures, work)), gap});
    };
    add_row("full clocks", work.full_clocks, std::nullopt);
    add_row("plan", figures_of(work.plan), work.plan.gap_pct());
  };
  add("before", replan.before);
  if (moved && replan.same_partition) add("changed", *replan.same_partition);
  add(moved ? "changed, new partition" : "changed", replan.after);
  return changed;
}

Json replan_json(const api::WorkReplan& replan) {
  return {{"figures", "planned"},
          {"before", work_json(replan.before)},
          {"same_partition", replan.same_partition ? work_json(*replan.same_partition) : Json()},
          {"after", work_json(replan.after)},
          {"per_microbatch",
           {{"against_full_clocks", changes_json(against(replan, replan.before.full_clocks))},
            {"against_plan", changes_json(against(replan, figures_of(replan.before.plan)))}}}};
}

namespace {

/// Numbers of an order's plans: "plans 0 to 4, 7".
std::string plans_text(const api::JointPlanResult& result, std::size_t order) {
  std::string text;
  int from = -1;
  for (std::size_t i = 0; i <= result.plans.size(); ++i) {
    const bool of_order = i < result.plans.size() && result.plans[i].order == static_cast<int>(order);
    const auto number = static_cast<int>(i);
    if (of_order && from < 0) from = number;
    if (of_order || from < 0) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", from);
    if (number - 1 > from) text += fmt::format(" to {}", number - 1);
    from = -1;
  }
  return text.empty() ? "no plan" : "plans " + text;
}

/// Distance of the plans from the lower bound of all orders.
std::string joint_gap_text(const api::JointPlanResult& result) {
  double largest_pct = 0;
  double sum_pct = 0;
  for (const api::PlanFigures& plan : result.plans) {
    const double gap = plan::gap_pct(plan.energy_j, plan.joint_bound_j).value_or(0);
    largest_pct = std::max(largest_pct, gap);
    sum_pct += gap;
  }
  return fmt::format(
      "bound     proven for every order of 1 or 2 stages per rank that fits: the plans use at most {:.3g} % more, "
      "{:.3g} % on average\n",
      largest_pct, sum_pct / static_cast<double>(result.plans.size()));
}

/// Change of time and energy for each microbatch, in per cent.
simulator::PipelineFigures change_per_microbatch_pct(const ReplannedFrom& before, const api::JointPlanResult& result) {
  const api::PlanFigures& shown = result.plans.at(static_cast<std::size_t>(result.shown_plan));
  const double share = static_cast<double>(before.microbatches) / result.orders.front().pipeline.schedule.microbatches;
  return {change_pct(before.figures.time_s, shown.time_s * share),
          change_pct(before.figures.energy_j, shown.energy_j * share)};
}

}  // namespace

std::string replanned_text(const ReplannedFrom& before, const api::JointPlanResult& result) {
  const simulator::PipelineFigures change = change_per_microbatch_pct(before, result);
  return fmt::format(
      "before    {:.6g} s, {:.6g} J planned, {} in order {}; plan {:05} per microbatch: {} energy, "
      "{} time\n",
      before.figures.time_s, before.figures.energy_j, counted(before.microbatches, "microbatch", "microbatches"),
      before.name, result.shown_plan, percent_text(change.energy_j), percent_text(change.time_s));
}

Json replanned_json(const ReplannedFrom& before, const api::JointPlanResult& result) {
  const simulator::PipelineFigures change = change_per_microbatch_pct(before, result);
  return {{"before",
           {{"order", before.name},
            {"microbatches", before.microbatches},
            {"time_s", before.figures.time_s},
            {"energy_j", before.figures.energy_j}}},
          {"per_microbatch", {{"energy_pct", change.energy_j}, {"time_pct", change.time_s}}}};
}

Json plan_figures_json(const api::PlanFigures& plan) {
  Json json = {
      {"plan", plan.number}, {"deadline_s", plan.deadline_s}, {"time_s", plan.time_s}, {"energy_j", plan.energy_j}};
  if (plan.lower_bound_j) {
    json["lower_bound_j"] = *plan.lower_bound_j;
    json["gap_pct"] = *plan::gap_pct(plan.energy_j, plan.lower_bound_j);
  }
  json["switches"] = plan.switches;
  return json;
}

namespace {

std::string_view latency_source_text(const SwitchLatencyArgument& latency) {
  switch (latency.source) {
    case SwitchLatencyArgument::Source::profile:
      return "the profile's";
    case SwitchLatencyArgument::Source::assumed:
      return "assumed: lowgear profile and lowgear doctor --measure-switch-latency measure it";
    case SwitchLatencyArgument::Source::plan_before:
      return "that of the plan before";
    default:
      return "that of --switch-latency";
  }
}

/// Units that may begin before the GPU has made the change of the unit before; empty where all are long enough.
std::string short_units_text(const plan::Plan& plan, double lead_s) {
  double shortest_s = lead_s;
  for (const std::vector<plan::PlannedOp>& ops : plan.ranks) {
    for (const plan::PlannedOp& op : ops) shortest_s = std::min(shortest_s, op.duration_s);
  }
  if (shortest_s >= lead_s) return "";
  return fmt::format(" where units take longer (the shortest takes {})", duration_text(shortest_s));
}

}  // namespace

std::string latency_text(const SwitchLatencyArgument& latency, const plan::Plan& shown,
                         const std::optional<api::LateReplay>& late) {
  std::string text = "clocks    " + clock_changes_text(latency.lead_s, latency.late_by_s());
  if (latency.latency_s == 0.0) return text + '\n';
  if (late) {
    text += fmt::format("{}; requested when units begin, the plan would come to {} energy, {} time",
                        short_units_text(shown, latency.lead_s),
                        percent_text(change_pct(late->baseline.energy_j, late->plan.energy_j)),
                        percent_text(change_pct(late->baseline.time_s, late->plan.time_s)));
  }
  return fmt::format("{}. The switch latency is {}\n", text, latency_source_text(latency));
}

Json latency_json(const SwitchLatencyArgument& latency, const std::optional<api::LateReplay>& late) {
  Json json = {{"source", name(latency.source)}, {"latency_s", or_null(latency.latency_s)}};
  json["planned_with_s"] = latency.late_by_s();
  json["asked_ahead_s"] = latency.lead_s;
  if (!late) return json;
  json["replayed"] = {{"switch_latency_s", late->switch_latency_s},
                      {"time_s", late->plan.time_s},
                      {"energy_j", late->plan.energy_j},
                      {"energy_pct", change_pct(late->baseline.energy_j, late->plan.energy_j)},
                      {"time_pct", change_pct(late->baseline.time_s, late->plan.time_s)}};
  return json;
}

std::string verified_text(const std::string& out, bool is_verified) {
  const std::string check = fmt::format("lowgear verify {}", shell_word(out));
  return is_verified ? fmt::format("verified  by code that the planner does not share; again: {}\n", check)
                     : fmt::format("verified  not yet, since that takes long: {}\n", check);
}

std::string training_text(const std::string& out, int plan, std::optional<int> order) {
  const std::filesystem::path folder = out;
  const std::string file = shell_word((folder / output_file::plan(plan)).string());
  if (order) {
    return fmt::format("train in the plan's order: lowgear train CONFIG --schedule {} --plan {}",
                       shell_word((folder / output_file::of_order(*order, output_file::kSchedule)).string()), file);
  }
  return fmt::format(
      "train with it: lowgear train CONFIG --plan {0}, or your own job: lowgear run --plan {0} -- COMMAND", file);
}

std::string joint_plan_text(const PlanArguments& arguments, const JointPlanSummary& summary) {
  const api::JointPlanResult& result = summary.result;
  const api::PlanFigures& shown = result.plans.at(static_cast<std::size_t>(result.shown_plan));
  const api::JointPoint& fastest = result.frontier.front();
  const api::JointPoint& slowest = result.frontier.back();
  const simulator::PipelineFigures& baseline = result.run.baseline;
  std::string text = fmt::format(
      "pipeline  {}, {}, the order searched\n"
      "orders    {} tried that hold at most the activations of --memory-limit {} on each rank, {} kept; frontier: "
      "{:.6g} s, {:.6g} J to {:.6g} s, {:.6g} J\n",
      counted(result.orders.front().pipeline.dag.ranks, "rank", "ranks"),
      counted(result.orders.front().pipeline.dag.microbatches, "microbatch", "microbatches"), result.orders_tried,
      result.run.memory_limit, result.orders.size(), fastest.time_s, fastest.energy_j, slowest.time_s,
      slowest.energy_j);
  for (std::size_t i = 0; i < result.orders.size(); ++i) {
    const api::JointOrder& order = result.run.orders[i];
    text += fmt::format("  {:02}      {}, {} per rank, up to {} activations{}: {}\n", i, order.name,
                        counted(order.stages_per_rank, "stage", "stages"), std::ranges::max(order.peak_activations),
                        order.stages_per_rank == 1 ? "" : " of a stage each", plans_text(result, i));
  }
  text += fmt::format(
      "plan {:05}: {:.6g} s, {:.6g} J planned, in order {}; against {}{} with all clocks at their highest ({:.6g} s, "
      "{:.6g} J): {} energy, {} time\n",
      shown.number, shown.time_s, shown.energy_j, result.shown.schedule, result.run.reference,
      result.run.partition ? " on the given layers" : "", baseline.time_s, baseline.energy_j,
      percent_text(change_pct(baseline.energy_j, shown.energy_j)),
      percent_text(change_pct(baseline.time_s, shown.time_s)));
  if (result.run.partition) {
    text += fmt::format("partition {}\n          {}\n", partition_text(result.run.partition->chosen),
                        describe(*result.run.partition, {shown.time_s, shown.energy_j}));
  }
  text += latency_text(arguments.planner.switch_latency, result.shown, result.late);
  text += joint_gap_text(result) + simulated_text(result.shown.simulated);
  text += fmt::format("report    {}\n", (std::filesystem::path(arguments.out) / output_file::kReport).string());
  text +=
      fmt::format("{}next      look at the report; {}\n", verified_text(arguments.out, summary.verified.has_value()),
                  training_text(arguments.out, shown.number, shown.order.value_or(0)));
  return text;
}

Json joint_plan_json(const PlanArguments& arguments, const JointPlanSummary& summary) {
  const api::JointPlanResult& result = summary.result;
  Json plans = Json::array();
  for (const api::PlanFigures& plan : result.plans) {
    plans.push_back(plan_figures_json(plan));
    plans.back()["order"] = plan.order.value_or(0);
    plans.back()["joint_bound_j"] = or_null(plan.joint_bound_j);
    plans.back()["joint_gap_pct"] = or_null(plan::gap_pct(plan.energy_j, plan.joint_bound_j));
  }
  Json orders = Json::array();
  planner::FrontierMethod method = planner::FrontierMethod::exact;
  double epsilon = 0;
  for (std::size_t i = 0; i < result.orders.size(); ++i) {
    if (result.orders[i].frontier.method != planner::FrontierMethod::exact) method = result.orders[i].frontier.method;
    epsilon = std::max(epsilon, result.orders[i].frontier.epsilon);
    const api::JointOrder& order = result.run.orders[i];
    orders.push_back({{"order", i},
                      {"name", order.name},
                      {"stages_per_rank", order.stages_per_rank},
                      {"peak_activations", order.peak_activations},
                      {"frontier_method", name(result.orders[i].frontier.method)},
                      {"fastest_s", result.orders[i].frontier.vertices.front().time_s},
                      {"slowest_s", result.orders[i].frontier.vertices.back().time_s}});
  }
  Json json = {{"out", arguments.out},
               {"figures", "planned"},
               {"policy", planner::kLowgearPolicy},
               {"switch_latency", latency_json(arguments.planner.switch_latency, result.late)},
               {"memory_limit", result.run.memory_limit},
               {"orders_tried", result.orders_tried},
               {"orders", orders},
               {"frontier",
                {{"method", name(method)},
                 {"points", result.frontier.size()},
                 {"epsilon", epsilon},
                 {"fastest_s", result.frontier.front().time_s},
                 {"slowest_s", result.frontier.back().time_s}}},
               {"baseline",
                {{"description", fmt::format("{}, every op at its highest profiled clock", result.run.reference)},
                 {"time_s", result.run.baseline.time_s},
                 {"energy_j", result.run.baseline.energy_j}}},
               {"verified", summary.verified.has_value()},
               {"shown_plan", result.shown_plan},
               {"plans", plans},
               {"warnings", result.warnings}};
  if (result.run.partition) {
    json["partition"] = to_json(*result.run.partition);
    json["partition"]["is_proven_best"] = false;
  }
  return json;
}

}  // namespace lowgear::cli
