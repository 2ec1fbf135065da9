#include "server/job/job_problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/core/numbers/figure_text.h"
#include "server/job/job_record.h"

namespace lowgear::server {
namespace {

/// Ranks and GPUs of one problem that are named.
constexpr std::size_t kShownRanks = 20;
constexpr std::size_t kNamedGpus = 4;
/// Limits are read in mW, and written with fewer digits.
constexpr double kLimitRoundingW = 1;
/// A slowdown is one where it is more than so many of its standard errors.
constexpr double kSignificance = 2;
/// A first iteration that takes longer may hang; one that compiles takes minutes, too.
constexpr double kLongFirstIterationS = 120;

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
  JobProblem problem{
      .kind = kPlanNotFollowed, .is_critical = false, .ranks = ranks_not_following(job), .text = {}, .todo = {}};
  if (!should_follow_plan(job) || problem.ranks.empty()) return;
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
        "fail, "
        "the agent's log has the driver's error";
  }
  problems.push_back(std::move(problem));
}

/// Registered ranks of which that holds, lowest first.
template <typename Holds>
std::vector<int> ranks_that(const JobRecord& job, Holds holds) {
  std::vector<int> ranks;
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    const RegisteredRank* registered = job.ranks.find(rank);
    if (registered != nullptr && holds(*registered)) ranks.push_back(rank);
  }
  return ranks;
}

void add_invalid(const JobRecord& job, std::vector<JobProblem>& problems) {
  const auto text = invalid_text(job);
  if (!text) return;
  problems.push_back(
      {.kind = kFiguresInvalid,
       .is_critical = false,
       .ranks = ranks_that(job, [](const RegisteredRank&) { return true; }),
       .text = *text,
       .todo = fmt::format("{}start the run again when nothing else runs on its machines, with longer kernels "
                           "(simulated_gpu.layer_forward_s) or with a smaller model",
                           job.is_over() ? "" : "if it lasts, ")});
}

void add_doubtful(const JobRecord& job, std::vector<JobProblem>& problems) {
  if (job.planning.doubts().empty() || !job.invalid.empty()) return;
  problems.push_back({.kind = kPlanDoubtful,
                      .is_critical = false,
                      .ranks = ranks_that(job, [](const RegisteredRank&) { return true; }),
                      .text = job.planning.doubts(),
                      .todo =
                          "do not rely on planned times and energies, but on the measured saving; where the profile "
                          "is wrong, start the run with another model name, which measures a new one, and keep "
                          "other work off its machines"});
}

/// Ranks ask for plans while their training hangs.
void add_no_iteration(const JobRecord& job, std::vector<JobProblem>& problems) {
  const double waited_s = job.status.heard_s - job.status.created_s;
  if (job.state() != JobState::baseline || !job.history.kept().empty() || waited_s < kLongFirstIterationS) return;
  problems.push_back(
      {.kind = kNoIteration,
       .is_critical = false,
       .ranks = ranks_that(job, [](const RegisteredRank&) { return true; }),
       .text = fmt::format("no iteration has ended in the {} since the job came", duration_text(waited_s)),
       .todo = "if it does not compile for that long, it hangs: look at the output of its ranks"});
}

/// Of a job of which nothing has been heard for longer; its ranks ask for plans every 20 s.
void add_silence(const JobRecord& job, std::vector<JobProblem>& problems) {
  if (job.is_over() || !job.status.is_silent()) return;
  problems.push_back(
      {.kind = kSilent,
       .is_critical = true,
       .ranks = ranks_that(job, [](const RegisteredRank& rank) { return !rank.finished; }),
       .text = fmt::format("no rank has sent a request for {}: the figures are those of then",
                           duration_text(job.status.watched_s - job.status.heard_s)),
       .todo = "see whether the ranks still run and reach the server; without them the job ends after half an hour of "
               "silence"});
}

