#pragma once

#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/core/progress.h"
#include "server/perseus/settings.h"
#include "server/perseus/window.h"

namespace lowgear::server::perseus {

/// The power states of all ranks until they report: by position of the layout.
struct Schedule {
  std::vector<std::vector<int>> power_states;  ///< one for each instruction
  /// Their instructions. Empty: the position's `pipe_schedule`; given where a rank registered none (Zeus' client).
  std::vector<std::vector<Instruction>> instructions;
};

/// There is nothing more to run. To the artifact's client, an error whose text contains `[profiling-done]` is the
/// signal to end training.
struct Stop {
  std::string message;
};

using Step = std::variant<Schedule, Stop>;

/// A file of results, by its name in the folder of the job.
struct File {
  std::string name;
  std::string content;
};

/// Decides the power states of a job's windows. A window is the time of ranks between two requests for a schedule. The
/// same windows always lead to the same schedules: that is how a server that starts anew gets back to where it was.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  /// The schedule of the present window.
  [[nodiscard]] virtual Step schedule() const = 0;
  /// Whether the present window's measurements matter.
  [[nodiscard]] virtual bool observes() const { return false; }
  /// Ends the present window. `window` by position; empty unless `observes()`. May take long (it plans). Throws
  /// InputError when the measurements cannot be used.
  virtual void end_window(std::span<const Window> window) = 0;
  /// Doubts about the profile that it has planned with; each once.
  [[nodiscard]] virtual std::vector<std::string> take_doubts() { return {}; }
  /// Results so far.
  [[nodiscard]] virtual std::vector<File> files() const { return {}; }
};

/// The layout that the scheduler of these settings works on. `ranks` in the order of ranks, none missing.
[[nodiscard]] Layout make_perseus_layout(const Settings& settings, const JobInfo& job, std::span<const RankInfo> ranks);

/// `progress`, which may be null, receives the progress of a scheduler that plans, and may stop it by an exception.
/// Throws InputError when the job is not one that the scheduler can serve: the plans of a solution do not fit it, a
/// clock is not among its power states, it has data or tensor parallelism and the scheduler has none.
[[nodiscard]] std::unique_ptr<Scheduler> make_perseus_scheduler(const Settings& settings, const Layout& layout,
                                                                std::shared_ptr<Progress> progress = nullptr);

/// One power state for everything.
[[nodiscard]] Schedule uniform_schedule(const Layout& layout, int power_state);
/// One power state for each position.
[[nodiscard]] Schedule uniform_schedule(const Layout& layout, std::span<const int> power_states);

}  // namespace lowgear::server::perseus
