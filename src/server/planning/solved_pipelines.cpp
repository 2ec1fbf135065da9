#include "server/planning/solved_pipelines.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

namespace lowgear::server {
namespace {

/// How often a thread that waits for another one looks whether its job is over.
constexpr std::chrono::milliseconds kLook{20};
/// Plans of one pipeline for the deadlines that came last: alike jobs have the same one.
constexpr std::size_t kKeptPlans = 4;

void add(Fingerprint& fingerprint, const schedule::Action& action) {
  const auto stage = static_cast<std::uint64_t>(static_cast<std::uint32_t>(action.stage));
  fingerprint.add(stage << 16U | static_cast<std::uint64_t>(action.kind) << 8U | static_cast<std::uint64_t>(action.op));
  fingerprint.add(static_cast<std::uint64_t>(static_cast<std::uint32_t>(action.microbatch)));
}

/// Whose reports it receives, until the end of the scope.
class AsCaller {
 public:
  AsCaller(Progress*& caller, Progress* progress) : caller_(caller) { caller_ = progress; }
  ~AsCaller() { caller_ = nullptr; }
  AsCaller(const AsCaller&) = delete;
  AsCaller& operator=(const AsCaller&) = delete;

 private:
  Progress*& caller_;
};

}  // namespace

bool is_same(const PipelineProblem& a, const PipelineProblem& b) {
  return a.options == b.options && a.blocking_power_w == b.blocking_power_w && a.profile == b.profile &&
         (a.schedule == b.schedule || *a.schedule == *b.schedule);
}

std::size_t fingerprint(const schedule::Schedule& schedule) {
  Fingerprint hash;
  hash.add(static_cast<std::uint64_t>(std::hash<std::string>{}(schedule.name)));
  hash.add(static_cast<std::uint64_t>(schedule.stages));
  hash.add(static_cast<std::uint64_t>(schedule.frozen_stages));
  for (const std::vector<schedule::Action>& rank : schedule.ranks) {
    hash.add(static_cast<std::uint64_t>(rank.size()));
    for (const schedule::Action& action : rank) add(hash, action);
  }
  return hash.value();
}

std::size_t fingerprint(const PipelineProblem& problem) {
  Fingerprint hash;
  hash.add(static_cast<std::uint64_t>(fingerprint(*problem.schedule)));
  for (const profile::StageOp& op : problem.profile.ops()) {
    hash.add(static_cast<std::uint64_t>(op.stage) << 8U | static_cast<std::uint64_t>(op.kind));
    for (const profile::Measurement& row : op.measurements) {
      hash.add(static_cast<std::uint64_t>(row.clock_mhz));
      hash.add(row.time_s);
      hash.add(row.energy_j);
    }
  }
  for (const double power_w : problem.blocking_power_w) hash.add(power_w);
  hash.add(static_cast<std::uint64_t>(problem.options.method));
  hash.add(static_cast<std::uint64_t>(problem.options.granularity));
  hash.add(problem.options.epsilon);
  hash.add(problem.options.switch_latency_s);
  return hash.value();
}

KeptPipeline::KeptPipeline(const PipelineProblem& problem, Progress* progress)
    : planner_([&] {
        const AsCaller reports(progress_.caller, progress);
        return planner::PipelinePlanner(*problem.schedule, problem.profile, problem.blocking_power_w, problem.options,
                                        {}, &progress_);
      }()) {}

plan::Plan KeptPipeline::plan(double deadline_s, Progress* progress) const {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(plans_, deadline_s, &std::pair<double, plan::Plan>::first);
  if (known != plans_.end()) return known->second;
  const AsCaller reports(progress_.caller, progress);
  plan::Plan plan = planner_.plan(deadline_s);
  is_prepared_ = true;
  plans_.emplace_front(deadline_s, plan);
  if (plans_.size() > kKeptPlans) plans_.pop_back();
  return plan;
}

SolvedPipelines::Entries::iterator SolvedPipelines::find(const PipelineProblem& problem, std::size_t fingerprint) {
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.fingerprint == fingerprint && is_same(entry.problem, problem);
  });
  if (found != entries_.end()) entries_.splice(entries_.begin(), entries_, found);
  return found;
}

api::PipelineSolver::Solved SolvedPipelines::find(const PipelineProblem& problem) {
  const std::size_t of_problem = fingerprint(problem);
  const std::lock_guard lock(mutex_);
  const auto found = find(problem, of_problem);
  return found == entries_.end() ? nullptr : found->solved;
}

api::PipelineSolver::Solved SolvedPipelines::solve(const PipelineProblem& problem, Progress* progress) {
  const std::size_t of_problem = fingerprint(problem);
  std::unique_lock lock(mutex_);
  for (auto known = find(problem, of_problem); known != entries_.end(); known = find(problem, of_problem)) {
    if (known->solved) return known->solved;
    changed_.wait_for(lock, kLook);
    if (progress == nullptr) continue;
    lock.unlock();
    progress->update("waiting for the same pipeline", -1);
    lock.lock();
  }
  entries_.push_front({.problem = problem, .fingerprint = of_problem, .solved = nullptr});
  const auto entry = entries_.begin();
  lock.unlock();
  try {
    auto solved = std::make_shared<const KeptPipeline>(problem, progress);
    lock.lock();
    entry->solved = solved;
    drop_old();
    changed_.notify_all();
    return solved;
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    entries_.erase(entry);
    changed_.notify_all();
    throw;
  }
}

/// Those that are being solved stay: they are waited for.
void SolvedPipelines::drop_old() {
  std::size_t actions = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    actions += action_count(*entry->problem.schedule);
    const bool goes = actions > kept_actions_ && entry != entries_.begin() && entry->solved;
    entry = goes ? entries_.erase(entry) : std::next(entry);
  }
}

}  // namespace lowgear::server
