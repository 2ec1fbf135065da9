#include "control/server/job/job_problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "control/server/job/job_comparison.h"

namespace lowgear::server {
namespace {

/// Ranks and GPUs of one problem that are named.
constexpr std::size_t kShownRanks = 20;
constexpr std::size_t kNamedGpus = 4;
/// A slowdown is one where it is more than so many of its standard errors.
constexpr double kSignificance = 2;

std::string text_of_ranks(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  return fmt::format("rank {} and {} {}", ranks.front(), ranks.size() - 1, ranks.size() == 2 ? "other" : "others");
}

/// `GPU-2c6f (node-1), GPU-77aa (node-1) and 2 more`
std::string text_of_gpus(const std::vector<int>& ranks, const JobRecord& job) {
  std::string text;
  std::size_t named = 0;
  for (const int rank : ranks) {
    const protocol::RankSpec& spec = job.ranks.find(rank)->spec;
    if (named++ == kNamedGpus) return fmt::format("{} and {} more", text, ranks.size() - kNamedGpus);
    if (!text.empty()) text += ", ";
    text +=
        fmt::format("{} ({})", spec.gpu_uuid.empty() ? fmt::format("that of rank {}", rank) : spec.gpu_uuid, spec.host);
  }
  return text;
}

/// Ranks that do not follow the plan although they could: their GPUs may have been left with the clocks of an earlier
/// one, and nobody restores these where setters fail or no agent runs.
void add_unfollowed(const JobRecord& job, std::vector<JobProblem>& problems) {
  const bool has_plans = job.state() != JobState::registering && job.state() != JobState::observing && !job.is_over();
  JobProblem problem{
      .kind = kPlanNotFollowed, .is_critical = false, .ranks = ranks_not_following(job), .text = {}, .todo = {}};
  if (!has_plans || problem.ranks.empty()) return;
  const std::string not_following =
      fmt::format("{} {} not follow the plan", text_of_ranks(problem.ranks), problem.ranks.size() == 1 ? "does" : "do");
  const std::string gpus = text_of_gpus(problem.ranks, job);
  const auto compared = comparison_of(job);
  const double limit = job.targets.guard_limit_pct() / 100;
  const bool is_slow = compared && compared->slowdown > limit &&
                       compared->slowdown > kSignificance * compared->slowdown_error && !job.targets.is_capped();
  if (!is_slow) {
    problem.text = fmt::format("{}: {}", not_following, gpus);
    problem.todo = "the rank's refusal, or the log of the agent on these nodes, says why";
  } else {
    problem.kind = kClocksStuck;
    problem.is_critical = true;
    problem.text = fmt::format(
        "iterations take {:.1f} % longer than the baseline, {:.1f} % are allowed, and {}: low clocks may have stayed "
        "set on {}",
        compared->slowdown * 100, limit * 100, not_following, gpus);
    problem.todo =
        "the server cannot restore clocks that no agent can set: start the agent on these nodes again (systemctl start "
        "lowgear-agent), which restores them, or run lowgear agent restore or nvidia-smi -rgc there; where setters "
        "fail, the "
        "agent's log has the driver's error";
  }
  problems.push_back(std::move(problem));
}

void add_energies_left_out(const JobRecord& job, std::vector<JobProblem>& problems) {
  JobProblem problem{.kind = kEnergyLeftOut, .is_critical = false, .ranks = {}, .text = {}, .todo = {}};
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    const RegisteredRank* registered = job.ranks.find(rank);
    if (registered != nullptr && !registered->energy_fault.empty()) problem.ranks.push_back(rank);
  }
  if (problem.ranks.empty()) return;
  problem.text = fmt::format("energies of {} are left out, and the job's with them: the report of rank {} {}",
                             text_of_ranks(problem.ranks), problem.ranks.front(),
                             job.ranks.find(problem.ranks.front())->energy_fault);
  problem.todo =
      fmt::format("check the energy counter: lowgear doctor on these nodes ({})", text_of_gpus(problem.ranks, job));
  problems.push_back(std::move(problem));
}

/// With other jobs.
void add_shared(const JobRecord& job, std::vector<JobProblem>& problems) {
  JobProblem problem{.kind = kGpuShared, .is_critical = false, .ranks = {}, .text = {}, .todo = {}};
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    const RegisteredRank* registered = job.ranks.find(rank);
    if (registered == nullptr || !registered->shared) continue;
    if (problem.ranks.empty()) problem.text = registered->shared->text;
    problem.ranks.push_back(rank);
  }
  if (problem.ranks.empty()) return;
  if (problem.ranks.size() > 1) problem.text += fmt::format("; {} ranks share GPUs", problem.ranks.size());
  problem.todo = "an energy counter is that of the whole GPU: no saving is stated while jobs share it";
  problems.push_back(std::move(problem));
}

