#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/core/progress.h"
#include "control/server/perseus/settings.h"
#include "control/server/perseus/window.h"

namespace lowgear {

/// What all ranks run until they report: by position of the layout.
struct PerseusSchedule {
  std::vector<std::vector<int>> power_states;  ///< one for each instruction
  /// What they are for. Empty: the position's `pipe_schedule`; given where a rank registered none (Zeus' client).
  std::vector<std::vector<PerseusInstruction>> instructions;
};

/// There is nothing more to run. To the artifact's client, an error whose text contains `[profiling-done]` is the
/// signal to end training.
struct PerseusStop {
  std::string message;
};

using PerseusStep = std::variant<PerseusSchedule, PerseusStop>;

/// A file of results, by its name in the folder of the job.
struct PerseusFile {
  std::string name;
  std::string content;
};

/// Decides what power states a job's windows run at. A window is what ranks do between two requests for a schedule. The
/// same windows always lead to the same schedules: that is how a server that starts anew gets back to where it was.
class PerseusScheduler {
 public:
  virtual ~PerseusScheduler() = default;
  /// What the present window runs at.
  [[nodiscard]] virtual PerseusStep schedule() const = 0;
  /// Whether the present window's measurements matter.
  [[nodiscard]] virtual bool observes() const { return false; }
  /// Ends the present window. `window` by position; empty unless `observes()`. May take long (it plans). Throws
  /// InputError when the measurements cannot be used.
  virtual void end_window(std::span<const PerseusWindow> window) = 0;
  /// What was found out so far.
  [[nodiscard]] virtual std::vector<PerseusFile> files() const { return {}; }
};

/// The layout that the scheduler of these settings works on. `ranks` in the order of ranks, none missing.
[[nodiscard]] PerseusLayout make_perseus_layout(const PerseusSettings& settings, const PerseusJobInfo& job,
                                                std::span<const PerseusRankInfo> ranks);

/// `progress`, which may be null, receives how far a scheduler that plans has come, and may stop it by an exception.
/// Throws InputError when the job is not one that the scheduler can serve: the plans of a solution do not fit it, a
/// clock is not among its power states, it has data or tensor parallelism and the scheduler has none.
[[nodiscard]] std::unique_ptr<PerseusScheduler> make_perseus_scheduler(const PerseusSettings& settings,
                                                                       const PerseusLayout& layout,
                                                                       std::shared_ptr<Progress> progress = nullptr);

/// One power state for everything.
[[nodiscard]] PerseusSchedule uniform_schedule(const PerseusLayout& layout, int power_state);
/// One power state for each position.
[[nodiscard]] PerseusSchedule uniform_schedule(const PerseusLayout& layout, std::span<const int> power_states);

}  // namespace lowgear
