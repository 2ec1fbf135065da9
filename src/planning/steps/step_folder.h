#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planning/planner/verifier/verify.h"
#include "planning/steps/foresight.h"
#include "planning/steps/step_run.h"

namespace lowgear::steps {

/// What `run.json` of a plan of steps states beside its tables (`lowgear.steps/1`, docs/formats.md).
struct StepsFile {
  std::string version;
  std::string command;   ///< the command line
  std::string profile;   ///< as given
  std::string lengths;   ///< as given
  std::string recorded;  ///< as given; empty: none
  std::string schedule;
  int steps = 0;
  int fitted_steps = 0;
  int replicas = 0;
  int ranks = 0;
  int microbatches = 0;
  Foresight foresight = Foresight::own;
  int expert_ranks = 0;                  ///< ranks that a replica's experts are on; 0: lengths are not loads of experts
  std::vector<double> blocking_power_w;  ///< by rank
  ClocksPer clocks_per = ClocksPer::unit;
  double clock_lead_s = 0;  ///< how long before its unit a clock is requested
  double late_by_s = 0;     ///< how long after its unit begins a clock changes
  double late_share = 0;    ///< asked for
  std::array<double, 2> margins{};
  bool inferred = false;
  double prediction_error = 0;  ///< `PredictedSteps::error`
  WorkModel model = {};
};

/// Whether the text of a `run.json` is that of a plan of steps.
[[nodiscard]] bool is_steps_file(const planner::PlanFolder::File& file);

/// `unit`, `replica`.
[[nodiscard]] std::string_view name(ClocksPer clocks_per);

[[nodiscard]] std::string write_steps_file(const StepsFile& file);
/// Reads what a check needs; throws InputError.
[[nodiscard]] StepsFile read_steps_file(const planner::PlanFolder::File& file);

/// `steps.csv`: a row for each step and deal.
[[nodiscard]] std::string write_steps_table(const StepRun& run);
/// `replicas.csv`: a row for each step, deal and replica.
[[nodiscard]] std::string write_replicas_table(const StepRun& run);

/// A row of `steps.csv`.
struct StepRow {
  int step = 0;
  Deal deal = Deal::given;
  bool fitted = false;
  std::string note = {};  ///< why it runs at full clocks; the figures are then absent
  StepPair predicted;
  double bound_j = 0;
  double gap_pct = 0;
  std::optional<StepPair> recorded = {};
  bool replayed_by_fit = false;  ///< `recorded` is with the model's times for the step's own amounts
  int line = 0;
};

/// A row of `replicas.csv`.
struct ReplicaRow {
  int step = 0;
  Deal deal = Deal::given;
  int replica = 0;
  std::vector<Origin> origins;
  std::vector<double> predicted_s;
  std::vector<double> recorded_s;
  std::vector<int> clocks_mhz;
  std::vector<PowerNw> flow_nw;             ///< the value, then by op, then by edge
  std::vector<double> predicted_busy = {};  ///< empty: 1
  std::vector<double> recorded_busy = {};
  int line = 0;
};

/// Both throw InputError with file, line and column.
[[nodiscard]] std::vector<StepRow> read_steps_table(const planner::PlanFolder::File& file);
[[nodiscard]] std::vector<ReplicaRow> read_replicas_table(const planner::PlanFolder::File& file);

}  // namespace lowgear::steps
