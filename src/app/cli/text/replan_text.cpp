#include "app/cli/text/replan_text.h"

#include <fmt/format.h>

#include "app/cli/terminal/table.h"
#include "base/core/numbers/number.h"
#include "planning/schedule/schedule.h"

namespace lowgear::cli {
namespace {

using workflow::PlannedWork;

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
                    fmt::format("{:+.2f} %", change_pct(baseline_.time_s, share.time_s)),
                    fmt::format("{:+.2f} %", change_pct(baseline_.energy_j, share.energy_j)), gap});
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
simulator::PipelineFigures against(const workflow::WorkReplan& replan, const simulator::PipelineFigures& before) {
  return changes_pct(per_microbatch(before, replan.before),
                     per_microbatch(figures_of(replan.after.plan), replan.after));
}

}  // namespace

std::string partition_text(const profile::Partition& partition) {
  std::string text = "custom:0";
  int layers = 0;
  for (const int count : partition) text += fmt::format(",{}", layers += count);
  return text;
}

std::string replan_text(const workflow::WorkReplan& replan) {
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
  text +=
      fmt::format("plan      {:+.2f} % energy, {:+.2f} % time against the plan before\n", saved.energy_j, saved.time_s);
  text += fmt::format(
      "Planned, full clocks replayed; for one GPU per rank. Changes are against full clocks before{}; the "
      "gap is the plan's to the\nproven least energy of its partition and order.\n",
      other_count ? ", per microbatch" : "");
  return text;
}

Json replan_json(const workflow::WorkReplan& replan) {
  return {{"figures", "planned"},
          {"before", work_json(replan.before)},
          {"same_partition", replan.same_partition ? work_json(*replan.same_partition) : Json()},
          {"after", work_json(replan.after)},
          {"per_microbatch",
           {{"against_full_clocks", changes_json(against(replan, replan.before.full_clocks))},
            {"against_plan", changes_json(against(replan, figures_of(replan.before.plan)))}}}};
}

}  // namespace lowgear::cli
