#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"

namespace lowgear::adapt::freezing {

struct Options {
  double cap = 0.25;           ///< largest share of the blocks that may be frozen
  int dwell_windows = 5;       ///< from one change to the next freezing; doubled by each unfreezing, up to 64 times
  int steady_windows = 3;      ///< in a row in which a block's drift must have been steady
  double steady_drift = 0.1;   ///< relative change of the drift from window to window that counts as steady
  double loss_margin = 0.005;  ///< share by which the held-out loss may exceed its prediction
};

/// A figure that was not measured.
inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

/// Measurements of a window of steps; kNotMeasured where one is missing.
struct Observation {
  std::int64_t steps_done = 0;
  bool warming_up = false;   ///< the schedule of the learning rate was in its warm-up
  double learning_rate = 0;  ///< of the window's last step
  double held_out_loss = 0;  ///< after it
  bool hold = false;         ///< another change of the job is under way: freezing waits
  // By block of the model. Numbers of frozen blocks are ignored.
  std::vector<double> gradients = {};  ///< norm of its averaged gradient
  std::vector<double> drifts = {};     ///< norm of a step's update by that of the weights
};

enum class Change : unsigned char { none, freeze, unfreeze, wait };
[[nodiscard]] std::string_view name(Change change);

struct Decision {
  std::int64_t steps_done = 0;
  std::int64_t blocks = 0;  ///< that are frozen from now on, from the first one; with the embedding
  Change change = Change::none;
  std::string reason;  ///< one sentence with the numbers

  friend bool operator==(const Decision&, const Decision&) = default;
};

/// The memory of a controller.
struct State {
  std::int64_t blocks = 0;           ///< frozen
  std::int64_t windows = 0;          ///< since the last change, or the start
  std::int64_t unfreezings = 0;      ///< so far
  bool trial = false;                ///< the last change froze a block
  int windows_over = 0;              ///< in a row in which the held-out loss exceeded its prediction
  std::optional<double> least_loss;  ///< held-out loss so far
  std::optional<double> learning_rate;
  std::vector<double> gradients;  ///< of the last window, by block; empty before the first
  std::vector<double> drifts;
  std::vector<int> steady;  ///< windows in a row in which a block's drift was steady

  friend bool operator==(const State&, const State&) = default;
};

/// Freezes a growing prefix of a model's blocks, and unfreezes its last ones when that hurts. Meant for fine-tuning.
///
/// Freezes the first trained block when both its relative change of the gradient's norm since the window before
/// (AutoFreeze, Liu et al. 2021) and its drift are in the lower half of those of all trained blocks, and its drift was
/// steady for `steady_windows`: one block at a time, not in the warm-up, `dwell_windows` apart and at most `cap`.
///
/// Unfreezes the last frozen block when the held-out loss exceeds its prediction by the margin in two windows in a row,
/// and when the learning rate rises after the warm-up. The prediction is the least held-out loss so far: training that
/// is not hurt does not get worse than that. A number that is missing or infinite within the dwell after a freezing
/// undoes the freezing. In all other windows nothing changes without numbers.
///
/// While another change is under way (`hold`), it does not freeze but says that it would: `wait`. It still unfreezes.
///
/// Observations in, decisions out: the same ones give the same ones, bit for bit.
class Controller {
 public:
  /// Throws InputError when there is no block, or an option is out of range.
  Controller(std::int64_t blocks, const Options& options);
  /// Continues from a state. Throws InputError also when it is of a model with another number of blocks.
  Controller(std::int64_t blocks, const Options& options, State state);

  /// A window of the whole job. Throws InputError, and then has changed nothing, unless it has a number for each block.
  Decision observe(const Observation& observation);
  /// Unfreezes the block that was frozen last, for a reason that windows do not show: it saved no energy. Throws
  /// InputError when no block is frozen.
  Decision undo(std::int64_t steps_done, std::string reason);
  /// The last freezing is final: a missing number no longer undoes it.
  void confirm() { state_.trial = false; }
  [[nodiscard]] const State& state() const { return state_; }
  /// Blocks that may be frozen.
  [[nodiscard]] std::int64_t most_blocks() const;

 private:
  [[nodiscard]] bool is_usable(const Observation& observation) const;
  [[nodiscard]] Decision decide(const Observation& observation);
  [[nodiscard]] Decision decide_freezing(const Observation& observation) const;
  [[nodiscard]] Decision keep(const Observation& observation, std::string reason) const;
  [[nodiscard]] Decision unfreeze(std::int64_t steps_done, std::string reason) const;
  [[nodiscard]] std::int64_t dwell() const;
  void remember(const Observation& observation);
  void adopt(const Decision& decision);

  std::int64_t blocks_;
  Options options_;
  State state_;
};

// Parts of records and checkpoints. Numbers are read back bit for bit; NaN and infinity are null. Readers throw
// InputError with the JSON path.
[[nodiscard]] Json options_json(const Options& options);
[[nodiscard]] Options options_of(const JsonView& map);
[[nodiscard]] Json state_json(const State& state);
[[nodiscard]] State state_of(const JsonView& map);
[[nodiscard]] Json observation_json(const Observation& seen);
[[nodiscard]] Observation observation_of(const JsonView& map);

}  // namespace lowgear::adapt::freezing
