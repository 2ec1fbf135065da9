#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/job/job_outbox.h"
#include "server/job/job_record.h"
#include "server/planning/planning_inputs.h"
#include "server/store/store.h"

namespace lowgear::server {

/// One training job: routes reports of ranks, requests of users and results of planners to the states of its record,
/// and collects their effects. It has no clock, network or disk: the time is an argument (`now_s`, seconds since
/// 1970), and the owner carries the effects out (`take_changes`). `JobTransitions` moves the job from state to state.
class Job {
 public:
  /// `servers` is the policy of a job that states none. Throws InputError when the specification has no schedule that
  /// can run.
  Job(std::string id, protocol::JobSpec spec, double created_s,
      protocol::JobPolicy servers = protocol::JobPolicy::lowgear);

  /// A stored job. `rows` are of this job only. Damaged rows of plans, cells and reports are left out; `left_out` (may
  /// be null) receives their names and the errors. Throws InputError when other rows are damaged.
  [[nodiscard]] static std::unique_ptr<Job> restore(const StoredJob& stored, const StoreContents& rows,
                                                    const MeasuredProfiles& profiles, double now_s,
                                                    std::vector<std::string>* left_out = nullptr);

  // By ranks.
  /// `rank_key` is used when the rank is new. Throws InputError when its place is another rank's.
  [[nodiscard]] RankRegistration register_rank(const protocol::RankSpec& rank, std::string rank_key,
                                               const MeasuredProfiles& profiles, double now_s);
  /// `most_w`: the highest power limit of the rank's GPU, where an agent has said it.
  void report(const protocol::RankReports& reports, double now_s, std::optional<double> most_w = std::nullopt);
  /// Throws InputError unless the plan version was issued to profile.
  void add_cells(const protocol::RankCells& cells, double now_s);
  /// Ignores decisions that the rank has reported before.
  void add_decisions(const protocol::RankDecisions& reported, double now_s);
  /// `failure` has ended it; empty: none is known.
  void finish_rank(int rank, double now_s, std::string failure = {});
  /// Other jobs share the rank's GPU from now on; empty: no other job does.
  void set_shared(int rank, std::optional<SharedGpu> shared, double now_s);
  /// The answer to a rank that has version `after`; null when there is nothing newer.
  [[nodiscard]] std::shared_ptr<const std::string> plan_after(int rank, int after, double now_s);

  // By people and controllers.
  /// Returns the decision that sets the target: an earlier one where it is set already, and then nothing changes.
  std::int64_t set(const JobTarget& target, double now_s);
  /// A signal allows jobs to be this much slower at present.
  void set_signal(double slowdown_pct, std::string_view why, double now_s);
  /// Power budgets need plans that are this much slower than the fastest at present.
  void set_budget(double slowdown_pct, std::string_view why, double now_s);
  /// Over for good, as its ranks or a request say.
  void finish(std::string_view why, double now_s) { end(ServerEvent::job_ended, std::string(why), now_s); }
  /// Over, as its ranks are gone and have not ended it.
  void lose(std::string_view why, double now_s) { end(ServerEvent::job_lost, std::string(why), now_s); }

  /// Another job has measured a profile of this job's key.
  void profile_found(const std::shared_ptr<const MeasuredProfile>& profile, double now_s);
  void planned(const PlanningAnswer& answer, double now_s);

  /// Shows the job as silent once no rank has been heard of for longer.
  void watch_silence(double now_s);
  [[nodiscard]] JobChanges take_changes();
  /// Puts the present rows of these ranks and of the job into the next changes.
  void store_again(const std::set<int>& ranks);

  [[nodiscard]] const JobRecord& record() const { return record_; }

 private:
  explicit Job(JobRecord record);
  void take_refusal(RegisteredRank& rank, const std::string& refusal, double now_s);
  void take_validity(const protocol::TrainingDecision& made, double now_s);
  void count(const JobIteration& iteration, double now_s);
  void take_iterations(double now_s);
  void end(ServerEvent event, std::string why, double now_s);
  std::int64_t note(const JobTargets::Change& change, double now_s);

  JobRecord record_;
  JobOutbox outbox_;
};

/// Shows a job as silent in time, and finishes it when no rank has been heard of for `silence_s`; earlier, after
/// `kSilentS`, where all ranks that had registered have ended.
void finish_if_silent(Job& job, double now_s, double silence_s);

}  // namespace lowgear::server
