#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/files/file_descriptor.h"
#include "client/measure/iteration_meter.h"
#include "client/measure/unit_log.h"
#include "client/search/held_point.h"
#include "hardware/measure/gpu_meter.h"
#include "planning/adapt/change_controller.h"

namespace lowgear::client {

/// Recognises iterations that contain something else than training, such as an evaluation or a checkpoint in a loop
/// that does not mark when its iterations end: they take over twice the median of the last ones at the same operating
/// point, or less than half of it. Before there are three of these: over 4 times, or less than a quarter, of the median
/// over all points.
class PauseFilter {
 public:
  /// An iteration at a point. Returns whether it is to be left out.
  [[nodiscard]] bool is_pause(int point, double time_s);
  /// How many were left out in a row: where there are many, the job's iterations are others now.
  [[nodiscard]] int in_a_row() const { return in_a_row_; }

 private:
  using Times = std::deque<double>;

  static void keep(Times& times, double time_s);

  std::map<int, Times> of_point_;  ///< the last ones that were not left out
  Times of_all_;
  int in_a_row_ = 0;
};

/// The GPUs of the job while it runs at full speed; 0: not known.
struct FullSpeed {
  double clock_mhz = 0;  ///< mean over an iteration, of the slowest
  double power_w = 0;    ///< of one
};

struct PointSearchOptions {
  PointKind kind = PointKind::clock;
  std::vector<double> values;  ///< full speed first; that alone where the others are chosen
  /// Chooses the points, full speed first; points that the agent does not allow are left out. Empty: they are the
  /// user's.
  std::function<std::vector<double>(const FullSpeed&)> choose;
  adapt::SearchOptions search;
  bool adapts_limit = true;      ///< `max_iterations` is raised to what 30 blocks take
  std::filesystem::path record;  ///< observations and decisions (docs/formats.md); empty: none
};

enum class PointSearchState : unsigned char {
  waiting,    ///< for the GPUs, or for the job's first iterations
  searching,  ///< points are tried
  found,      ///< the job runs at the point that was adopted, until it ends
  none,       ///< no point is shown to save energy: the GPUs' settings are their own
  cut_off,    ///< it could not be searched to its end: likewise
};

struct PointSearchStatus {
  PointSearchState state = PointSearchState::waiting;
  PointKind kind = PointKind::clock;
  double value = 0;               ///< at which the job runs; 0: the GPUs' own choice
  std::int64_t iterations = 0;    ///< that were observed
  adapt::PointEstimate estimate;  ///< of the point that was found, against the first
  adapt::ProbingCost cost;
  std::string reason;  ///< the newest decision, or its next condition; one sentence with the numbers
};

/// Searches the operating point of a job that marks iterations (adapt::ChangeController), and has the job run at the
/// point that is found until this ends. Has no thread: what happens is added on one thread.
///
/// - An iteration counts neither while a setting takes effect, nor with a pause in it.
/// - While the agent is away the block is abandoned and nothing is observed; after a minute, or when the agent refuses,
///   the search is cut off. A point that was found is set again when the agent is back, however long that takes.
/// - It begins anew when many iterations in a row take another time: the job's work is another.
class PointSearch {
 public:
  /// Receives a line for a person when the search begins and ends, and after each of its rounds.
  using Say = std::function<void(std::string_view)>;

  /// `meters`: one for each GPU of the job. Throws InputError when an option is out of range, or the record cannot be
  /// made.
  PointSearch(PointSearchOptions options, HeldPoint held, std::vector<measure::GpuMeter> meters, NowNs now_ns, Say say);
  /// Says so when the search has not ended. The GPUs' settings are their own again.
  ~PointSearch();
  PointSearch(const PointSearch&) = delete;
  PointSearch& operator=(const PointSearch&) = delete;

  void add(std::size_t gpu, const measure::GpuSample& sample) { meters_.at(gpu).add(sample); }
  /// An iteration that begins or ends.
  void add(const UnitRecord& record);
  /// To be called several times a second: asks for the GPUs, and whether they are still held.
  void look();
  /// Safe from any thread.
  [[nodiscard]] PointSearchStatus status() const;

 private:
  void request_gpus();
  void try_points();
  void choose_points();
  void begin_search();
  void observe(const MeasuredIteration& measured, std::uint64_t end_ns);
  void observe(double time_s, double energy_j, bool counted);
  void could_not_switch(const std::string& why);
  void decide(const adapt::IterationSeen& seen, const std::string& problem = {});
  void handle(const adapt::ChangeDecision& decision, const std::string& problem);
  void adopt(const adapt::ChangeDecision& decision);
  void say_progress(const std::vector<adapt::ChangeDecision>& decisions);
  void run_at(int point);
  void keep_held();
  void end(PointSearchState state, std::string reason);
  void write(const std::string& line);
  [[nodiscard]] adapt::ChangeOptions change_options() const;

  PointSearchOptions options_;
  HeldPoint held_;
  std::vector<IterationMeter> meters_;
  NowNs now_ns_;
  Say say_;
  FileDescriptor record_;
  std::optional<adapt::ChangeController> controller_;
  int rounds_said_ = -1;  ///< of this search, whose begin is said, too
  PauseFilter pauses_;
  std::uint64_t since_ns_;             ///< the GPUs are waited for
  std::vector<double> first_times_s_;  ///< of iterations before the search
  FullSpeed full_speed_;               ///< in the last of them
  mutable std::mutex mutex_;           ///< of the status, which only one thread changes
  PointSearchStatus status_;
};

}  // namespace lowgear::client
