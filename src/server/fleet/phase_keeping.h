#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "protocol/answers.h"
#include "server/budgets/phases.h"
#include "server/fleet/staggered_job.h"

namespace lowgear::server {

/// Keeps the iterations of jobs at phases against each other for which their power together swings least, by delays
/// before iterations: small ones, again and again, as the times of iterations are never quite the same. Only jobs that
/// can keep one period by their delays are kept at phases; the others are named with the reason.
class PhaseKeeping {
 public:
  /// `most_pct`: as of `workflow::stagger_jobs`. To be called about once a second.
  void follow(std::span<const StaggeredJob> jobs, double most_pct, double now_s);

  /// What the first rank of the job's pipeline should wait; empty: nothing.
  [[nodiscard]] std::optional<protocol::IterationDelays> delays(const std::string& job) const;
  /// From begin to begin of the iterations of a job that is kept at its phase; 0 of another.
  [[nodiscard]] double period_s(const std::string& job) const;
  /// Whether any job waits at present.
  [[nodiscard]] bool acts() const;
  /// Adds to the entry of a job of GET /v1/budgets what is done with it.
  void describe(const std::string& job, Json& entry) const;

 private:
  /// A job that is followed.
  struct Kept {
    std::optional<protocol::IterationDelays> order;  ///< the last one
    double period_s = 0;                             ///< 0: it is left out
    double offset_s = 0;
    double error_s = 0;
    std::string left_out;     ///< why; empty: it is not
    std::string not_delayed;  ///< why it never waits; empty: it can
  };
  /// Jobs whose offsets were chosen together.
  struct Group {
    std::vector<std::pair<std::string, int>> members;  ///< jobs and their plans
    double period_s = 0;
    double most_pct = 0;
    std::vector<double> offset_s;
  };

  [[nodiscard]] PhasedJob predicted(const StaggeredJob& job) const;
  void keep(std::span<const StaggeredJob* const> group, std::vector<PhasedJob> phased, double most_pct);
  [[nodiscard]] const std::vector<double>& offsets(std::span<const StaggeredJob* const> group, double period_s,
                                                   double most_pct);

  std::map<std::string, Kept, std::less<>> kept_;  ///< by job
  std::vector<Group> groups_;
  std::vector<Group> former_;  ///< of the follow before
};

}  // namespace lowgear::server
