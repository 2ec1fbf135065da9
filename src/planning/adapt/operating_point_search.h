#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lowgear::adapt {

/// An operating point is one way to run a job: a plan of the frontier, a clock, a power limit.
inline constexpr int kMaxOperatingPoints = 64;

struct SearchOptions {
  double allowed_slowdown_pct = 0;  ///< against the first point
  double block_s = 30;              ///< least counted time of a block
  int settle_iterations = 1;        ///< of a block, not counted: clocks change in them
  double confidence = 0.99;         ///< of the two-sided intervals by which points are dropped
  /// The search ends when no point that is left can use less energy than the best one by more than this share.
  double tolerance = 0.005;
  /// Limit on the iterations of all rounds; the first two rounds, which every search needs, may exceed it.
  int max_iterations = 300;
  /// Time is not measured exactly: a point may exceed the allowed slowdown by half of this, and the search continues
  /// until the best point does not exceed it by all of this, with confidence.
  double slowdown_tolerance_pct = 0.5;
};

enum class SearchAction {
  dropped_as_slow,    ///< even the lower limit of its slowdown is above the allowed one
  dropped_as_costly,  ///< even the lower limit of its energy is above that of the best one
  chosen,             ///< the search is over
};

struct SearchDecision {
  SearchAction action = SearchAction::chosen;
  int point = 0;       ///< index
  std::string reason;  ///< one sentence with the numbers

  friend bool operator==(const SearchDecision&, const SearchDecision&) = default;
};

/// Time and energy of a point against the first one, from its rounds.
struct PointEstimate {
  int rounds = 0;
  double slowdown_pct = 0;
  double energy_pct = 0;
  /// Half the widths of their confidence intervals; infinite before the second round.
  double slowdown_error_pct = 0;
  double energy_error_pct = 0;
};

/// Cost of the search to the job since its construction, against as many iterations at the first point. Of finished
/// blocks.
struct ProbingCost {
  int iterations = 0;
  double time_s = 0;
  double energy_j = 0;  ///< below 0 where the points that were tried save energy
};

struct SearchProgress {
  int rounds = 0;      ///< that are over
  int points = 0;      ///< that are left, with the first
  double round_s = 0;  ///< what a round of them takes at least
};

/// Finds by measurement which of a few operating points uses least energy per iteration within the allowed slowdown
/// (against the first point, which is the job at full speed). A round runs every point that is left in a block of at
/// least `block_s`, and then all again in reverse order (with two points: ABBA), so that a linear drift of the machine
/// cancels. A point's result is the mean of its two blocks, and is only compared with results of the same rounds, so
/// that what changes from round to round cancels, too.
///
/// Points are dropped by Student intervals after each round: when even the lower limit of their slowdown is above the
/// allowed one, or of their energy above that of the best. The variance is estimated from the two blocks of each point
/// and from round to round, and taken to be the same for all. The search ends, after two rounds at least, when no point
/// can be better by more than the tolerance, or when there is no room for another round.
///
/// Decisions depend on nothing but the observations: the same in the same order give the same decisions. When the plan
/// changes, `restart` with its points: earlier measurements say nothing about them.
class OperatingPointSearch {
 public:
  /// `points` by name, for reasons: `1.0025 x T_min`, `1380 MHz`. Throws InputError when there are fewer than 2 or more
  /// than kMaxOperatingPoints, or an option is out of range.
  OperatingPointSearch(std::vector<std::string> points, const SearchOptions& options);

  /// The point to run now; after the search, the chosen one.
  [[nodiscard]] int current() const;
  [[nodiscard]] bool is_done() const { return chosen_.has_value(); }

  /// An iteration of the whole job at the current point. Returns the decisions after it, usually none. After the
  /// search it does nothing. Throws InputError, and then has changed nothing, unless both are positive and finite.
  std::vector<SearchDecision> observe(double iteration_time_s, double energy_j);

  /// Forgets the current block, which is then repeated: there was a checkpoint, a pause or a straggler in it. Its
  /// iterations are not counted: the search did not cause their time and energy.
  void abandon_block();

  /// Begins again, with the points of another plan. Throws InputError as the constructor does, and then has changed
  /// nothing.
  void restart(std::vector<std::string> points);

  /// Throws InputError when there is no such point.
  [[nodiscard]] PointEstimate estimate(int point) const;
  [[nodiscard]] ProbingCost cost() const;
  [[nodiscard]] SearchProgress progress() const;

 private:
  /// Sums over iterations, or their means, or logarithms of means.
  struct Sample {
    int iterations = 0;
    double time = 0;
    double energy = 0;
  };
  struct Point {
    std::string name;
    bool is_live = true;
    std::vector<Sample> rounds;  ///< logarithms of the mean time and energy of an iteration
  };
  /// Squares of deviations from the points' means, scaled to have the variance of one result.
  struct Spread {
    int degrees_of_freedom = 0;
    double time = 0;
    double energy = 0;
  };

  [[nodiscard]] std::vector<int> live_points() const;
  void begin_round();
  [[nodiscard]] std::vector<SearchDecision> end_round();
  void add_spread_within_round();
  void add_spread_between_rounds();
  [[nodiscard]] Sample difference(int point, int other) const;
  [[nodiscard]] double half_width(double squares, std::size_t rounds) const;
  [[nodiscard]] double excess_time(int point) const;  ///< logarithm; above 0: too slow
  [[nodiscard]] int best_point() const;
  void drop_points(std::vector<SearchDecision>& decisions);
  [[nodiscard]] std::string reason_to_end(int best, bool has_room) const;

  SearchOptions options_;
  std::vector<Point> points_;
  std::vector<int> order_;      ///< of the blocks of this round
  std::vector<Sample> blocks_;  ///< of this round, as far as done: means
  Sample block_;                ///< sums
  Sample block_with_settling_;  ///< the same, with iterations to settle
  int settling_ = 0;            ///< iterations of the block that are left to settle
  Sample all_;                  ///< sums over all blocks since the start or restart, with iterations to settle
  Sample first_;                ///< the same of the first point, without
  Spread spread_;
  std::optional<int> chosen_;
  ProbingCost charged_;  ///< before the last restart
};

/// How many points are searched among unless the user names them.
inline constexpr std::size_t kDefaultPoints = 6;

/// SM clocks to search an operating point among, for a job of which no more is known than the clock that it runs at
/// when the highest one is requested, `running_mhz` (below that where a power limit holds it back): the highest
/// supported one; the lowest that a job which computes all the time can have within the allowed slowdown, as its time
/// is then inversely proportional to the clock; and evenly below that down to 0.55 of the highest, for jobs that wait
/// or are bound by memory. There an iteration's energy is past its least: published stage profiles of Perseus have the
/// least energy at 0.77 (A100) and 0.59 (A40) of the highest clock.
///
/// Highest first, at most kDefaultPoints. `supported_mhz` in any order. Throws InputError when there are fewer than 2.
[[nodiscard]] std::vector<int> default_clocks_mhz(std::span<const int> supported_mhz, double running_mhz,
                                                  double allowed_slowdown_pct);

/// Power limits to search among: the default one, and evenly from just below the power that the job draws with it,
/// `running_w`, down to half of that, or to the least limit that the GPU supports. In whole watts, highest first, at
/// most kDefaultPoints. Throws InputError when there are fewer than 2.
[[nodiscard]] std::vector<double> default_power_limits_w(double min_w, double default_w, double running_w);

}  // namespace lowgear::adapt