void add_failed(const JobRecord& job, std::vector<JobProblem>& problems) {
  std::string text = job.ranks.text_of_failures();
  if (text.empty()) return;
  problems.push_back({.kind = kRankFailed,
                      .is_critical = true,
                      .ranks = ranks_that(job, [](const RegisteredRank& rank) { return !rank.failure.empty(); }),
                      .text = std::move(text),
                      .todo = "the output of these ranks says why; the figures are those until then"});
}

/// Why the comparison of times and energies states no saving.
void add_no_comparison(const JobRecord& job, std::vector<JobProblem>& problems) {
  const auto add = [&](std::string_view kind, std::string text, std::string todo) {
    problems.push_back({.kind = kind,
                        .is_critical = false,
                        .ranks = ranks_that(job, [](const RegisteredRank&) { return true; }),
                        .text = std::move(text),
                        .todo = std::move(todo)});
  };
  constexpr std::string_view kAlone = "start the job again when nothing else runs on its machines";
  const std::optional<IterationMeans>& baseline = job.baseline.result();
  if (baseline && baseline->is_uncertain()) {
    return add(kBaselineUncertain,
               fmt::format("iterations at full clocks take {:.4g} s ± {:.2g} s, which is no measurement: neither a "
                           "saving nor a slowdown is stated",
                           baseline->time_s, baseline->time_error_s),
               std::string(kAlone));
  }
  const auto compared = comparison_of(job);
  if (!compared) return;
  if (compared->has_slow_baseline()) {
    return add(kBaselineTooSlow,
               fmt::format("iterations by the plan take {:.1f} % less time than those at full clocks before, which "
                           "clocks cannot do: something else slowed those, and no saving is stated",
                           -compared->slowdown * 100),
               fmt::format("{}; on simulated GPUs see that its kernels run on them (docs/simgpu.md)", kAlone));
  }
  if (baseline->is_shared && !job.ranks.shares_with_other_jobs()) {
    return add(kBaselineUncertain,
               "another job had GPUs of this one while iterations at full clocks were measured: no saving is stated",
               std::string(kAlone));
  }
  if (compared->has_baselines_clocks) {
    if (job.plans.training() == nullptr) return;  // no plan was possible, as the state says
    const bool is_withdrawn = job.plans.newest()->purpose == protocol::PlanPurpose::full_clocks;
    return add(kBaselinesClocks,
               "all units have the highest clock, as in the baseline: this saves nothing, and differences of "
               "time and energy have other causes",
               is_withdrawn
                   ? "the plan is withdrawn, and the decisions say why; with a higher guard_pct the job may be "
                     "later before that happens"
                   : "a longer iteration would save energy: raise slowdown_pct");
  }
  if (compared->is_uncertain) {
    const IterationMeans now = present_means(job);
    add(kIterationsStalled,
        fmt::format("iterations by the plan take {:.4g} s ± {:.2g} s: some of them stalled, and no saving is stated",
                    now.time_s, now.time_error_s),
        "keep other work off the job's machines");
  }
}

void add_energies_left_out(const JobRecord& job, std::vector<JobProblem>& problems) {
  JobProblem problem{.kind = kEnergyLeftOut,
                     .is_critical = false,
                     .ranks = ranks_that(job, [](const RegisteredRank& rank) { return !rank.energy_fault.empty(); }),
                     .text = {},
                     .todo = {}};
  if (problem.ranks.empty()) return;
  problem.text = fmt::format("energies of {} are left out, and the job's with them: the report of rank {} {}",
                             text_of_ranks(problem.ranks), problem.ranks.front(),
                             job.ranks.find(problem.ranks.front())->energy_fault);
  problem.todo =
      fmt::format("check the energy counter: lowgear doctor on these nodes ({})", text_of_gpus(problem.ranks, job));
  problems.push_back(std::move(problem));
}

