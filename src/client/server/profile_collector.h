#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/measure/unit_log.h"
#include "hardware/measure/gpu_meter.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/recorded_profile.h"

namespace lowgear::client {

/// A plan of the server with trials.
struct ProfileRequest {
  int plan_version = 0;
  /// Plans of one sweep are measured together: units recorded under an earlier one still count.
  int sweep = 0;
  std::uint64_t from_iteration = 0;
  /// In their order, not before `from_iteration`. The last iteration of the last one ends the measurement.
  std::vector<plan::ClockTrial> trials;
  int settle_iterations = 0;  ///< after each change of the clock, not counted
  double settle_s = 0;        ///< after each change of the clock, in which units that begin are not counted
};

/// Times and energies of units under such plans, of their whole sweep so far.
struct ProfileResult {
  int plan_version = 0;
  profile::RecordedProfile profile;  ///< empty when nothing could be measured
  std::string problem;               ///< why something is missing; empty when nothing is
};

/// Records the units and samples of a profile plan's iterations in memory, and measures their times and energies by
/// the regression of profile/. Iterations that stalled, as on a busy machine, do not count: those that take 1.5 times
/// the median at their clock, or 1.5 times as long as at the highest clock in proportion to the clocks, which no GPU
/// does. Has no thread and no clock of its own.
class ProfileCollector {
 public:
  /// `like` says whose recording it is. Times count from `start_ns` (CLOCK_MONOTONIC).
  ProfileCollector(profile::Recording like, std::uint64_t start_ns) : like_(std::move(like)), start_ns_(start_ns) {}

  /// Drops what an earlier sweep has recorded.
  void begin(ProfileRequest request);
  [[nodiscard]] const std::optional<ProfileRequest>& request() const { return request_; }
  /// Drops everything, without a result: the request is obsolete, and sweeps are numbered again.
  void reset();
  /// Units were lost, or ran without the plan: the iteration under way does not count.
  void discard_iteration();

  void add(const measure::GpuSample& sample);
  /// In order. Returns the result with the last iteration of the trials.
  [[nodiscard]] std::optional<ProfileResult> add(const UnitRecord& record);
  /// Ends the request early, with the measurements so far, as another plan is followed. Empty without an open request.
  [[nodiscard]] std::optional<ProfileResult> finish();

 private:
  /// An iteration that counts.
  struct Iteration {
    int number = 0;     ///< as its units have it
    int clock_mhz = 0;  ///< that its units had asked for
    double time_s = 0;
  };

  void begin_iteration(const UnitRecord& record);
  void end_iteration(const UnitRecord& record);
  [[nodiscard]] int leave_out_stalled();
  void add_unit(const UnitRecord& record);
  [[nodiscard]] std::int64_t iterations_since_change(std::int64_t iteration) const;
  [[nodiscard]] bool is_last(std::uint64_t iteration) const;
  [[nodiscard]] std::size_t unit_count() const;

  profile::Recording like_;
  std::vector<profile::Recording> parts_;  ///< of the sweep, one for each request
  std::uint64_t start_ns_;
  std::optional<ProfileRequest> request_;
  int sweep_ = 0;
  bool records_ = false;             ///< the iteration under way
  bool settles_ = false;             ///< all of the iteration under way
  std::uint64_t settled_ns_ = 0;     ///< from which units count
  std::size_t iteration_begin_ = 0;  ///< index in its part of the first unit of the iteration under way
  int iterations_ = 0;               ///< recorded so far, all plans of the sweep
  std::vector<Iteration> counted_;   ///< of them, without those in which clocks settled
  std::uint64_t begin_ns_ = 0;       ///< of the iteration under way
  bool has_others_ = false;          ///< there were units that are no op of a schedule
};

}  // namespace lowgear::client
