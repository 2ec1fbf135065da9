#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "base/core/op_kind.h"
#include "planning/api/comparison.h"
#include "planning/api/plan_pipeline.h"
#include "planning/api/run_folder.h"
#include "planning/plan/plan.h"
#include "planning/profile/stage_profile.h"
#include "planning/simulator/cluster.h"

namespace lowgear::report {

/// Energy of an op over its clock, as profiled: what EnvPipe calls the energy valley curve, which it draws for whole
/// iterations.
struct Valley {
  int stage = 0;
  OpKind kind = OpKind::forward;
  std::vector<int> clocks_mhz;                ///< rising; two at least
  std::vector<double> energy_j;               ///< by clock, of one GPU; of several settings the least
  std::optional<int> envpipe_clock_mhz = {};  ///< that EnvPipe starts the stage from; empty: not computed
};

/// Of every stage and kind with at least two clocks.
[[nodiscard]] std::vector<Valley> valleys_of(const profile::StageProfile& profile);

/// For the pages.
[[nodiscard]] Json valleys_json(const std::vector<Valley>& valleys);

/// What savings and slowdowns are measured against.
struct Baseline {
  std::string description;  ///< for example "every op at its highest profiled clock"
  double time_s = 0;
  double energy_j = 0;
  std::optional<simulator::PipelineFigures> late = {};  ///< replayed with late clocks, as `policies` are
};

/// What supports the lower bound.
struct Certificate {
  bool verified = false;  ///< the independent check ran and passed
  std::string statement;  ///< the checks, in a sentence or two
  std::string command;    ///< the command that checks it again; may be empty
};

/// One computation on a rank's timeline.
struct Op : plan::PlannedOp {
  double energy_j = 0;
};

/// One iteration. Whatever lies between ops of a rank, up to `time_s`, is shown as idle.
struct Timeline {
  std::string label;  ///< for example "lowgear, plan 0"
  double time_s = 0;
  double energy_j = 0;                 ///< ops and blocking energy of all ranks
  std::vector<std::vector<Op>> ranks;  ///< by rank, in the order of execution
};

/// An order of a run whose order was free.
struct OrderRow {
  std::string name;
  int stages_per_rank = 1;
  int peak_activations = 0;  ///< most stage-microbatches that a rank holds
  double from_s = 0;         ///< times of the joint frontier at which it holds
  double until_s = 0;
  std::vector<int> plans;  ///< numbers of its plans
};

/// The change of a job's work that a plan answers, with the plan before it. Changes are per microbatch, in per cent.
struct ChangedWork {
  struct Row {
    std::string work;                       ///< `before`, `changed`, `changed, new partition`
    std::string clocks;                     ///< `full clocks` or `plan`
    simulator::PipelineFigures figures;     ///< of an iteration
    simulator::PipelineFigures change_pct;  ///< against full clocks before
    std::optional<double> gap_pct;          ///< above the proven least energy of its partition and order
  };
  std::string description;                ///< for the title: `24 of 96 layers frozen`
  std::string partition;                  ///< of the plan
  std::string partition_before;           ///< empty: the same
  simulator::PipelineFigures change_pct;  ///< of the plan against the plan before
  std::vector<Row> rows;
};

/// All that the report shows: a field for each part of the page. Energies are for one GPU per rank. A figure that is
/// not finite is shown as a dash.
struct Data {
  std::string lowgear_version;
  std::string command;       ///< the command line that made this; may be empty
  std::string profile_name;  ///< which stage profile, without a path
  std::string schedule;      ///< name of the schedule
  int stages = 0;            ///< virtual stages
  int microbatches = 0;
  std::vector<double> blocking_power_w;  ///< by rank: power of a waiting GPU
  double late_by_s = 0;                  ///< how long after its unit begins a clock changes; 0: in time
  double clock_lead_s = 0;               ///< how long before a unit the agent requests its clock
  std::optional<api::LateReplay> late;   ///< the chosen plan if clocks were requested only when their units begin

  bool is_comparison = false;  ///< of policies: no plan has been written

  Baseline baseline;
  std::optional<ChangedWork> change = {};            ///< that the plan answers; empty: a first plan
  std::vector<simulator::PipelineFigures> frontier;  ///< vertices of the convex curve, fastest first
  std::vector<simulator::PipelineFigures>
      lower_bound;  ///< same order; empty when the frontier is exact: then it is its own bound
  std::vector<int>
      order_of_point;            ///< by point of a joint frontier: index of its order; empty where the order was given
  std::vector<OrderRow> orders;  ///< empty where the order was given
  std::string memory_limit;      ///< that the orders fit; empty where the order was given
  Certificate certificate;
  std::vector<api::PlanFigures> plans;
  std::optional<int> chosen_plan;  ///< the number of the plan that `chosen` shows; must be among `plans`
  std::vector<api::ComparisonRow> policies;

  Timeline chosen;                    ///< *planned*
  std::vector<Valley> valleys;        ///< of the profile; may be empty
  Timeline baseline_timeline;         ///< *planned*; no ranks: not shown
  std::vector<std::string> warnings;  ///< about the profile or the plan, one line each
};

}  // namespace lowgear::report
