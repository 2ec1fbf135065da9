#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lowgear::server {

/// The times of one rank in one iteration. Communication and waiting are no part of the times: a rank that waits for a
/// straggler is none.
struct RankIteration {
  int rank = 0;
  double compute_time_s = 0;   ///< of all its units
  double expected_time_s = 0;  ///< of the same units by the profile, not slowed, at the clocks that they ran at
  /// Share of its GPU's samples, 0 to 1, in which the driver held clocks back for power or for heat.
  double power_throttled_share = 0;
  double thermal_throttled_share = 0;
};

enum class SlowdownCause {
  straggler,         ///< slower than the others, and nothing says why
  power_throttle,    ///< its GPU was held back by a power limit, more than before
  thermal_throttle,  ///< its GPU was held back by heat, more than before
  drift,             ///< of all ranks alike: the profile is stale; measure it again
  none,              ///< the slowdown has gone
};

/// `straggler`, `power_throttle`, `thermal_throttle`, `drift`, `none`.
[[nodiscard]] std::string_view name(SlowdownCause cause);

/// How fast a rank has become, or that it is as fast as planned again.
struct SlowdownChange {
  std::optional<int> rank;  ///< none: all ranks (drift)
  /// Compute time over expected time, divided by the slowdown that all ranks share (drift: the latter); 1 when it is
  /// gone.
  double factor = 1;
  SlowdownCause cause = SlowdownCause::straggler;
  int iterations = 1;  ///< how many iterations, the one just observed included, it has been like this
};

struct StragglerOptions {
  double appears_at = 1.05;     ///< smallest factor of a slowdown that is reported
  double disappears_at = 1.02;  ///< a slowdown of at most this has gone
  /// Mean rank-iterations between false alarms while noise is normal.
  double false_alarm_interval = 1e10;
  double first_noise = 0.02;     ///< relative standard deviation of compute times until enough were seen
  double least_noise = 0.004;    ///< it is never taken to be less
  double throttled_share = 0.2;  ///< by which the share of throttled samples rose: then throttling is the cause
  double drift_at = 1.03;        ///< change of the common level, up or down, that is reported
};

/// Finds ranks that have become persistently slower than their profile says, and reports when they are as fast as it
/// again.
///
/// Each rank's x = log(compute time / expected time), less the level that all ranks have in common, goes into a CUSUM
/// test (Page 1954): S = max(0, S + x - k), with k halfway between the logarithms of `disappears_at` and `appears_at`;
/// S > h is an alarm. A large deviation reaches h in few iterations and a small one in more. h follows from k and the
/// rank's noise by Siegmund's formula for the mean time between false alarms, (exp(2kb) - 2kb - 1) / (2 k^2) with
/// b = h + 1.166, all in units of the noise. One iteration adds at most 0.6 h, and the last two must both be above k:
/// no single outlier is an alarm, and 1.2x at 2 % noise is one after its second iteration. A slowdown is reported when,
/// on top, the mean of the last 2, the last 16 or all iterations since S was 0 is above `appears_at` by 2.5 standard
/// errors.
///
/// Noise is tracked per rank from the differences between iterations (their median, by stochastic approximation), which
/// a slowdown that lasts changes only twice; where a rank's is within a factor of 1.5 of the median of all ranks, that
/// is taken.
///
/// A rank with a known factor is tested in both directions around it; recovery may take one iteration, as clocks that
/// are too high for a while cost less than a job that waits. Eight iterations after a factor was reported it is
/// reported again if their median says otherwise. A shift up or down that more than half of all ranks show at once (and
/// two at least), and any slow one, moves the common level, which is reported as drift once it has settled and the
/// ranks are at it: each change once. A job of one rank has no others to compare with: a sudden change is its slowdown,
/// a slow one is drift.
class StragglerDetector {
 public:
  /// Throws InputError unless `ranks` is in [1, 10^6] and the options are valid.
  explicit StragglerDetector(int ranks, const StragglerOptions& options = {});

