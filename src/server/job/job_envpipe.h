#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "protocol/job_spec.h"
#include "rivals/policies/envpipe/envpipe_reconfiguration.h"
#include "server/job/iteration_log.h"
#include "server/job/job_outbox.h"
#include "server/job/rank_registry.h"
#include "server/planning/measured_job.h"

namespace lowgear::server {

/// The progress of a job's policy `envpipe`: a decision for each iteration in which all ranks follow its newest plan.
class EnvPipeFollowing {
 public:
  /// Whether a decision by this iteration is due. `serial`: of the newest task, which a decision may be.
  [[nodiscard]] bool decides_by(const JobIteration& iteration, int newest_version, std::uint64_t serial) const;
  /// This task decides.
  void ask(std::uint64_t serial) { asked_ = serial; }
  /// Returns whether there is a plan to issue: a decision may leave the clocks that the ranks follow.
  [[nodiscard]] bool take(const EnvPipeOutcome& outcome, std::uint64_t serial, JobOutbox& outbox, double now_s);
  /// The plan with these clocks was issued.
  void follow(int version) { version_ = version; }

  /// Without clocks before the first plan.
  [[nodiscard]] const policies::EnvPipeState& state() const { return state_; }
  /// The reconfiguration has ended.
  [[nodiscard]] bool is_finished() const { return is_finished_; }

  /// Throws InputError.
  void restore(const JsonView& state);
  /// Sets its member of the job's state once there is a plan.
  void write_state(Json& state) const;

 private:
  policies::EnvPipeState state_;
  bool is_finished_ = false;
  int version_ = 0;          ///< of the plan with these clocks; 0: none
  std::uint64_t asked_ = 0;  ///< serial of the task that decides
  std::string problem_;      ///< of the last decision; empty: it succeeded
};

/// The times that the ranks of the first replica have waited for receives, by op; not a number where one has not
/// reported them.
[[nodiscard]] std::vector<double> receive_waits_s(const JobIteration& iteration, const RankRegistry& ranks,
                                                  const schedule::Schedule& schedule);

/// Compares the order of a job's schedule `envpipe`, which ranks cannot change while they train, with the order that
/// its profile asks for.
class OrderCheck {
 public:
  /// No profile fits the job yet. Decides nothing for another schedule.
  void report_assumed(const protocol::JobSpec& spec, JobOutbox& outbox, double now_s);
  /// The job uses another profile.
  void expect() { is_due_ = true; }
  /// A comparison with the profile is due.
  [[nodiscard]] bool is_due() const { return is_due_; }
  void take(const JobOrder& order, JobOutbox& outbox, double now_s);

  /// Throws InputError.
  void restore(const JsonView& state);
  /// Sets its member of the job's state.
  void write_state(Json& state) const;

 private:
  bool is_due_ = false;
  std::string note_;  ///< the last decision; empty: none
};

}  // namespace lowgear::server
