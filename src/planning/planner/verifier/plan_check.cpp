#include "planning/planner/verifier/plan_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"
#include "base/core/units.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/options.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/schedule.h"

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
  run.late_by_s = number_in(document.at("late_by_s"), 0, kMaxTimeS);
  if (document.has("clock_lead_s")) run.clock_lead_s = number_in(document.at("clock_lead_s"), 0, kMaxTimeS);
  if (document.has("asked_deadline_s")) {
    run.asked_deadline_s = number_in(document.at("asked_deadline_s"), 0, std::numeric_limits<double>::max());
  }
  return run;
}

namespace {

/// Relative difference that sums of doubles in another order may show.
constexpr double kReplayRounding = 1e-9;

bool is_close(double a, double b) { return std::abs(a - b) <= kReplayRounding * std::max(std::abs(a), std::abs(b)); }

/// A plan's JSON, with the figure that a Plan does not keep.
struct StatedPlan {
  plan::Plan plan;
  std::optional<double> gap_pct;
};

StatedPlan read_stated_plan(const PlanFolder::File& file) {
  const Json json = parse_json(file.text, file.name);
  const JsonView document(json, file.name);
  StatedPlan stated{plan::read_plan(file.text, file.name), std::nullopt};
  if (document.has("gap_pct")) stated.gap_pct = document.at("gap_pct").number();
  return stated;
}

struct Replay {
  double time_s = 0;
  double energy_j = 0;
  std::vector<double> start_s;
  std::vector<double> duration_s;
};

/// One plan under check.
class PlanCheck {
 public:
  PlanCheck(const PlanBasis& basis, const PlanFolder::File& file, const PlanRow& row, Findings& findings)
      : basis_(basis), file_(file), row_(row), stated_(read_stated_plan(file)), findings_(findings) {}

  void run() {
    check_settings();
    if (!follows_schedule()) return;
    for (const auto& ops : stated_.plan.ranks) {
      for (const plan::PlannedOp& op : ops) {
        choices_.clocks_mhz.push_back(op.clock_mhz);
        choices_.settings.push_back(op.setting);
      }
    }
    if (!options_exist()) return;
    check_granularity();
    check_switches();
    const Replay replayed = replay();
    check_figures(replayed);
    check_op_times(replayed);
    check_bound(replayed);
  }

 private:
  void fail(const std::string& what) { findings_.add(fmt::format("{}: {}", file_.name, what)); }

  /// A figure of the plan and of its row in the table, against what it must be.
  void compare(std::string_view what, double in_plan, double in_table, double found) {
    if (!is_close(in_plan, found)) fail(fmt::format("{} is {}, but the check computes {}", what, in_plan, found));
    if (!is_close(in_table, found)) {
      fail(fmt::format("{} in the table is {}, but the check computes {}", what, in_table, found));
    }
  }

  void check_settings() {
    const plan::Plan& plan = stated_.plan;
    if (!file_.name.ends_with(fmt::format("{:05}.json", row_.number))) {
      fail(fmt::format("stands in the place of plan {} of the table", row_.number));
    }
    if (plan.policy != basis_.run.policy || plan.schedule != basis_.run.schedule ||
        plan.microbatches != basis_.run.microbatches) {
      fail("policy, schedule or number of microbatches are not those of the run");
    }
    const std::optional<double> lead_s = basis_.run.clock_lead_s;
    if (lead_s && !is_close(plan.clock_lead_s, *lead_s)) {
      fail(fmt::format("its clocks are requested {} s ahead, and run.json states {} s; plan again", plan.clock_lead_s,
                       *lead_s));
    }
    compare("the deadline", plan.deadline_s, row_.deadline_s, plan.deadline_s);
  }

  [[nodiscard]] bool follows_schedule() {
    const std::vector<PipelineOp>& ops = basis_.pipeline.ops();
    std::size_t at = 0;
    bool same = stated_.plan.ranks.size() == static_cast<std::size_t>(basis_.pipeline.ranks());
    for (std::size_t rank = 0; same && rank < stated_.plan.ranks.size(); ++rank) {
      for (const plan::PlannedOp& planned : stated_.plan.ranks[rank]) {
        same = at < ops.size() && ops[at].rank == static_cast<int>(rank) && ops[at].stage == planned.stage &&
               ops[at].kind == planned.kind && ops[at].microbatch == planned.microbatch;
        if (!same) break;
        ++at;
      }
    }
    if (!same || at != ops.size()) {
      fail(fmt::format("its ops are not those of the schedule, from op {} on", at));
      return false;
    }
    return true;
  }

