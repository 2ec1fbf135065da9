#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/profile/recording.h"

namespace lowgear::experiment {

/// How sure times and energies of a run are (CONTRIBUTING.md, glossary). Those of different kinds do not compare.
enum class Basis : unsigned char { measured, simulated, replayed };
[[nodiscard]] std::string_view name(Basis basis);

/// What the work of a run is counted in: iterations where it is not known how many tokens they have.
enum class WorkUnit : unsigned char { token, iteration };
[[nodiscard]] std::string_view name(WorkUnit unit);

/// One step of all ranks.
struct RunStep {
  double work = 0;  ///< tokens of all replicas, or 1 iteration
  double time_s = 0;
  std::optional<double> energy_j;                      ///< of all GPUs
  std::optional<double> loss;                          ///< mean over the step's tokens, nats
  std::optional<double> held_out_loss = std::nullopt;  ///< measured after the step, nats
};

/// A finished run, as a report reads it.
struct RunRecord {
  std::string source;          ///< name for messages
  std::optional<Basis> basis;  ///< empty: nothing in the run states it, as it has no energy
  WorkUnit unit = WorkUnit::token;
  std::vector<RunStep> steps;           ///< one at least, from the first of the run on
  std::string policy = {};              ///< whose clocks its last step followed; empty: none's, or not stated
  std::string invalid = {};             ///< why its figures mean nothing (run_validity.h); empty: they do
  std::optional<double> sm_clock_mhz;   ///< mean of the samples of all GPUs
  std::optional<double> temperature_c;  ///< the same
  std::vector<std::string> warnings;    ///< one line each

  /// Whether every step has an energy.
  [[nodiscard]] bool has_energy() const;
};

/// Leaves out steps whose times or energies cannot be: a time of 0, energies that stand still, or a power far above or
/// below that of most steps (`check_energy`). Times and energies of the others, by work, stand for them, with a
/// warning. If these are most steps, the run has no energy.
void leave_out_doubtful(RunRecord& run);

/// Reads the metrics file of `lowgear train`: a line of JSON for each step (docs/training.md). A last line that was cut
/// off is left out with a warning, and so are steps that cannot be (`leave_out_doubtful`). Throws InputError with file
/// and line on another format, numbers out of range, steps that do not follow each other from 0 on, and energies of
/// different kinds.
[[nodiscard]] RunRecord read_metrics(std::string_view text, const std::string& source);

/// The run that these ranks have recorded: a step is an iteration that all of them have, from its start to the next
/// one's. Its energy is the difference of the GPUs' counters, in proportion to the time between samples. Iterations for
/// which there are not samples of every GPU, or whose energies are not known (`settle_energy`) or cannot be, are left
/// out with a warning. Throws
/// InputError where ranks have no iteration in common, and when some are of simulated GPUs and others not.
[[nodiscard]] RunRecord recorded_run(std::span<const profile::Recording> recordings, const std::string& source);

/// The same with tokens in the place of iterations.
[[nodiscard]] RunRecord with_tokens(RunRecord run, double tokens_per_iteration);

}  // namespace lowgear::experiment
