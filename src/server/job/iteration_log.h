#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/core/formats/json.h"
#include "protocol/rank_reports.h"
#include "server/job/slowest_rank.h"

namespace lowgear::server {

/// One iteration of the whole job.
struct JobIteration {
  std::int64_t iteration = 0;
  int plan_version = 0;            ///< of all ranks that follow one, 0: none does; kMixedPlans when they differ
  int newest_version = 0;          ///< that any rank follows; 0: none does
  int ranks = 0;                   ///< that reported it
  double time_s = 0;               ///< of the SlowestRank
  std::optional<double> energy_j;  ///< sum over GPUs; empty unless every rank of the job measured it
  double energy_error_j = 0;
  /// By rank, of those that reported; otherwise empty.
  std::vector<std::optional<protocol::IterationReport>> reports;
  std::vector<int> lacking{};  ///< ranks that have not finished, and have not reported it; lowest first
  /// The rank that reported a time far above those of all others, and that time, which is left out: ranks that train in
  /// step wait for each other, in this iteration or the next one. Its energy is not known then.
  std::optional<std::pair<int, double>> apart{};
  // Of a job of the policy `steps`.
  std::optional<double> units_time_s{};      ///< until the last unit of any rank; empty unless all ranks report it
  std::optional<double> predicted_time_s{};  ///< of the longest replica's units at full clocks; empty: not known
  bool full_clocks = false;                  ///< some rank had no clocks of its own for the iteration's lengths
  bool is_shared = false;                    ///< another job had GPUs of this one as it ended
};

inline constexpr int kMixedPlans = -1;

[[nodiscard]] Json to_json(const JobIteration& iteration);

/// Iterations that are not counted, as ranks have not reported them.
struct HeldUp {
  std::int64_t first_iteration = 0;
  std::size_t iterations = 0;
  std::vector<int> ranks;  ///< that have not reported the first of them; lowest first
};

/// Puts the reports of all ranks of a job together, iteration by iteration. Ranks of a job train in step: an
/// iteration that one of them alone has reached does not count.
class IterationLog {
 public:
  explicit IterationLog(int ranks);

  /// Throws InputError when an iteration is further ahead of those of other ranks than training can be.
  void require_plausible(const protocol::RankReports& reports, double now_s) const;
  /// Adds reports of a rank, except those that it had sent before. Returns the number of new ones, which are the last.
  /// Throws as
  /// `require_plausible`, and then adds nothing.
  std::size_t add(const protocol::RankReports& reports, double now_s);
  /// The same for reports that were accepted once, and so are not judged again. `since_s`: the job trained from then
  /// on.
  std::size_t restore(const protocol::RankReports& reports, double since_s);
  /// No more reports will come from this rank.
  void finish(int rank);
  /// Whether the energy of this rank's GPU counts with another rank.
  void count_elsewhere(int rank, bool elsewhere) { elsewhere_.at(static_cast<std::size_t>(rank)) = elsewhere; }

  /// The next iteration in order that every unfinished rank has reported or passed, or that is given up because some
  /// rank is kOpenIterations late for kPatienceS; empty when there is none yet.
  [[nodiscard]] std::optional<JobIteration> next(double now_s);
  /// Iterations that have waited for kPatienceS, while ranks went on with later ones.
  [[nodiscard]] std::optional<HeldUp> held_up() const;
  /// The job is over: drops incomplete iterations and returns them. `next` has the rest.
  std::optional<HeldUp> end();

  /// Newest iteration that `rank` has reported; -1: none.
  [[nodiscard]] std::int64_t last_iteration(int rank) const { return last_.at(static_cast<std::size_t>(rank)); }
  /// Newest iteration that two ranks have reported, or the only one that trains; -1: none.
  [[nodiscard]] std::int64_t latest() const { return latest_; }

  /// Iterations that wait for a rank that went silent.
  static constexpr std::int64_t kOpenIterations = 32;
  /// How long they do at least: ranks that could not reach the server for a while report many at once, one by one.
  static constexpr double kPatienceS = 10;
  /// Reports that are kept at most while they wait, or kOpenIterations of all ranks where that is more.
  static constexpr std::size_t kOpenReports = 200'000;
  /// How far a rank may be ahead of `latest()`, or of the lowest iteration before there is one.
  static constexpr std::int64_t kMaxLead = 100'000;
  /// Added to kMaxLead for each second since that iteration was reached: all ranks may have trained on unheard.
  static constexpr double kMostIterationsPerS = 10'000;

 private:
  struct Open {
    std::vector<std::pair<int, protocol::IterationReport>> reports;  ///< with the rank; in the order in which they came
    std::vector<int> passed;  ///< ranks that have reported a later one, and so will never report this one
    double since_s = 0;
  };
  [[nodiscard]] Open& opened(std::int64_t iteration, double since_s);
  [[nodiscard]] bool complete(const Open& open) const;
  [[nodiscard]] std::vector<int> lacking(const Open& open) const;
  [[nodiscard]] bool given_up(std::int64_t iteration, const Open& open, double now_s) const;

  int ranks_;
  std::vector<std::int64_t> last_;
  std::vector<bool> finished_;
  std::vector<bool> elsewhere_;  ///< ranks whose energy counts with another rank
  int finished_ranks_ = 0;
  std::int64_t latest_ = -1;
  double advanced_s_ = 0;  ///< when `latest_` rose, or the first report came
  std::int64_t next_ = 0;  ///< iterations below are closed
  std::map<std::int64_t, Open> open_;
  std::size_t open_reports_ = 0;  ///< in all of them, with the ranks that have passed them
  std::int64_t highest_ = -1;     ///< that any rank has reported
  double heard_s_ = 0;            ///< when the last report came
  int newest_version_ = 0;        ///< in the last iteration that was closed
  SlowestRank slowest_;           ///< since that plan
};

}  // namespace lowgear::server
