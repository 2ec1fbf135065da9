#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "server/job/job.h"

namespace lowgear::server {

/// A specification of a small job: 1F1B on `pp` stages.
[[nodiscard]] protocol::JobSpec small_job(int pp, int dp = 1, int microbatches = 6);

/// A job and its ranks, which train as a profile says. Plans are made at once, in the calls that ask for them, unless
/// the test says otherwise.
class SimulatedJob {
 public:
  /// `servers` is the policy of a job that states none.
  explicit SimulatedJob(protocol::JobSpec spec, std::string id = "j-1",
                        protocol::JobPolicy servers = protocol::JobPolicy::lowgear);

  void register_all();
  /// Runs iterations: ranks begin plans at their boundaries, report, and post cells when a profile plan is through.
  void run(int iterations);
  /// Runs until the job is in the state; false when it is not within `iterations`.
  [[nodiscard]] bool run_until(JobState state, int iterations = 400);

  /// Registers all ranks, and runs until they follow a plan. Throws std::runtime_error when there is none in time.
  void train();

  /// From now on units of this rank take so many times as long.
  void slow_down(int rank, double factor) { factors_.at(static_cast<std::size_t>(rank)) = factor; }
  void slow_all(double factor) { std::ranges::fill(factors_, factor); }
  /// From now on the rank follows no plan, as one without an agent.
  void lose_agent(int rank);
  /// The next iteration has this number: ranks count from where their framework does.
  void count_from(std::int64_t iteration) { iteration_ = iteration; }
  /// Carries out what calls on the job have asked for; to be called after calls of the test's own.
  void settle();
  /// The server ends and starts again from what it has stored.
  void restart_server();
  /// The same, from what it had stored once.
  void restart_server(StoreContents stored);

  /// Profiles of jobs that ran before.
  void know(MeasuredProfiles profiles) { profiles_ = std::move(profiles); }
  [[nodiscard]] Job& job() { return *job_; }
  [[nodiscard]] const JobRecord& record() const { return job_->record(); }
  [[nodiscard]] double now_s() const { return now_s_; }
  [[nodiscard]] protocol::RankSpec rank_spec(int rank) const;
  [[nodiscard]] std::int64_t iteration() const { return iteration_; }
  /// Of the last iteration, all ranks.
  [[nodiscard]] double time_s() const { return time_s_; }
  [[nodiscard]] double energy_j() const { return energy_j_; }
  /// The same, by op of the first replica: how long each unit came after the one before it.
  [[nodiscard]] const std::vector<double>& waits_s() const { return waits_s_; }
  [[nodiscard]] const schedule::PipelineDag& dag() const { return dag_; }
  /// Version of the plan in force on a rank.
  [[nodiscard]] int version_of(int rank) const { return followed_.at(static_cast<std::size_t>(rank)).version; }
  [[nodiscard]] const std::vector<Json>& decisions() const { return decisions_; }
  /// Reasons of the decisions of one kind.
  [[nodiscard]] std::vector<std::string> reasons(std::string_view kind) const;
  [[nodiscard]] const profile::StageProfile& truth() const { return truth_; }
  [[nodiscard]] const StoreContents& stored() const { return stored_; }

  /// Ranks that do not ask for plans for the time being.
  std::vector<bool> deaf;
  /// Why ranks follow no plans; they do where it is empty.
  std::vector<std::string> refusals;
  /// Standard error of the energies that ranks measure, as a share.
  double energy_error = 1e-3;
  /// The energies that ranks measure of units, as a share of the true ones.
  double energy_scale = 1;
  /// Units take, beyond what the profile says, as the share of the full clock to the power of minus this.
  double steepness = 0;
  /// Ranks that do not report waits, in jobs whose policy decides by them.
  std::vector<bool> hides_waits;
  /// Ranks that post no cells.
  std::vector<bool> measures_nothing;
  /// What ranks that register say of their GPUs.
  bool gpus_are_simulated = false;
  /// Plans that are asked for wait until this is false again, and `settle` is called.
  bool plans_wait = false;

 private:
  struct Followed {
    int version = 0;
    plan::Plan plan;  ///< of the rank alone; empty: full clocks
    Json envelope;
    std::vector<plan::ClockTrial> trials;  ///< until cells are posted
  };
  /// What a rank has measured in a sweep.
  struct Measured {
    int sweep = 0;
    std::set<int> clocks_mhz;
  };
  struct Pending {
    Json envelope;
    plan::Plan plan;
  };

  void ask_for_plans();
  void begin_plans();
  [[nodiscard]] std::vector<int> clocks_of_replica(int dp_rank) const;
  [[nodiscard]] double slowdown_at(int clock_mhz) const;
  void train_once();
  [[nodiscard]] std::optional<int> trial_mhz(std::size_t rank, std::int64_t iteration) const;
  void measure(int rank);
  void post_cells(int rank);
  void take_changes();
  void plan(const PlanningTask& task);
  void remember(StoreChange change);

  protocol::JobSpec spec_;
  schedule::Schedule schedule_;
  schedule::PipelineDag dag_;
  profile::StageProfile truth_;
  double blocking_w_ = 75;
  std::vector<double> factors_;
  std::vector<bool> has_agent_;
  double now_s_ = 1.79e9;  // before the job, which is created at it
  std::unique_ptr<Job> job_;
  std::unique_ptr<MeasuredJob> planner_;
  std::shared_ptr<const PipelineModel> model_;
  std::deque<PlanningTask> tasks_;  ///< that wait
  MeasuredProfiles profiles_;
  std::vector<Followed> followed_;
  std::vector<Measured> measured_;
  std::vector<std::optional<Pending>> pending_;
  StoreContents stored_;
  std::vector<Json> decisions_;
  std::int64_t iteration_ = 0;
  double time_s_ = 0;
  double energy_j_ = 0;
  std::vector<double> waits_s_;
};

}  // namespace lowgear::server
