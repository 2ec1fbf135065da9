#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "protocol/rank_reports.h"
#include "report/metrics/exposition.h"
#include "server/store/store.h"

namespace lowgear::server {

/// What happened since the server started, counted as it happens.
class Activity {
 public:
  /// An answered request. `route` as the table of routes has it (`/v1/jobs/{job}`), never a path that a client chose,
  /// so that their number is bounded. `seconds` from the request to its answer, long polls apart.
  void request(std::string_view method, std::string_view route, int status, std::optional<double> seconds);
  /// A plan that was made, and how long that took. `kind`: `profile`, `plan`, `quick`.
  void plan(std::string_view kind, double seconds);
  /// A decision of the server, by its kind as in `GET /v1/jobs/{job}/decisions`; `outcome`: `applied`, `failed`.
  void decision(std::string_view kind, std::string_view outcome);
  /// One of a training program. Techniques and changes beyond the first kMaxReported pairs are counted as `other`.
  void reported_decision(std::string_view technique, std::string_view change);
  static constexpr std::size_t kMaxReported = 64;

  [[nodiscard]] const auto& requests() const { return requests_; }
  [[nodiscard]] const auto& request_seconds() const { return request_seconds_; }
  [[nodiscard]] const auto& plan_seconds() const { return plan_seconds_; }
  [[nodiscard]] const auto& decisions() const { return decisions_; }

 private:
  std::map<std::tuple<std::string, std::string, int>, std::uint64_t> requests_;  // method, route, status
  std::map<std::string, metrics::Histogram, std::less<>> request_seconds_;       // by route
  std::map<std::string, metrics::Histogram, std::less<>> plan_seconds_;          // by kind
  /// By actuator, action and outcome.
  std::map<std::tuple<std::string, std::string, std::string>, std::uint64_t> decisions_;
  std::set<std::pair<std::string, std::string>> reported_;  // technique, change
};

/// Time and energy of a job's iterations since the server started, all ranks together, and what its guard decided.
class JobActivity {
 public:
  /// `phase`: the purpose of the plan (`baseline`, `profile`, `train`). Energy is empty where it is not measured.
  void iteration(std::string_view phase, double time_s, std::optional<double> energy_j);
  /// An energy that a rank has reported and that does not count, by why: the name of an EnergyFault, `instance`,
  /// `shared`.
  void energy_left_out(std::string_view why) { ++energies_left_out_[std::string(why)]; }
  [[nodiscard]] const std::map<std::string, std::uint64_t>& energies_left_out() const { return energies_left_out_; }
  /// A decision of the guard: the name of a GuardAction, or `refuse_plan` of a plan that would cost too much time.
  void guard_decision(std::string_view action) { ++guard_decisions_[std::string(action)]; }
  [[nodiscard]] const std::map<std::string, std::uint64_t>& guard_decisions() const { return guard_decisions_; }

  [[nodiscard]] const metrics::Histogram& step_seconds() const { return step_seconds_; }
  [[nodiscard]] const std::map<std::string, metrics::Histogram, std::less<>>& step_joules() const {
    return step_joules_;
  }
  [[nodiscard]] std::uint64_t steps() const { return step_seconds_.count(); }

