#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "rivals/policies/envpipe/envpipe_config.h"

namespace lowgear::policies {

/// Clocks that an op may run at, by its stage and kind; highest first, never empty.
using EnvPipeClocks = std::map<std::pair<int, OpKind>, std::vector<int>>;
/// The clocks of a profile.
[[nodiscard]] EnvPipeClocks envpipe_clocks(const profile::StageProfile& profile);

/// The lowest of the clocks (sorted, highest first) that is at least `wanted_mhz`; the highest one where all
/// are.
[[nodiscard]] int envpipe_clock_from(std::span<const int> clocks_mhz, int wanted_mhz);

/// State of the reconfiguration between two training steps.
struct EnvPipeState {
  std::vector<int> clocks_mhz;  ///< by op
  std::optional<double> threshold_s =
      {};  ///< of a receive that waits; empty before the first step, and as long as the last rank received nothing
  int unchanged_steps = 0;  ///< in a row
  friend bool operator==(const EnvPipeState&, const EnvPipeState&) = default;
};

/// EnvPipe's reconfiguration (Choi et al., USENIX ATC 2023), a decision for each training step: walks back from the
/// last unit of the first rank, to the previous unit of the rank where receiving was quick and to the sender where it
/// was not. On that path `balanced` raises all units of lowest clock, `greedy` the last unit that can rise, by three
/// steps. A path within the outer envelope is left as it is. Ends after eleven steps without a change. Clocks never
/// fall. Differences: the walk does not fall off the start of a stage; a clock does not rise above the highest one;
/// clocks that the GPU lacks are rounded up. The same receives give the same decisions, whoever measured them.
class EnvPipeReconfiguration {
 public:
  /// `dag` must outlive it. `clocks` has each stage and kind of it, and the clocks that it starts with.
  EnvPipeReconfiguration(const schedule::PipelineDag& dag, EnvPipeClocks clocks, const EnvPipeOptions& options,
                         EnvPipeState state);

  /// The decision of a step.
  struct Step {
    std::vector<int> path;     ///< ops, the last one first
    std::vector<int> raised;   ///< ops whose clock rises with the next training step
    std::string problem = {};  ///< why nothing was decided; empty: it was
  };

  /// One training step. `receive_s`: by op, how long it took to get its input, wait and transfer; 0 where nothing is
  /// received. The first step sets the threshold: the shortest receive of the last rank, times the scale. Where a
  /// receive is missing (not finite, or negative), the step does not count, and nothing changes.
  Step step(std::span<const double> receive_s);

  /// Whether the loop has ended; further steps are allowed.
  [[nodiscard]] bool is_finished() const;
  [[nodiscard]] const std::vector<int>& clocks_mhz() const { return state_.clocks_mhz; }
  [[nodiscard]] const EnvPipeState& state() const { return state_; }
  /// By op: the op on another rank whose result it receives, or -1.
  [[nodiscard]] const std::vector<int>& senders() const { return senders_; }

 private:
  [[nodiscard]] const schedule::ComputeOp& op(int index) const;
  [[nodiscard]] const std::vector<int>& clocks_of(int unit) const;
  [[nodiscard]] bool is_first_of_rank(int index) const;
  [[nodiscard]] std::string missing_in(std::span<const double> receive_s) const;
  void set_threshold(std::span<const double> receive_s);
  [[nodiscard]] std::vector<int> find_path(std::span<const double> receive_s) const;
  [[nodiscard]] bool can_rise(int unit) const;
  void raise_clock(int unit, int by_mhz);
  [[nodiscard]] std::vector<int> units_to_raise(std::span<const int> path) const;

  const schedule::PipelineDag* dag_;
  EnvPipeClocks clocks_;
  EnvPipeOptions options_;
  EnvPipeState state_;
  std::vector<int> senders_;
  std::vector<bool> envelope_;  ///< by op
};

/// A step as EnvPipe prints it, byte for byte: a line `Stage s | ` for each rank, then for each unit its kind and
/// microbatch, its clock in MHz and its receive in ms, `[F0 1350 0.0]` on the path and with spaces in place of the
/// brackets elsewhere. `clocks_mhz` and `receive_s` by op. EnvPipe prints after its decision: the clocks are the next
/// step's.
[[nodiscard]] std::string envpipe_step_text(const schedule::PipelineDag& dag, std::span<const int> clocks_mhz,
                                            std::span<const double> receive_s, std::span<const int> path);

/// The stored state of a reconfiguration.
[[nodiscard]] Json to_json(const EnvPipeState& state);
/// Throws InputError with the JSON path.
[[nodiscard]] EnvPipeState read_envpipe_state(const JsonView& view);

}  // namespace lowgear::policies