  /// Whether each op's clock, with its setting, was measured.
  [[nodiscard]] bool options_exist() {
    for (std::size_t op = 0; op < choices_.clocks_mhz.size(); ++op) {
      const PipelineOp& it = basis_.pipeline.ops()[op];
      const auto measured = basis_.profile.measurements(it.stage, it.kind);
      const bool exists = std::any_of(measured.begin(), measured.end(), [&](const profile::Measurement& m) {
        return m.clock_mhz == choices_.clocks_mhz[op] && m.setting == choices_.settings[op];
      });
      if (exists) continue;
      fail(fmt::format("the profile has no measurement of stage {} {} at {} MHz{}", it.stage, name(it.kind),
                       choices_.clocks_mhz[op], setting_text(choices_.settings[op])));
      return false;
    }
    return true;
  }

  [[nodiscard]] std::string setting_text(const std::string& setting) const {
    if (!setting.empty()) return fmt::format(" with setting {}", setting);
    return basis_.profile.has_settings() ? " without a setting" : "";
  }

  void check_granularity() {
    if (!basis_.run.per_stage_kind || basis_.run.policy != "lowgear") return;
    std::map<std::pair<int, OpKind>, std::pair<int, std::string>> option_of;
    for (std::size_t op = 0; op < choices_.clocks_mhz.size(); ++op) {
      const PipelineOp& it = basis_.pipeline.ops()[op];
      const std::pair option(choices_.clocks_mhz[op], choices_.settings[op]);
      if (option_of.try_emplace({it.stage, it.kind}, option).first->second == option) continue;
      fail(fmt::format("stage {} {} has more than one clock or setting", it.stage, name(it.kind)));
      return;
    }
  }

  void check_switches() {
    int found = 0;
    std::size_t begin = 0;
    for (const auto& ops : stated_.plan.ranks) {
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const std::size_t next = begin + (i + 1) % ops.size();
        if (choices_.clocks_mhz[begin + i] != choices_.clocks_mhz[next]) ++found;
      }
      begin += ops.size();
    }
    if (stated_.plan.switches != found || row_.switches != found) {
      fail(fmt::format("it has {} clock changes, but states {}, and {} in the table", found, stated_.plan.switches,
                       row_.switches));
    }
  }

  [[nodiscard]] std::vector<simulator::OpCost> costs() const {
    std::vector<simulator::OpCost> costs;
    const std::vector<PipelineOp>& ops = basis_.pipeline.ops();
    if (basis_.run.late_by_s > 0) {
      schedule::PipelineDag dag;
      dag.ranks = basis_.pipeline.ranks();
      for (const PipelineOp& op : ops) {
        while (static_cast<int>(dag.rank_begin.size()) <= op.rank) {
          dag.rank_begin.push_back(static_cast<int>(dag.ops.size()));
        }
        dag.ops.push_back({op.rank, op.stage, op.kind, op.microbatch});
      }
      dag.rank_begin.push_back(static_cast<int>(dag.ops.size()));
      return simulator::costs_with_switch_latency(dag, basis_.profile, choices_, basis_.run.late_by_s);
    }
    for (std::size_t op = 0; op < ops.size(); ++op) {
      const profile::Measurement& measured =
          basis_.profile.at_setting(ops[op].stage, ops[op].kind, choices_.clocks_mhz[op], choices_.settings[op]);
      costs.push_back({measured.time_s, measured.energy_j});
    }
    return costs;
  }

  [[nodiscard]] Replay replay() const {
    Replay replay;
    std::vector<double> busy_s(basis_.run.blocking_power_w.size(), 0);
    const std::vector<simulator::OpCost> op_costs = costs();
    for (std::size_t op = 0; op < op_costs.size(); ++op) {
      replay.duration_s.push_back(op_costs[op].time_s);
      replay.energy_j += op_costs[op].energy_j;
      busy_s[static_cast<std::size_t>(basis_.pipeline.ops()[op].rank)] += op_costs[op].time_s;
    }
    replay.start_s.resize(op_costs.size());
    replay.time_s = basis_.pipeline.start_times<double>(replay.duration_s, replay.start_s);
    for (std::size_t rank = 0; rank < busy_s.size(); ++rank) {
      replay.energy_j += basis_.run.blocking_power_w[rank] * (replay.time_s - busy_s[rank]);
    }
    return replay;
  }

