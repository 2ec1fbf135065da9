#include "server/fleet/finished_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/core/formats/json.h"
#include "server/job/job_documents.h"
#include "server/job/job_problems.h"
#include "server/job/rank_registry.h"

namespace lowgear::server {
namespace {

/// Failures and the lack of a plan may follow.
bool is_by_request(std::string_view reason) { return reason.starts_with(kFinishedByRequest); }

Json timeline_of(const JobRecord& job) {
  if (job_units(job.spec) <= kArchivedUnits) return timeline_json(job);
  const int version = job.plans.training_version();
  return {{"job", job.id}, {"plan_version", version == 0 ? Json(nullptr) : Json(version)}, {"plan", nullptr}};
}

/// As `invalid_text`, by the summary.
std::optional<std::string> invalid_of(const JsonView& summary) {
  if (!summary.has("problems")) return std::nullopt;  // of an earlier version
  const JsonView problems = summary.at("problems");
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (problems.at(i).at("kind").text() == kFiguresInvalid) return problems.at(i).at("text").text();
  }
  return std::nullopt;
}

}  // namespace

StoredArchive archive_of(const JobRecord& job) {
  return {.job = job.id,
          .summary = summary_json(job).dump(),
          .spec = {},  // the job's own row has it
          .ranks = ranks_json(job).dump(),
          .frontier = frontier_json(job).dump(),
          .timeline = timeline_of(job).dump(),
          .iterations = iterations_json(job, -1, IterationHistory::kKept).at("iterations").dump()};
}

FinishedJob finished_job(StoredFinishedJob stored) {
  const Json summary = parse_json(stored.summary, "archive");
  FinishedJob job;
  job.id = std::move(stored.id);
  job.run = std::move(stored.run);
  const JsonView view(summary, "archive");
  job.state = view.at("state").text();
  // Of its ranks nothing is known any more.
  job.keeps_run = has_value(view, "reason") && is_by_request(view.at("reason").text());
  job.created_s = stored.created_s;
  job.finished_s = stored.finished_s;
  job.invalid = invalid_of(view);
  job.summary = std::move(stored.summary);
  return job;
}

bool keeps_run(const JobRecord& job) { return is_by_request(job.status.reason) && !job.ranks.all_finished(); }

FinishedJob finished_job(const JobRecord& job, double now_s) {
  FinishedJob finished{.id = job.id,
                       .run = job.spec.run,
                       .state = std::string(name(job.state())),
                       .created_s = job.status.created_s,
                       .finished_s = job.status.finished_s.value_or(now_s),
                       .summary = summary_json(job).dump(),
                       .invalid = invalid_text(job),
                       .plan_version = job.plan_version(),
                       .keeps_run = keeps_run(job),
                       .late_ranks = {},
                       .late_until_s = now_s + kLateRanksS};
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    const RegisteredRank* registered = job.ranks.find(rank);
    if (registered == nullptr || registered->finished) continue;
    finished.late_ranks[rank] = {registered->key, job.history.last_iteration(rank)};
  }
  return finished;
}

const LateRank* FinishedJob::late_rank(int rank, std::string_view key) const {
  const auto found = late_ranks.find(rank);
  return found != late_ranks.end() && same_secret(key, found->second.key) ? &found->second : nullptr;
}

void FinishedJobs::add(FinishedJob job) {
  const std::string id = job.id;
  jobs_.insert_or_assign(id, std::move(job));
}

const FinishedJob* FinishedJobs::find(std::string_view id) const {
  const auto found = jobs_.find(id);
  return found != jobs_.end() ? &found->second : nullptr;
}

bool FinishedJobs::end_late_ranks(double now_s) {
  bool ended = false;
  for (auto& [id, job] : jobs_) {
    if (job.late_ranks.empty() || job.late_until_s >= now_s) continue;
    job.late_ranks.clear();
    ended = true;
  }
  return ended;
}

std::vector<FinishedJob> FinishedJobs::forget_old() {
  std::vector<FinishedJob> forgotten;
  if (jobs_.size() <= kept_) return forgotten;
  std::vector<std::pair<double, std::string>> over;
  for (const auto& [id, job] : jobs_) over.emplace_back(job.finished_s, id);
  std::ranges::sort(over);
  over.resize(over.size() - kept_);
  for (const auto& [finished_s, id] : over) {
    if (!jobs_.at(id).late_ranks.empty()) continue;
    forgotten.push_back(std::move(jobs_.extract(id).mapped()));
  }
  return forgotten;
}

std::string show_finished_job(const FinishedJob& job, const StoredArchive& archive) {
  return fmt::format(R"({{"job":{},"spec":{},"ranks":{}}})", job.summary, archive.spec,
                     archive.ranks.empty() ? "[]" : archive.ranks);
}

std::string show_frontier(const FinishedJob& job, const StoredArchive& archive) {
  Json frontier = {{"job", job.id}, {"vertices", Json::array()}, {"operating_point", nullptr}, {"measured", nullptr}};
  if (!archive.frontier.empty()) frontier = parse_json(archive.frontier, "archive");
  frontier["invalid"] = or_null(job.invalid);
  return frontier.dump();
}

std::string show_timeline(const FinishedJob& job, const StoredArchive& archive) {
  if (!archive.timeline.empty()) return archive.timeline;
  const Json empty = {{"job", job.id}, {"plan_version", nullptr}, {"plan", nullptr}};
  return empty.dump();
}

std::string show_iterations(const FinishedJob& job, const StoredArchive& archive, std::int64_t after,
                            std::size_t limit) {
  Json list = Json::array();
  if (!archive.iterations.empty()) {
    const Json all = parse_json(archive.iterations, "archive");
    const JsonView view(all, "archive");
    for (std::size_t i = 0; i < view.size() && list.size() < limit; ++i) {
      if (view.at(i).at("iteration").integer() > after) list.push_back(all.at(i));
    }
  }
  const Json document = {{"job", job.id}, {"iterations", std::move(list)}, {"invalid", or_null(job.invalid)}};
  return document.dump();
}

}  // namespace lowgear::server