/// Ranks that state a limit which their GPU cannot have.
void add_limits_that_differ(const JobRecord& job, std::vector<JobProblem>& problems) {
  JobProblem problem{.kind = kPowerLimitDiffers,
                     .is_critical = false,
                     .ranks = ranks_that(job,
                                         [](const RegisteredRank& rank) {
                                           return rank.agent_most_w && rank.spec.power_limit_w.value_or(0) >
                                                                           *rank.agent_most_w + kLimitRoundingW;
                                         }),
                     .text = {},
                     .todo =
                         "the agent and the rank mean different GPUs: compare lowgear doctor on the node with the GPU "
                         "that the rank registers"};
  if (problem.ranks.empty()) return;
  const RegisteredRank& first = *job.ranks.find(problem.ranks.front());
  problem.text = fmt::format(
      "rank {} states a power limit of {:.0f} W, and the agent that has {} one of at most {:.0f} W: the agent's counts",
      problem.ranks.front(), *first.spec.power_limit_w, first.spec.gpu_uuid, *first.agent_most_w);
  if (problem.ranks.size() > 1) problem.text += fmt::format("; {} ranks are affected", problem.ranks.size());
  problems.push_back(std::move(problem));
}

/// With other jobs, now or in iterations that the means still contain.
void add_shared(const JobRecord& job, std::vector<JobProblem>& problems) {
  JobProblem problem{.kind = kGpuShared,
                     .is_critical = false,
                     .ranks = ranks_that(job, [](const RegisteredRank& rank) { return rank.shared.has_value(); }),
                     .text = {},
                     .todo = "an energy counter is that of the whole GPU: no saving is stated while jobs share it"};
  if (!problem.ranks.empty()) {
    problem.text = job.ranks.find(problem.ranks.front())->shared->text;
    if (problem.ranks.size() > 1) problem.text += fmt::format("; {} ranks share GPUs", problem.ranks.size());
  } else if (present_means(job).is_shared) {
    problem.ranks = ranks_that(job, [](const RegisteredRank&) { return true; });
    problem.text = "another job had GPUs of this one in iterations that the means contain";
  } else {
    return;
  }
  problems.push_back(std::move(problem));
}

/// Ranks of the job that have one GPU, of which only the first counts.
void add_counted_once(const JobRecord& job, std::vector<JobProblem>& problems) {
  JobProblem problem{
      .kind = kGpuCountedOnce,
      .is_critical = false,
      .ranks = ranks_that(job, [&](const RegisteredRank& rank) { return job.ranks.counts_elsewhere(rank.spec.rank); }),
      .text = {},
      .todo =
          "ranks on one GPU (instances, MPS) are counted right; where each has a GPU of its own, "
          "CUDA_VISIBLE_DEVICES of the ranks is wrong, and not all GPUs are measured"};
  if (problem.ranks.empty()) return;
  const int first = problem.ranks.front();
  problem.text = fmt::format("{} is that of rank {} and of rank {}: its energy counts once",
                             job.ranks.find(first)->spec.gpu_uuid, job.ranks.with_gpu_of(first).front(), first);
  if (problem.ranks.size() > 1)
    problem.text += fmt::format("; energies of {} ranks are not counted", problem.ranks.size());
  problems.push_back(std::move(problem));
}

/// Reports that have not come, or not yet, as far back as iterations are kept.
void add_missing(const JobRecord& job, std::vector<JobProblem>& problems) {
  JobProblem problem{.kind = kReportsMissing,
                     .is_critical = false,
                     .ranks = {},
                     .text = {},
                     .todo = "check that these ranks run, reach the server, and report every iteration"};
  const auto add = [&](const std::vector<int>& ranks, const std::string& text) {
    if (problem.ranks.empty()) problem.ranks = ranks;
    problem.text += (problem.text.empty() ? "" : "; ") + text;
  };
  const auto has_failed = [&](int rank) {
    const RegisteredRank* registered = job.ranks.find(rank);
    return registered != nullptr && !registered->failure.empty();
  };
  const auto& left_out = job.history.left_out();
  // That failed ranks have not ended their last iteration is no further problem.
  if (left_out && !std::ranges::all_of(left_out->ranks, has_failed)) {
    add(left_out->ranks, text_of(*left_out) + ", and did not count when the job ended");
  } else if (const auto held_up = job.history.held_up()) {
    add(held_up->ranks, text_of(*held_up) + ", and are not counted yet");
  }
  const Incomplete& incomplete = job.history.incomplete();
  if (incomplete.iterations > 0 && incomplete.last >= job.history.kept().front().iteration) {
    add(incomplete.ranks,
        fmt::format(
            "iteration {} lacks the report of {}: its time is that of the other ranks, and its energy is not known",
            incomplete.last, text_of_ranks(incomplete.ranks)));
    if (incomplete.iterations > 1) problem.text += fmt::format("; so do {} before it", incomplete.iterations - 1);
  }
  if (!problem.text.empty()) problems.push_back(std::move(problem));
}