/// Ranks of the job that have one GPU, of which only the first counts.
void add_counted_once(const JobRecord& job, std::vector<JobProblem>& problems) {
  JobProblem problem{.kind = kGpuCountedOnce, .is_critical = false, .ranks = {}, .text = {}, .todo = {}};
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    if (job.ranks.counts_elsewhere(rank)) problem.ranks.push_back(rank);
  }
  if (problem.ranks.empty()) return;
  const int first = problem.ranks.front();
  problem.text = fmt::format("{} is that of rank {} and of rank {}: its energy counts once",
                             job.ranks.find(first)->spec.gpu_uuid, job.ranks.with_gpu_of(first).front(), first);
  if (problem.ranks.size() > 1)
    problem.text += fmt::format("; energies of {} ranks are not counted", problem.ranks.size());
  problem.todo =
      "ranks on one GPU (instances, MPS) are counted right; where each has a GPU of its own, CUDA_VISIBLE_DEVICES of "
      "the ranks is "
      "wrong, and not all GPUs are measured";
  problems.push_back(std::move(problem));
}

void add_missing(const JobRecord& job, std::vector<JobProblem>& problems) {
  JobProblem problem{.kind = kReportsMissing, .is_critical = false, .ranks = {}, .text = {}, .todo = {}};
  for (const int rank : job.history.missing()) {
    const RegisteredRank* registered = job.ranks.find(rank);
    if (registered != nullptr && !registered->finished) problem.ranks.push_back(rank);
  }
  if (problem.ranks.empty() || job.is_over()) return;
  problem.text = fmt::format(
      "iteration {} lacks the reports of {}: its time is that of the other ranks, and its energy is not known",
      job.history.kept().back().iteration, text_of_ranks(problem.ranks));
  problem.todo = "see whether these ranks run, and reach the server";
  problems.push_back(std::move(problem));
}

/// Of a rank that once named an iteration far ahead nothing counts until it gets there. Ahead of all others, that is:
/// which of two ranks is right is not known.
void add_differing(const JobRecord& job, std::vector<JobProblem>& problems) {
  std::int64_t first = -1;
  std::int64_t second = -1;
  int ahead = 0;
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    const std::int64_t last = job.history.last_iteration(rank);
    if (last > first) {
      second = std::exchange(first, last);
      ahead = rank;
    } else {
      second = std::max(second, last);
    }
  }
  if (second < 0 || first <= second + IterationLog::kMaxLead || job.is_over()) return;
  problems.push_back(
      {.kind = kIterationsDiffer,
       .is_critical = false,
       .ranks = {ahead},
       .text =
           fmt::format("rank {} has reported iteration {}, and the other ranks have reached {}: what rank {} reports "
                       "until they get there does not count",
                       ahead, first, second, ahead),
       .todo = "all ranks have to count the same iterations: start the run again"});
}

}  // namespace

std::vector<JobProblem> problems_of(const JobRecord& job) {
  std::vector<JobProblem> problems;
  add_unfollowed(job, problems);
  add_energies_left_out(job, problems);
  add_shared(job, problems);
  add_counted_once(job, problems);
  add_missing(job, problems);
  add_differing(job, problems);
  return problems;
}

Json to_json(const std::vector<JobProblem>& problems, const JobRecord& job) {
  Json list = Json::array();
  for (const JobProblem& problem : problems) {
    Json gpus = Json::array();
    for (const int rank : problem.ranks) {
      if (gpus.size() == kShownRanks) break;
      const protocol::RankSpec& spec = job.ranks.find(rank)->spec;
      gpus.push_back(
          {{"rank", rank}, {"host", spec.host}, {"gpu_uuid", spec.gpu_uuid.empty() ? Json() : Json(spec.gpu_uuid)}});
    }
    list.push_back({{"kind", problem.kind},
                    {"critical", problem.is_critical},
                    {"ranks", problem.ranks.size()},
                    {"gpus", std::move(gpus)},
                    {"text", problem.text},
                    {"todo", problem.todo}});
  }
  return list;
}

}  // namespace lowgear::server
