#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/unit_log.h"
#include "measure/gpu_meter.h"
#include "profile/recorded_profile.h"

namespace lowgear {

/// A plan of the server that tries clocks out.
struct ProfileRequest {
  int plan_version = 0;
  std::uint64_t from_iteration = 0;
  int settle_iterations = 0;  ///< first of them, not counted
  int iterations = 1;         ///< counted
};

/// What units took under such a plan.
struct ProfileResult {
  int plan_version = 0;
  RecordedProfile profile;  ///< empty when it could not be told
  std::string problem;      ///< why something is missing; empty when nothing is
};

/// Records the units and samples of the iterations of a profile plan in memory, and tells their times and energies by
/// the regression of profile/. Goes on beyond the iterations that were asked for while these are too short for the
/// GPU's energy counter to tell cells apart. Has no thread and no clock of its own.
class ProfileCollector {
 public:
  /// `like` says whose recording it is. Times are told from `start_ns` (CLOCK_MONOTONIC).
  ProfileCollector(Recording like, std::uint64_t start_ns) : recording_(std::move(like)), start_ns_(start_ns) {}

  /// Drops what an earlier request has recorded.
  void begin(ProfileRequest request);
  /// No request is open: another plan is followed.
  void cancel();
  [[nodiscard]] const std::optional<ProfileRequest>& request() const { return request_; }

  void add(const GpuSample& sample);
  /// In order. Returns the result with the last iteration that it needs.
  [[nodiscard]] std::optional<ProfileResult> add(const UnitRecord& record);

 private:
  [[nodiscard]] bool enough() const;
  [[nodiscard]] bool exhausted() const;
  [[nodiscard]] ProfileResult evaluate() const;

  Recording recording_;
  std::uint64_t start_ns_;
  std::optional<ProfileRequest> request_;
  bool counts_ = false;  ///< the iteration under way
  int iterations_ = 0;   ///< counted so far
  int wanted_counter_steps_ = 0;
  int counter_steps_ = 0;
};

}  // namespace lowgear