  void check_figures(const Replay& replayed) {
    const plan::Plan& plan = stated_.plan;
    compare("the iteration time", plan.time_s, row_.time_s, replayed.time_s);
    compare("the energy", plan.energy_j, row_.energy_j, replayed.energy_j);
    if (replayed.time_s > plan.deadline_s * (1 + kReplayRounding)) {
      fail(fmt::format("it takes {} s, longer than its deadline of {} s", replayed.time_s, plan.deadline_s));
    }
    if (plan.clock_lead_s >= replayed.time_s) {
      fail(
          fmt::format("its clocks are requested {} s ahead, and its iteration takes {} s: agents request less than one "
                      "iteration ahead",
                      plan.clock_lead_s, replayed.time_s));
    }
  }

  void check_op_times(const Replay& replayed) {
    const double tolerance_s = kReplayRounding * replayed.time_s;
    std::size_t op = 0;
    for (const auto& ops : stated_.plan.ranks) {
      for (const plan::PlannedOp& planned : ops) {
        if (std::abs(planned.start_s - replayed.start_s[op]) > tolerance_s ||
            std::abs(planned.duration_s - replayed.duration_s[op]) > tolerance_s) {
          fail(fmt::format("op {} is stated to start at {} s and take {} s, but starts at {} s and takes {} s", op,
                           planned.start_s, planned.duration_s, replayed.start_s[op], replayed.duration_s[op]));
          return;
        }
        ++op;
      }
    }
  }

  void check_bound(const Replay& replayed) {
    const plan::Plan& plan = stated_.plan;
    if (plan.lower_bound_j.has_value() != row_.lower_bound_j.has_value() ||
        plan.lower_bound_j.has_value() != row_.gap_pct.has_value() ||
        plan.lower_bound_j.has_value() != stated_.gap_pct.has_value()) {
      fail("bound and gap are stated in one place and not in the other");
      return;
    }
    if (!plan.lower_bound_j) {
      if (basis_.run.policy == "lowgear") fail("it states no lower bound");
      return;
    }
    if (basis_.proven == nullptr) return;
    const double bound_j = basis_.proven->lower_bound_j(ps_from_s(replayed.time_s));
    compare("the lower bound", *plan.lower_bound_j, *row_.lower_bound_j, bound_j);
    if (bound_j <= 0) return fail("its lower bound is not above 0 J");
    // Energy and bound may differ by rounding, which the gap shows as a difference in per cent of the bound.
    const double gap_pct = (replayed.energy_j - bound_j) / bound_j * 100;
    const double tolerance_pct = 4 * kReplayRounding * 100;
    for (const double stated_pct : {*stated_.gap_pct, *row_.gap_pct}) {
      if (!(std::abs(stated_pct - gap_pct) <= tolerance_pct)) {
        fail(fmt::format("the gap is stated as {} %, but the check computes {} %", stated_pct, gap_pct));
      }
    }
  }

  const PlanBasis& basis_;
  const PlanFolder::File& file_;
  const PlanRow& row_;
  StatedPlan stated_;
  Findings& findings_;
  plan::OpChoices choices_;  ///< by op of the pipeline; with settings, which may be empty
};

}  // namespace

std::vector<PlanRow> read_plan_rows(const PlanFolder::File& table_file) {
  const CsvTable table(table_file.text, table_file.name);
  const auto optional_number = [&](std::size_t row, std::string_view column) {
    const std::size_t at = table.column(column);
    return table.text(row, at).empty() ? std::nullopt : std::optional(table.number(row, at));
  };
  std::vector<PlanRow> rows;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    rows.push_back({table.integer(row, table.column("plan")), table.number(row, table.column("deadline_s")),
                    table.number(row, table.column("time_s")), table.number(row, table.column("energy_j")),
                    optional_number(row, "lower_bound_j"), optional_number(row, "gap_pct"),
                    table.integer(row, table.column("switches"))});
  }
  return rows;
}

void check_plan(const PlanBasis& basis, const PlanFolder::File& file, const PlanRow& row, Findings& findings) {
  PlanCheck(basis, file, row, findings).run();
}

}  // namespace lowgear::planner::verifier
