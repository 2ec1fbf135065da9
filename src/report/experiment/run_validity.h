#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lowgear::experiment {

/// What a step of a run says about its validity.
struct StepValidity {
  double time_s = 0;
  bool simulated = false;  ///< of its GPUs
  /// The real computation has taken longer than the kernels of the simulated GPUs, from the start of the process to
  /// this step as a whole.
  bool invalid = false;
  bool continued = false;  ///< the first step of a process that continues the run from a checkpoint
};

/// Decides whether the figures of a run mean anything: the summary of `lowgear train`, `lowgear experiment` and
/// `lowgear report` all ask here. A run on simulated GPUs is invalid when a process of it was, as a whole, or when the
/// machine stood still for a good part of it. Steps that are marked and outweighed by later ones are told.
class RunValidity {
 public:
  void add(const StepValidity& step);

  [[nodiscard]] bool invalid() const { return !reason().empty(); }
  /// Why it is invalid; empty when it is not.
  [[nodiscard]] std::string reason() const;
  /// What to say about a run that is valid and has marked steps; empty otherwise.
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

}  // namespace lowgear::experiment
