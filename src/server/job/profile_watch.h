#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "server/steering/straggler_detector.h"

namespace lowgear::server {

/// A rank that is slower than its profile.
struct SlowRank {
  double factor = 1;
  std::string cause;  ///< `reported`, or the detector's cause
};

/// Slow ranks by rank.
using SlowRanks = std::map<int, SlowRank>;
/// A list of rank, factor and cause; and back. Reading throws InputError.
[[nodiscard]] Json to_json(const SlowRanks& slow);
[[nodiscard]] SlowRanks read_slow_ranks(const JsonView& list);

/// All ranks take another time than profiled.
struct Drift {
  double factor = 1;
  std::int64_t since_iteration = 0;
};

/// Compares the times of a job's ranks with their profile: detects stragglers and outdated profiles.
class ProfileWatch {
 public:
  explicit ProfileWatch(int ranks) : ranks_(ranks) {}

  /// Another profile is measured: forgets findings by the present one.
  void begin_profile(double now_s);
  /// Takes the ranks of an iteration, at least one, and returns changes.
  [[nodiscard]] std::vector<SlowdownChange> observe(const std::vector<RankIteration>& measured, std::int64_t iteration);
  /// The drift for which another profile is worth its cost, once `iteration` is complete: at most one an hour,
  /// unless the drift lasts. To be called once an iteration, and followed by `begin_profile`.
  [[nodiscard]] std::optional<Drift> outdated_profile(std::int64_t iteration, double now_s);

  /// Compute time over profiled time that all ranks have in common, and that factors of slow ranks are relative to.
  [[nodiscard]] double common_factor() const { return detector_ ? detector_->common_factor() : 1; }
  /// As the reports of the ranks show.
  [[nodiscard]] const SlowRanks& slow() const { return slow_; }
  /// A user states that the rank is not slow.
  void forget(int rank);

  /// Throws InputError.
  void restore(const JsonView& state);
  /// Sets its members of the job's state.
  void write_state(Json& state) const;

  static constexpr std::int64_t kLastingIterations = 50;

 private:
  [[nodiscard]] StragglerDetector& detector();

  int ranks_;
  std::optional<StragglerDetector> detector_;
  SlowRanks slow_;
  std::optional<Drift> drift_;                            ///< from the profile in use
  std::optional<double> profiled_s_;                      ///< when the last profile was begun
  std::int64_t lasting_iterations_ = kLastingIterations;  ///< after which a drift leads to a profile within the hour
};

}  // namespace lowgear::server
