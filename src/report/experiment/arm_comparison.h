#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/experiment/interval.h"
#include "report/experiment/run_record.h"

namespace lowgear::experiment {

/// One run of an arm. Runs of an experiment have a block and a seed (`turns_of`).
struct ArmRun {
  RunRecord record;
  std::optional<int> block;
  std::optional<long long> seed;
};

/// Runs with the same settings.
struct Arm {
  std::string name;
  std::vector<ArmRun> runs;
};

/// Which runs of two arms are compared with each other, where they state no blocks.
enum class Pairing : unsigned char {
  none,
  by_order  ///< the first run of an arm with the first of the other
};

struct ComparisonOptions {
  std::string baseline;        ///< name of an arm; empty: the first one
  std::optional<double> loss;  ///< the energy to this loss is compared, nats
  std::optional<double> price_per_kwh;
  std::optional<double> co2_g_per_kwh;
  std::optional<double> loss_margin_pct;  ///< largest accepted rise of the loss; to be fixed before the runs
  Pairing pairing = Pairing::none;
};

/// First steps of a run in which memory is allocated and clocks settle, by number. They are part of every sum, but not
/// of energy and time per token.
inline constexpr int kSettlingSteps = 2;
/// A loss is the mean over the steps before it that have this share of the common tokens: single steps are noisy.
inline constexpr double kLossWindow = 0.05;

/// Compared quantities. Energy, time (also per unit of work), cost and emissions are those of the work that all runs
/// have done (`common_work`).
enum class Quantity : unsigned char {
  energy_per_work,
  time_per_work,
  energy,
  time,
  cost,
  emissions,
  loss_at_work,
  held_out_loss_at_work,
  loss_at_energy,
  energy_to_loss,
  time_to_loss
};
inline constexpr int kQuantities = 11;
/// Member of JSON documents, with the unit: `energy_per_token_j`.
[[nodiscard]] std::string member_name(Quantity quantity, WorkUnit unit);
/// Heading of a table: `J/token`.
[[nodiscard]] std::string heading(Quantity quantity, WorkUnit unit);
/// Whether it depends on learning: runs of one seed are then not independent.
[[nodiscard]] bool depends_on_learning(Quantity quantity);

/// The verdict of the interval of a difference.
enum class Verdict : unsigned char { too_few_runs, no_difference, less, more };
[[nodiscard]] std::string_view text(Verdict verdict);

/// A quantity of an arm, and its difference from the baseline.
struct ArmQuantity {
  Quantity quantity = Quantity::energy_per_work;
  std::optional<Interval> value;           ///< empty where no run has it
  int without = 0;                         ///< runs that do not have it: a loss that was not reached
  std::optional<Interval> difference_pct;  ///< from the baseline; empty for the baseline itself
  bool paired = false;
  Verdict verdict = Verdict::too_few_runs;
  std::optional<bool> within_margin;  ///< a loss: whether the interval lies below the margin; empty without one
};

/// A point of a curve of losses: means over all runs of an arm.
struct LearningPoint {
  double work = 0;
  double energy_j = 0;  ///< 0 without energies
  double loss = 0;
};

struct ComparedArm {
  std::string name;
  int runs = 0;             ///< that are counted
  std::string policy = {};  ///< whose clocks its runs followed, with commas between several; empty: not stated
  std::optional<double> sm_clock_mhz;   ///< mean over the runs that recorded it
  std::optional<double> temperature_c;  ///< the same
  std::vector<ArmQuantity> quantities;  ///< the same ones, in the same order, for all arms
  std::vector<LearningPoint> curve;     ///< empty without losses
};

struct ArmComparison {
  std::optional<Basis> basis;  ///< of all energies and times; empty where no run states it
  WorkUnit unit = WorkUnit::token;
  std::string baseline;
  double common_work = 0;                 ///< that every run has done
  std::optional<double> common_energy_j;  ///< that every run has used; empty without energies
  std::vector<ComparedArm> arms;          ///< in the given order
  std::vector<std::string> warnings;
};

/// Compares arms with the baseline. Runs that are invalid are left out with a warning, and so are steps, by number,
/// that some run lacks before its end: all runs are compared by the same ones. A value of a block (of a seed, for
/// quantities that depend on learning) is the mean over its runs; intervals are over blocks (seeds), or over runs that
/// have none. Throws InputError where the baseline is no arm, two arms have one name, an arm has no valid run, a run
/// has no step that all others have, and where measured, simulated and replayed runs, or tokens and iterations, would
/// have to be compared.
[[nodiscard]] ArmComparison compare_arms(std::vector<Arm> arms, const ComparisonOptions& options);

}  // namespace lowgear::experiment
