#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::server {

/// Iteration time of the job at full clocks, as *measured*.
struct IterationBaseline {
  double mean_s = 0;
  double error_s = 0;   ///< standard error of the mean
  double spread_s = 0;  ///< standard deviation of single iterations
};

struct GuardOptions {
  double limit_pct = 0;  ///< slowdown against the baseline that the user allows
  /// Noise beyond the limit, in standard errors, that is no reason to act.
  double significance = 5;
  int window = 64;              ///< most iterations that a mean is taken over
  int reaction_iterations = 3;  ///< until a decision is in effect at all ranks
  /// How much longer than planned an iteration may take before the guard can act: its reserve.
  double surprise_factor = 1.25;
  /// How many iterations (at full clocks) later than the limit the whole job may end.
  double overrun_iterations = 2;
  double hold_s = 300;  ///< from a step back to the first attempt to undo it; doubled by each step back, up to 64 times
};

enum class GuardAction {
  step_back,       ///< the next faster plan of the frontier
  full_clocks,     ///< no plan at all
  recover,         ///< the next slower plan again
  stale_baseline,  ///< full clocks take longer than the baseline says: measure it again
  excuse_stall,    ///< none: time that no plan has caused was taken off the account
};

/// `step_back`, `full_clocks`, ...
[[nodiscard]] std::string_view name(GuardAction action);

/// The plan that the job runs.
struct GuardLevel {
  bool is_full_clocks = false;
  int steps_back = 0;  ///< index into the plans of `set_plans`; meaningless at full clocks

  friend bool operator==(const GuardLevel&, const GuardLevel&) = default;
};

struct GuardDecision {
  GuardAction action = GuardAction::step_back;
  GuardLevel level;    ///< from now on
  std::string reason;  ///< one sentence with the numbers
  int iterations = 0;  ///< of a stale baseline: how many of the newest have shown it; 0 otherwise
};

/// Keeps a job within the slowdown that its user allows whatever the plans state. Two rules:
///
/// Pace: when the mean iteration since the last decision (of at most `window`) is longer than baseline x (1 + limit) by
/// more than `significance` standard errors, of baseline and mean together, the job goes one plan of the frontier back,
/// then another, then to full clocks. A large excess shows after two iterations.
///
/// Job: the sum of all iterations never exceeds that of the baseline x (1 + limit), `overrun_iterations` and three
/// standard errors of the sums (n e + s sqrt(n)) apart, however many plans came in between. A plan runs only while what
/// is left of that covers (reaction_iterations + 1) iterations of surprise_factor x its planned time; as soon as it
/// does not, the job goes to full clocks. This holds as long as no iteration takes longer than that factor times its
/// plan's time. An iteration at full clocks is not slowed down, by definition, whatever it takes, and earns the limit.
///
/// A stall is no reason to act: clocks slow down every iteration, while storage, network and a busy machine hold up
/// single ones. What one or two iterations in a row take beyond their plan, of which the first takes more than twice as
/// long as planned, is excused when the next one takes no longer than surprise_factor times the fastest plan that may
/// be in effect then; otherwise it counts then. Two stalls are excused, and one more for every 16 iterations: what
/// recurs more often may come from the plan.
///
/// A step back is undone one step at a time, each after a hold.
class SlowdownGuard {
 public:
  /// Throws InputError when a number is not finite, the baseline's mean is not positive or an option out of range.
  SlowdownGuard(const IterationBaseline& baseline, const GuardOptions& options);

  /// The plans from now on, by planned iteration time: the wanted one first, then faster ones, one step back each. The
  /// level stays, as far as there are as many. The guard says by `level` what to run: a job's first plan may have to
  /// wait. `full_clock_scale` as in `observe`, under the slowdowns that the plans take into account. Throws InputError
  /// when there is no plan, a time or the scale is not positive and finite, or the times do not fall.
  void set_plans(std::vector<double> planned_times_s, double full_clock_scale = 1);