 private:
  metrics::Histogram step_seconds_{metrics::geometric_bounds(0.01, 2, 16)};
  std::map<std::string, metrics::Histogram, std::less<>> step_joules_;  // by phase
  std::map<std::string, std::uint64_t> energies_left_out_;              // by why
  std::map<std::string, std::uint64_t> guard_decisions_;                // by action
};

/// A job that is not over, as metrics show it: a field for each gauge and label.
struct JobSnapshot {
  std::string job;
  std::string name;
  std::string model;
  std::string gpu;
  std::string schedule;
  std::string state;
  bool simulated = false;
  int ranks = 0;
  int registered = 0;
  std::optional<protocol::JobWork> work;
  int plan_version = 0;
  double slowdown_allowed_ratio = 0;  ///< by the guard, signals included; 0.02 for 2 %
  std::optional<double> planned_step_s;
  std::optional<double> planned_step_j;
  /// Measured at full clocks; without it nothing is said to be saved.
  struct Baseline {
    double step_s = 0;
    std::optional<double> step_j;
  };
  std::optional<Baseline> baseline;
  /// The last iterations against the baseline: shares of it, with standard errors.
  std::optional<double> saved_ratio;
  std::optional<double> saved_error_ratio;
  std::optional<double> slowdown_ratio;
  std::optional<double> slowdown_error_ratio;
  std::map<std::string, int> stragglers;        ///< by cause
  std::map<std::string, std::size_t> problems;  ///< by kind: ranks that it concerns
  /// Where a rank runs that has registered and not ended.
  struct Place {
    int rank = 0;
    std::string host;
    std::string gpu_uuid;
  };
  std::vector<Place> places;              ///< of ranks with a GPU
  const JobActivity* activity = nullptr;  ///< null: nothing is known
};

/// A power budget, as it was split last.
struct BudgetSnapshot {
  std::string name;
  double watts = 0;                       ///< the limit at present
  double planned_w = 0;                   ///< of all jobs there, with assumed power
  double assumed_w = 0;                   ///< of this, what cannot be planned
  double price_per_w = 0;                 ///< GPUs of training that one more watt would bring
  std::optional<double> measured_w = {};  ///< in the last iterations of jobs that report energy; empty: of none
  double measured_gpus = 0;               ///< of these jobs
  /// Sum of the power limits that agents hold; empty: no agent there has asked for a share.
  struct Held {
    double watts = 0;  ///< that limits add up to, where a node is silent at full power
    std::size_t nodes = 0;
    std::size_t silent_nodes = 0;  ///< of them, not heard of
  };
  std::optional<Held> held = {};
  std::vector<std::string> unknown_hosts = {};  ///< that it names, and no rank or agent does; not all of many

  /// But for rounding of sums.
  [[nodiscard]] bool kept() const { return planned_w <= watts * (1 + 1e-6); }
};

/// The values of the server's `/metrics`.
struct Snapshot {
  std::map<std::string, int> jobs;  ///< by state
  std::vector<JobSnapshot> running;
  std::vector<BudgetSnapshot> budgets;
  std::size_t heard_nodes = 0;                  ///< whose agents ask for shares of power
  std::size_t silent_nodes = 0;                 ///< whose agents have asked for them, and are not heard of
  std::optional<double> certificate_expires_s;  ///< seconds since 1970; empty: no TLS is spoken
  std::size_t connections = 0;
  std::size_t streams = 0;  ///< of server-sent events
  std::size_t waiting_for_plans = 0;
  std::size_t planned_for = 0;       ///< jobs, at present
  std::size_t waiting_planning = 0;  ///< jobs that are to be planned for next
  std::size_t perseus_jobs = 0;
  std::size_t perseus_waiting = 0;
  struct Store {
    std::uint64_t changes = 0;
    std::uint64_t commits = 0;
    std::uint64_t refused = 0;
    std::size_t queued_bytes = 0;
    bool disk_full = false;
  };
  Store store;
  struct Audit {
    std::uint64_t lines = 0;
    std::uint64_t lost = 0;
    bool failing = false;
  };
  std::optional<Audit> audit;  ///< empty: none is kept
  bool stale_tokens = false;   ///< the token file has changed and was refused
  bool draining = false;
  const Activity* activity = nullptr;  ///< null: nothing is counted
};

/// All of it. A job's id is the label `job_id`: `job` is what Prometheus calls its own targets. Times are
/// of the server's clock, energies by the reports of ranks.
[[nodiscard]] metrics::Exposition server_metrics(const Snapshot& snapshot);

/// The history of power budgets: a row of each budget once a minute, and at once when its power changes, when it is
/// exceeded, and when it is kept again. With more than 100 budgets, rows are less frequent: at most 100 a minute.
class BudgetHistory {
 public:
  /// Returns the rows that are due. `budgets` are all budgets. `now_s`: seconds since 1970.
  [[nodiscard]] std::vector<StoredBudgetUse> due(std::span<const BudgetSnapshot> budgets, double now_s);

 private:
  struct Last {
    double time_s = 0;
    double limit_w = 0;
    bool kept = true;
  };
  std::map<std::string, Last> last_;  ///< by name
};

}  // namespace lowgear::server
