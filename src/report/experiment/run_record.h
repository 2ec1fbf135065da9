#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/profile/recording.h"

namespace lowgear::experiment {

/// A step's evidence on the validity of its run.
struct StepValidity {
  double time_s = 0;
  bool simulated = false;  ///< of its GPUs
  /// The real computation has taken longer than the kernels of the simulated GPUs, from the start of the process to
  /// this step as a whole.
  bool invalid = false;
  bool continued = false;  ///< the first step of a process that continues the run from a checkpoint
};

/// Decides whether the figures of a run mean anything: the summary of `lowgear train`, `lowgear runs experiment` and
/// `lowgear runs report` all ask here. A run on simulated GPUs is invalid when a process of it was, as a whole, or when
/// the machine stood still for a good part of it. It notes marked steps that later ones outweigh.
class RunValidity {
 public:
  void add(const StepValidity& step);

  [[nodiscard]] bool invalid() const { return !reason().empty(); }
  /// Why it is invalid; empty when it is not.
  [[nodiscard]] std::string reason() const;
  /// A sentence about the marked steps of a valid run; empty otherwise.
  [[nodiscard]] std::string note() const;

 private:
  [[nodiscard]] bool stood_still() const;

  std::vector<double> times_s_;
  std::int64_t marked_ = 0;
  std::optional<std::int64_t> last_marked_;
  bool simulated_ = false;
  bool now_ = false;      ///< the process of the last step is invalid
  bool earlier_ = false;  ///< one before it was
};

/// How sure times and energies of a run are (CONTRIBUTING.md, glossary). Those of different kinds do not compare.
enum class Basis : unsigned char { measured, simulated, replayed };
[[nodiscard]] std::string_view name(Basis basis);

/// Unit of the work of a run: iterations where their number of tokens is not known.
enum class WorkUnit : unsigned char { token, iteration };
[[nodiscard]] std::string_view name(WorkUnit unit);

/// One step of all ranks.
struct RunStep {
  std::int64_t number = 0;  ///< from 0, the run's first one; rises by more than 1 where steps were left out
  double work = 0;          ///< tokens of all replicas, or 1 iteration
  double time_s = 0;
  std::optional<double> energy_j;                      ///< of all GPUs
  std::optional<double> loss;                          ///< mean over the step's tokens, nats
  std::optional<double> held_out_loss = std::nullopt;  ///< measured after the step, nats
  bool invalid = false;  ///< marked: times and energies of the run up to here do not count
};

/// A time on the monotonic clock of a machine, in which a step used a GPU.
struct GpuUse {
  std::int64_t step = 0;
  double begin_s = 0;
  double end_s = 0;
};

/// A GPU in the iterations of a run.
struct UsedGpu {
  std::string uuid;
  std::string boot_id;       ///< of its machine
  std::vector<GpuUse> uses;  ///< with rising steps and times
};

/// A finished run, as a report reads it.
struct RunRecord {
  std::string source;          ///< name for messages
  std::optional<Basis> basis;  ///< empty: nothing in the run states it, as it has no energy
  WorkUnit unit = WorkUnit::token;
  std::vector<RunStep> steps;           ///< one at least, with rising numbers
  std::string policy = {};              ///< whose clocks its last step followed; empty: none's, or not stated
  std::string invalid = {};             ///< why its figures mean nothing (run_record.h); empty: they do
  std::optional<double> sm_clock_mhz;   ///< mean of the samples of all GPUs
  std::optional<double> temperature_c;  ///< the same
  std::vector<UsedGpu> gpus = {};       ///< of a recording that names GPUs and times
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
/// one's, as a mean of the ranks; all of them take as long as on the rank that takes longest for all. Its energy is the
/// difference of the GPUs' counters, in proportion to the time between samples. Iterations for which there are not
/// samples of every GPU, or whose energies are not known (`settle_energy`) or cannot be, are left out with a warning.
/// Throws InputError where ranks have no iteration in common, and when some are of simulated GPUs and others not.
[[nodiscard]] RunRecord recorded_run(std::span<const profile::Recording> recordings, const std::string& source);

/// The same with tokens in the place of iterations.
[[nodiscard]] RunRecord with_tokens(RunRecord run, double tokens_per_iteration);

/// Sums over the first steps of a run.
struct RunSums {
  double work = 0;
  double time_s = 0;
  double energy_j = 0;
};

[[nodiscard]] RunSums all_sums(const RunRecord& run);
/// Sums up to this amount of work, which the run has done, over the steps whose numbers are not below `first`; the step
/// in which it is reached counts in proportion.
[[nodiscard]] RunSums sums_at_work(const RunRecord& run, double work, int first = 0);

/// The number of whole steps within `work`.
[[nodiscard]] std::size_t steps_within(const RunRecord& run, double work);

/// Energy and time per unit of this work, without steps whose numbers are below `settling` unless there are no others.
[[nodiscard]] RunSums mean_per_work(const RunRecord& run, double work, int settling);

/// Mean loss over the last `window` of the work that was done in whole steps within `work` (or with `energy_j`), one
/// step at least. Empty when the first step has more, or a step has no loss.
[[nodiscard]] std::optional<double> loss_at_work(const RunRecord& run, double work, double window);
[[nodiscard]] std::optional<double> loss_at_energy(const RunRecord& run, double energy_j, double window);
/// The held-out loss as measured last after whole steps within `work`; empty when there was none.
[[nodiscard]] std::optional<double> held_out_loss_at_work(const RunRecord& run, double work);
/// Sums when that mean loss is this one or lower for the first time; empty when it never is.
[[nodiscard]] std::optional<RunSums> sums_at_loss(const RunRecord& run, double loss, double window);

}  // namespace lowgear::experiment