  /// An iteration of the whole job. `full_clock_scale`: how many times as long as the baseline it would have taken at
  /// full clocks under the slowdowns that are known now, by replay (1.2 when a straggler of 1.2 holds everyone up).
  /// `now_s` on any steady clock; going back counts as standing still. Throws InputError, and then has changed nothing,
  /// when a number is not positive and finite, or before `set_plans`.
  [[nodiscard]] std::optional<GuardDecision> observe(double now_s, double iteration_time_s,
                                                     double full_clock_scale = 1);

  /// The next iteration to be observed does not run the plans of `set_plans`: they have not reached the ranks yet. It
  /// says nothing of their pace, and counts for the job all the same.
  void not_in_effect();

  /// Takes time off the job's account that no plan has caused: the iterations until a straggler was recognised.
  /// Throws InputError unless it is 0 or more and finite.
  void excuse(double time_s);

  /// Another measurement of the baseline; the account stays.
  void set_baseline(const IterationBaseline& baseline);

  [[nodiscard]] GuardLevel level() const { return level_; }
  /// Of its options.
  [[nodiscard]] double limit_pct() const { return options_.limit_pct; }
  /// Time beyond baseline x (1 + limit) since the start; below 0 when there is some left.
  [[nodiscard]] double lost_s() const { return account_.lost_s; }
  /// How much it may become.
  [[nodiscard]] double allowed_s() const;

 private:
  struct Pace {
    double mean = 0;   ///< ratio to the baseline
    double error = 0;  ///< its standard error, the baseline's included
    int iterations = 0;
  };

  /// Of the whole job.
  struct Account {
    double lost_s = 0;
    double iterations = 0;
  };
  /// The last change of level, until it is in effect and may be undone.
  struct LastChange {
    double at_s = 0;
    double hold_s = 0;
    int settling = 0;             ///< iterations until it is in effect
    double in_flight_time_s = 0;  ///< planned time of what may still run meanwhile; 0: full clocks
  };

  [[nodiscard]] double limit() const { return 1 + options_.limit_pct / 100; }
  [[nodiscard]] int last_step() const { return static_cast<int>(planned_times_s_.size()) - 1; }
  [[nodiscard]] double planned_time_s(const GuardLevel& level) const;
  [[nodiscard]] double reserve_s(double planned_time_s) const;
  /// Iterations that took much longer than planned, until it shows whether what held them up lasts.
  struct Stall {
    int iterations = 0;
    double time_s = 0;     ///< that they took
    double planned_s = 0;  ///< of that, counted so far
    double allowance = 0;  ///< stalls that may still be excused
  };
  /// Of the slowest plan that may be in effect.
  [[nodiscard]] double planned_time_in_effect_s() const;
  /// Of the fastest one; one of them must be in effect.
  [[nodiscard]] double fastest_in_effect_s() const;
  [[nodiscard]] Pace pace() const;
  /// Returns the excuse of a stall that has ended.
  std::optional<GuardDecision> account(double now_s, double iteration_time_s);
  /// The part of an iteration that counts at present, and the excuse.
  [[nodiscard]] double without_stall(double iteration_time_s, std::optional<GuardDecision>& excuse);
  [[nodiscard]] std::optional<GuardDecision> check_job();
  [[nodiscard]] std::optional<GuardDecision> check_pace();
  [[nodiscard]] std::optional<GuardDecision> check_baseline();
  [[nodiscard]] std::optional<GuardDecision> recover();
  [[nodiscard]] GuardDecision change(GuardAction action, GuardLevel level, std::string reason);

  IterationBaseline baseline_;
  GuardOptions options_;
  std::vector<double> planned_times_s_;
  GuardLevel level_;
  std::deque<double> ratios_;  ///< iteration time / (baseline x scale), since the last decision was in effect
  double scale_ = 1;
  double now_s_ = 0;
  LastChange change_;
  Account account_;
  Stall stall_;
  bool is_started_ = false;
  bool is_stale_reported_ = false;
};

}  // namespace lowgear::server
