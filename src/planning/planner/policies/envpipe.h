#pragma once

#include <optional>

#include "planning/planner/policies/policy.h"

namespace lowgear::planner {

/// EnvPipe's settings, by its own names where it has some.
struct EnvPipeOptions {
  /// `uniform`: every op at the clock at which its stage used least energy. `envelope`: the outer envelope and all of
  /// the last stage at the highest clock, the others as `uniform`.
  enum class Type { uniform, envelope };
  /// `given`: the order of the problem's schedule. `own`: EnvPipe's, with more forwards before the first backward.
  enum class Order { given, own };
  /// `off`: EnvPipe's `default`.
  enum class Reconfiguration { off, greedy, balanced };

  Type type = Type::envelope;
  Order order = Order::own;
  Reconfiguration reconfiguration = Reconfiguration::balanced;
  int profile_step_mhz = 90;  ///< distance of the clocks it profiles; EnvPipe's is the same on every GPU
  int raise_step_mhz = 30;    ///< least rise of a clock in one reconfiguration
  /// A unit waits for its input, rather than for its GPU, when receiving takes this many times the shortest receive.
  double threshold_scale = 4;
  /// Activations that fit into the memory of a stage beyond those of 1F1B; none means no limit. Bounds `own`.
  std::optional<int> extra_activations = std::nullopt;
  /// Time that a transfer takes once both sides are ready; part of every simulated receive. Decides how much waiting
  /// goes unnoticed. 1 ms is 25 MB at 25 GB/s.
  double transfer_s = 1e-3;
};

/// EnvPipe (Choi et al., USENIX ATC 2023) as its authors built it: a closed loop around a running training, here around
/// simulated iterations.
///   1. Profiles, in the given order: all stages together at one clock after the other (but for `uniform`, the last
///   stage stays at its
///      highest); each stage keeps the clock at which it used least energy per iteration, blocking included.
///   2. Orders: `own` delays the first backward of stage s by as many slow forwards as fit into the wait for it.
///   3. Reconfigures, one training step at a time: walks back from the last unit of the first rank, to the previous
///      unit of the rank where receiving was quick and to the sender where it was not. On that path `balanced` raises
///      all units of lowest clock, `greedy` the last unit that can rise by three steps. Ends when nothing on the path
///      can rise in eleven steps running. Clocks never fall.
/// Differences: the profiled clocks start at the highest one (EnvPipe takes multiples of 90 MHz, which leaves A100's
/// 1410 MHz out); an order that could hang is not made (envpipe_extra_forwards); the walk does not fall off the start
/// of a stage; clocks are kept to those of the profile.
class EnvPipePolicy final : public Policy {
 public:
  /// Throws InputError unless steps are within 1 and 10^6 MHz, the scale and the transfer are finite and not negative,
  /// and so are the extra activations.
  explicit EnvPipePolicy(const EnvPipeOptions& options = {});

  [[nodiscard]] std::string_view name() const override { return "envpipe"; }
  /// Ignores the deadline. The note says how many training steps the loop takes. Throws InputError when the stages
  /// share no clock, or when the own order is asked for and rank s does not run just stage s, with whole backwards.
  [[nodiscard]] PolicyPlan plan(const PlanningProblem& problem, std::optional<double> deadline_s) const override;

 private:
  EnvPipeOptions options_;
};

}  // namespace lowgear::planner
