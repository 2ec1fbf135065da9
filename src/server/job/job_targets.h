#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/core/formats/json.h"
#include "planning/api/power/power_cap.h"
#include "protocol/job_spec.h"
#include "server/job/profile_watch.h"

namespace lowgear::server {

/// Scope, watts and swing; null without a cap.
[[nodiscard]] Json to_json(const std::optional<api::PowerCap>& cap);
/// Throws InputError naming the scopes.
[[nodiscard]] api::CapScope read_cap_scope(const JsonView& value);

/// A rank takes `factor` times as long as profiled; 1: it is no straggler.
struct StragglerTarget {
  int rank = 0;
  double factor = 1;
};
/// Slowdown of plans against the fastest, and the guard's allowance on top of that. An empty value stays.
struct SlowdownTarget {
  std::optional<double> slowdown_pct;
  std::optional<double> guard_pct;
};
/// A setting of a job by a person or controller; an empty cap ends the cap.
using JobTarget = std::variant<StragglerTarget, std::optional<api::PowerCap>, SlowdownTarget>;

/// Settings of a job by people and controllers, and the decisions that set them.
class JobTargets {
 public:
  explicit JobTargets(const protocol::JobSpec& spec) : slowdown_pct_(spec.slowdown_pct), guard_pct_(spec.guard_pct) {}

  /// The effect of a request.
  struct Change {
    enum class Target : unsigned char { straggler, power_cap, settings };
    Target target = Target::settings;
    int rank = 0;             ///< of a straggler
    std::int64_t set_by = 0;  ///< the earlier decision that set the same: nothing changes; 0: none
    std::string reason;       ///< why it has changed
  };
  /// `factor` 1: the rank is no straggler. `is_detected`: its reports show it to be slow.
  [[nodiscard]] Change set_straggler(int rank, double factor, bool is_detected);
  [[nodiscard]] Change set_power_cap(const std::optional<api::PowerCap>& cap);
  /// An empty value stays.
  [[nodiscard]] Change set_settings(std::optional<double> slowdown_pct, std::optional<double> guard_pct);
  /// The decision that a change has led to.
  void note(const Change& change, std::int64_t decision);
  /// Slowdown that a signal allows at present. Returns whether it has changed.
  [[nodiscard]] bool set_signal(double slowdown_pct);
  /// Slowdown that power budgets require at present. Returns whether it has changed.
  [[nodiscard]] bool set_budget(double slowdown_pct);

  [[nodiscard]] double slowdown_pct() const { return slowdown_pct_; }
  [[nodiscard]] double guard_pct() const { return guard_pct_; }
  /// Slowdown of plans against the fastest by settings and signals alone.
  [[nodiscard]] double wanted_slowdown_pct() const { return std::max(slowdown_pct_, signal_slowdown_pct_); }
  [[nodiscard]] double budget_slowdown_pct() const { return budget_slowdown_pct_; }
  /// Slowdown of plans against the fastest at most.
  [[nodiscard]] double allowed_slowdown_pct() const { return std::max(wanted_slowdown_pct(), budget_slowdown_pct_); }
  /// Whether power is capped, so that full clocks are no way out.
  [[nodiscard]] bool is_capped() const { return power_cap_.has_value() || budget_slowdown_pct_ > 0; }
  /// Slowdown of the job against the baseline at most.
  [[nodiscard]] double guard_limit_pct() const { return guard_pct_ + allowed_slowdown_pct(); }
  [[nodiscard]] const std::optional<api::PowerCap>& power_cap() const { return power_cap_; }
  [[nodiscard]] const SlowRanks& slow() const { return slow_; }

  /// Throws InputError.
  void restore(const JsonView& state);
  /// Sets its members of the job's state.
  void write_state(Json& state) const;

 private:
  SlowRanks slow_;
  std::optional<api::PowerCap> power_cap_;
  double slowdown_pct_;
  double guard_pct_;
  double signal_slowdown_pct_ = 0;
  double budget_slowdown_pct_ = 0;
  std::int64_t power_cap_set_by_ = 0;  ///< decisions; 0: none
  std::int64_t settings_set_by_ = 0;
  std::map<int, std::int64_t> stragglers_set_by_;  ///< by rank, also of former stragglers
};

/// `straggler`, `power_cap`, `settings`: the kind of the decision.
[[nodiscard]] std::string_view name(JobTargets::Change::Target target);

}  // namespace lowgear::server