/// As far back as iterations are kept.
void add_times_apart(const JobRecord& job, std::vector<JobProblem>& problems) {
  const TimesApart& apart = job.history.times_apart();
  if (apart.iterations == 0 || apart.last < job.history.kept().front().iteration) return;
  problems.push_back(
      {.kind = kTimesDiffer,
       .is_critical = false,
       .ranks = {apart.rank},
       .text = fmt::format(
           "rank {} has reported {:.4g} s for iteration {}: {:.4g} s count, the time of another rank, and the "
           "energy is not known{}",
           apart.rank, apart.time_s, apart.last, apart.other_s,
           apart.iterations > 1 ? fmt::format("; this happened {} times before", apart.iterations - 1) : ""),
       .todo = "ranks that train in step wait for each other: see what this rank measures as an iteration"});
}

void add_unknown_plans(const JobRecord& job, std::vector<JobProblem>& problems) {
  JobProblem problem{.kind = kPlanUnknown,
                     .is_critical = false,
                     .ranks = ranks_that(job, [](const RegisteredRank& rank) { return rank.unknown_plan > 0; }),
                     .text = {},
                     .todo = "the rank follows plans of another job or server: start the run again"};
  if (problem.ranks.empty()) return;
  const int first = problem.ranks.front();
  const std::string newest =
      job.plan_version() == 0 ? "none was" : fmt::format("the newest is version {}", job.plan_version());
  problem.text =
      fmt::format("rank {} reports plan version {}, which was never issued ({}): it counts as following none", first,
                  job.ranks.find(first)->unknown_plan, newest);
  if (problem.ranks.size() > 1) problem.text += fmt::format("; {} ranks are affected", problem.ranks.size());
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

std::optional<std::string> invalid_text(const JobRecord& job) {
  if (job.invalid.empty()) return std::nullopt;
  return "times, energies and savings mean nothing, so no savings and no means of iterations are shown: " + job.invalid;
}

std::string text_of(const HeldUp& held_up) {
  const std::string later = held_up.iterations == 1   ? " lacks"
                            : held_up.iterations == 2 ? " and a later one lack"
                                                      : fmt::format(" and {} later ones lack", held_up.iterations - 1);
  return fmt::format("iteration {}{} the reports of {}", held_up.first_iteration, later, text_of_ranks(held_up.ranks));
}

std::vector<JobProblem> problems_of(const JobRecord& job) {
  std::vector<JobProblem> problems;
  add_failed(job, problems);
  add_silence(job, problems);
  add_unfollowed(job, problems);
  add_invalid(job, problems);
  add_doubtful(job, problems);
  add_no_iteration(job, problems);
  add_no_comparison(job, problems);
  add_energies_left_out(job, problems);
  add_limits_that_differ(job, problems);
  add_shared(job, problems);
  add_counted_once(job, problems);
  add_missing(job, problems);
  add_differing(job, problems);
  add_times_apart(job, problems);
  add_unknown_plans(job, problems);
  return problems;
}

Json to_json(const std::vector<JobProblem>& problems, const JobRecord& job) {
  Json list = Json::array();
  for (const JobProblem& problem : problems) {
    Json gpus = Json::array();
    for (const int rank : problem.ranks) {
      if (gpus.size() == kShownRanks) break;
      const RegisteredRank* registered = job.ranks.find(rank);
      if (registered == nullptr) continue;
      const protocol::RankSpec& spec = registered->spec;
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