  /// The next iteration, of the ranks that have reported it, each once. Throws InputError, and then has changed
  /// nothing, when a rank is out of range or occurs twice, a time is not positive and finite, or a share is not in [0,
  /// 1].
  [[nodiscard]] std::vector<SlowdownChange> observe(std::span<const RankIteration> ranks);

  /// Continues a finding of an earlier detector: the rank is tested around this factor, above 1, as if
  /// it had been found here.
  void assume(int rank, double factor, SlowdownCause cause);
  /// Takes a rank for one that is not slow. Its next iterations are reported anew.
  void forget(int rank);

  /// The present factor of a rank; 1 when it is not slow.
  [[nodiscard]] double factor(int rank) const;
  /// Compute time over expected time that all ranks have in common.
  [[nodiscard]] double common_factor() const;
  /// Relative standard deviation of the rank's compute times.
  [[nodiscard]] double noise(int rank) const;

 private:
  static constexpr std::size_t kHistory = 16;
  static constexpr std::size_t kSettling = 12;

  /// One side of the test.
  struct Cusum {
    double sum = 0;
    int iterations = 0;  ///< since the sum was 0
    void add(double excess, double most);
  };
  struct Rank {
    std::array<double, kHistory> log_ratio{};  ///< of compute time and expected time, of the last iterations, a ring
    std::size_t seen = 0;
    double median_difference = 0;  ///< of |x - previous x|
    double level = 0;              ///< x of the known factor
    bool is_slow = false;
    int iterations_at_level = 0;
    Cusum slower;
    Cusum faster;
    SlowdownCause cause = SlowdownCause::none;
    double power_share = 0;  ///< of the last iterations, the newest weighing half
    double thermal_share = 0;
    double usual_power_share = 0;  ///< mean while it was as fast as profiled, of some 16 iterations
    double usual_thermal_share = 0;
    int usual_iterations = 0;
  };

  void check(std::span<const RankIteration> ranks) const;
  void add(Rank& rank, const RankIteration& iteration) const;
  [[nodiscard]] double noise_of(const Rank& rank) const;
  [[nodiscard]] double threshold(const Rank& rank) const;
  [[nodiscard]] double threshold_at(double noise) const;
  [[nodiscard]] double latest(const Rank& rank, std::size_t back) const;
  [[nodiscard]] double recent_level(const Rank& rank, int iterations) const;
  [[nodiscard]] bool is_slower(const Rank& rank) const;
  [[nodiscard]] bool is_faster(const Rank& rank) const;
  [[nodiscard]] std::optional<double> confirmed_level(const Rank& rank) const;
  [[nodiscard]] SlowdownCause cause_of(const Rank& rank) const;
  void absorb_common_shift(std::span<const RankIteration> ranks);
  [[nodiscard]] std::optional<double> common_shift(std::span<const RankIteration> ranks, double sign) const;
  void move_common_level(double by);
  [[nodiscard]] std::optional<SlowdownChange> judge(int index);
  [[nodiscard]] std::optional<SlowdownChange> judge_slow(int index);
  [[nodiscard]] SlowdownChange set_level(int index, double level, int iterations);
  static void begin_at(Rank& rank, double level, SlowdownCause cause);
  void follow_noise();
  [[nodiscard]] double follow_common_level(std::span<const RankIteration> ranks);
  [[nodiscard]] std::optional<SlowdownChange> judge_common_level(double away);

  StragglerOptions options_;
  double allowance_ = 0;  ///< k
  std::vector<Rank> ranks_;
  double common_ = 0;  ///< log
  double common_noise_ = 0;
  double common_threshold_ = 0;  ///< h at that noise
  double reported_common_ = 0;
  std::array<double, kSettling> recent_common_{};  ///< of the last iterations, a ring
  std::size_t iterations_ = 0;
  int changed_iterations_ = 0;  ///< since when the common level differs from the one that was reported
};

}  // namespace lowgear::server
