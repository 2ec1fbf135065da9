#include "server/perseus/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/numbers/number.h"

namespace lowgear::server::perseus {

namespace {

void require_below(int value, int degree, std::string_view what) {
  if (value < degree) return;
  throw InputError(fmt::format("{} {} is out of range; the job has {}", what, value, degree));
}

}  // namespace

RegisteredRanks::RegisteredRanks(const JobInfo& job)
    : job_(job),
      ranks_(static_cast<std::size_t>(job.world_size)),
      places_(static_cast<std::size_t>(job.world_size), -1),
      stage_ranks_(static_cast<std::size_t>(job.pp_degree), -1) {}

std::size_t RegisteredRanks::place_of(const RankInfo& rank) const {
  return static_cast<std::size_t>(rank.pp_rank + job_.pp_degree * (rank.dp_rank + job_.dp_degree * rank.tp_rank));
}

bool RegisteredRanks::check(const RankInfo& rank) const {
  require_below(rank.rank, job_.world_size, "rank");
  require_below(rank.pp_rank, job_.pp_degree, "pp_rank");
  require_below(rank.dp_rank, job_.dp_degree, "dp_rank");
  require_below(rank.tp_rank, job_.tp_degree, "tp_rank");
  const std::optional<RankInfo>& same = ranks_[static_cast<std::size_t>(rank.rank)];
  if (same) {
    if (*same == rank) return true;
    throw InputError(fmt::format("rank {} has registered before, with other values", rank.rank));
  }
  const int owner = places_[place_of(rank)];
  if (owner >= 0) {
    throw InputError(fmt::format("rank {} has the pp_rank, dp_rank and tp_rank of rank {}", rank.rank, owner));
  }
  const auto registered_one = std::ranges::find_if(ranks_, [](const auto& each) { return each.has_value(); });
  if (registered_one != ranks_.end() && (*registered_one)->power_states != rank.power_states) {
    throw InputError(fmt::format("rank {} has other power states than rank {}; all have to have the same", rank.rank,
                                 (*registered_one)->rank));
  }
  const int peer = stage_ranks_[static_cast<std::size_t>(rank.pp_rank)];
  if (peer >= 0 && ranks_[static_cast<std::size_t>(peer)]->pipe_schedule != rank.pipe_schedule) {
    throw InputError(fmt::format("rank {} has another pipe_schedule than rank {}, which runs the same stage {}",
                                 rank.rank, peer, rank.pp_rank));
  }
  if (instructions_ + rank.pipe_schedule.size() > kMaxJobInstructions) {
    throw InputError("the ranks' pipe_schedules are too long all together");
  }
  return false;
}

void RegisteredRanks::add(RankInfo rank) {
  places_[place_of(rank)] = rank.rank;
  int& peer = stage_ranks_[static_cast<std::size_t>(rank.pp_rank)];
  if (peer < 0) peer = rank.rank;
  instructions_ += rank.pipe_schedule.size();
  const auto index = static_cast<std::size_t>(rank.rank);
  ranks_[index] = std::move(rank);
}

void RegisteredRanks::remove(int rank) {
  std::optional<RankInfo>& place = ranks_[static_cast<std::size_t>(rank)];
  places_[place_of(*place)] = -1;
  instructions_ -= place->pipe_schedule.size();
  int& peer = stage_ranks_[static_cast<std::size_t>(place->pp_rank)];
  const int stage = place->pp_rank;
  place.reset();
  if (peer != rank) return;
  const auto other = std::ranges::find_if(ranks_, [stage](const auto& each) { return each && each->pp_rank == stage; });
  peer = other == ranks_.end() ? -1 : (*other)->rank;
}

bool RegisteredRanks::contains(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  return rank >= 0 && index < ranks_.size() && ranks_[index].has_value();
}

std::vector<RankInfo> RegisteredRanks::all() const {
  std::vector<RankInfo> all;
  for (const std::optional<RankInfo>& rank : ranks_) all.push_back(*rank);
  return all;
}

namespace {

constexpr int kMaxWindows = 100'000'000;

/// The number after `prefix`; empty when the text is something else.
std::optional<int> number_after(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const std::optional<long long> number = parse_integer(text.substr(prefix.size()));
  if (!number || *number < 0 || *number > kMaxWindows) return std::nullopt;
  return static_cast<int>(*number);
}

/// Who serves which ranks. Zeus' server leaves no `perseus.json`.
void keep_job(Work& work) {
  const bool is_zeus = work.info.num_microbatches == 0;
  Json ranks = Json::array();
  for (const RankInfo& rank : work.ranks) {
    ranks.push_back(is_zeus ? zeus_rank_info(rank) : to_json(rank));
    if (!is_zeus) ranks.back()["job_id"] = work.job_id;
  }
  if (!is_zeus) work.files.push_back({"perseus.json", perseus_server_info(*work.settings).dump()});
  work.files.push_back({"ranks.json", ranks.dump()});
}

void begin(Work& work) {
  Scheduling& scheduling = work.scheduling;
  scheduling.layout = make_perseus_layout(*work.settings, work.info, work.ranks);
  scheduling.scheduler = make_perseus_scheduler(*work.settings, scheduling.layout, work.progress);
  for (int window = 0; window < work.replayed.windows; ++window) {
    if (!scheduling.scheduler->observes()) {
      scheduling.scheduler->end_window({});
      continue;
    }
    const auto observed = work.replayed.observed.find(window);
    if (observed == work.replayed.observed.end() || observed->second.size() != scheduling.layout.positions.size()) {
      throw InputError("the job's measurements from before the server's restart are lost; start the job again");
    }
    scheduling.scheduler->end_window(observed->second);
  }
}

/// `N.prof.json` and `N.sched.json` of the window that is over.
void keep_window(Work& work) {
  Json profile = Json::array();
  Json schedule = Json::array();
  for (const Result& result : work.results) {
    profile.push_back(to_json(result));
    schedule.push_back(work.scheduling.schedule_of(result.rank));
  }
  work.files.push_back({fmt::format("{}.prof.json", work.scheduling.window), profile.dump()});
  work.files.push_back({fmt::format("{}.sched.json", work.scheduling.window), schedule.dump()});
}

void end_window(Work& work) {
  Scheduling& scheduling = work.scheduling;
  if (scheduling.observes) {
    work.window = condense(scheduling.layout, work.results, work.settings->arguments.warmup_step_ratio);
  }
  scheduling.scheduler->end_window(work.window);
}

}  // namespace

Json Scheduling::schedule_of(int rank) const {
  const auto position = static_cast<std::size_t>(layout.position_of_rank.at(static_cast<std::size_t>(rank)));
  const std::vector<int>& states = schedule.power_states.at(position);
  if (schedule.instructions.empty()) return perseus_power_states(rank, states);
  return zeus_frequencies(rank, schedule.instructions.at(position), states);
}

Job::Job(std::string job_id, JobInfo job_info) : id(std::move(job_id)), info(std::move(job_info)), ranks(info) {
  waiting.replies.resize(ranks.size());
  reports.results.resize(ranks.size());
}

namespace {

void advance(Work& work) {
  if (work.scheduling.scheduler) {
    if (work.keeps_files) keep_window(work);
    end_window(work);
    work.doubts = work.scheduling.scheduler->take_doubts();
  } else {
    if (work.keeps_files) keep_job(work);
    begin(work);
  }
  if (!work.keeps_files) return;
  for (File& file : work.scheduling.scheduler->files()) work.files.push_back(std::move(file));
}

}  // namespace

void do_work(Work& work) {
  try {
    advance(work);
    Step step = work.scheduling.scheduler->schedule();
    work.scheduling.observes = work.scheduling.scheduler->observes();
    if (auto* stop = std::get_if<Stop>(&step)) {
      work.end = End{500, std::move(stop->message)};
    } else {
      work.scheduling.schedule = std::move(std::get<Schedule>(step));
    }
  } catch (const InputError& error) {
    work.end = End{400, error.what()};
  } catch (const std::exception& error) {
    work.end = End{500, error.what()};
  }
  // The files of a job that was over are there, or a person has removed them.
  if (work.replayed.windows > 0 && work.end) work.files.clear();
}

std::string perseus_key(std::string_view job, std::string_view part) {
  return fmt::format("{}{}/{}", kPerseusKeyPrefix, job, part);
}

std::string perseus_key(std::string_view job, std::string_view part, int number) {
  return fmt::format("{}{}/{}/{}", kPerseusKeyPrefix, job, part, number);
}

std::string write_perseus_job_document(const Job& job) {
  const Json json = {{"format", "lowgear.perseus_job/1"},
                     {"info", to_json(job.info)},
                     {"created_s", job.created_s},
                     {"last_active_s", job.last_active_s},
                     {"settings", job.settings_fingerprint},
                     {"window", job.scheduling.window},
                     {"released", job.state == Job::State::running}};
  return json.dump();
}

std::string write_perseus_rank_document(const RankInfo& rank) {
  Json json = to_json(rank);
  json["job_id"] = "";
  return json.dump();
}

std::string write_perseus_result_document(int window, const Result& result) {
  return Json{{"window", window}, {"result", to_json(result)}}.dump();
}

namespace {

StoredPerseusJob read_job_document(std::string_view id, const std::string& text) {
  const std::string source = perseus_key(id, "job");
  const Json json = parse_json(text, source);
  const JsonView view(json, source);
  require_format(view, "lowgear.perseus_job/1");
  StoredPerseusJob stored;
  stored.job = std::make_unique<Job>(std::string(id), read_perseus_job(view.at("info").json().dump()));
  Job& job = *stored.job;
  job.created_s = view.at("created_s").number();
  job.last_active_s = view.at("last_active_s").number();
  job.settings_fingerprint = view.at("settings").text();
  job.scheduling.window = view.at("window").integer_in(0, kMaxWindows);
  stored.released = view.at("released").boolean();
  stored.replay.windows = job.scheduling.window;
  return stored;
}

void read_rank_document(Job& job, const std::string& text) {
  RankInfo rank = read_perseus_rank(text, Client::artifact).rank;
  if (job.ranks.check(rank)) return;
  job.ranks.add(std::move(rank));
  job.ranks.count_stored();
}

void read_result_document(Job& job, const std::string& text) {
  const Json json = parse_json(text, job.id, 2 * kMaxPerseusValues);
  const JsonView view(json, job.id);
  if (view.at("window").integer_in(0, kMaxWindows) != job.scheduling.window) return;
  Result result = read_perseus_result(view.at("result").json().dump());
  const auto rank = static_cast<std::size_t>(result.rank);
  std::vector<std::optional<Result>>& results = job.reports.results;
  if (rank >= results.size() || results[rank]) return;
  results[rank] = std::move(result);
  ++job.reports.stored;
}

}  // namespace

std::map<std::string, std::vector<std::pair<std::string, std::string>>> documents_by_job(
    const std::vector<StoredDocument>& documents) {
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> jobs;
  for (const StoredDocument& document : documents) {
    std::string_view key = document.key;
    // Empty ones are of jobs that were removed.
    if (!key.starts_with(kPerseusKeyPrefix) || document.document.empty()) continue;
    key.remove_prefix(kPerseusKeyPrefix.size());
    const std::size_t slash = key.find('/');
    if (slash == std::string_view::npos) continue;
    jobs[std::string(key.substr(0, slash))].emplace_back(key.substr(slash + 1), document.document);
  }
  return jobs;
}

StoredPerseusJob read_perseus_documents(std::string_view id,
                                        const std::vector<std::pair<std::string, std::string>>& documents) {
  const auto main = std::ranges::find(documents, "job", &std::pair<std::string, std::string>::first);
  if (main == documents.end()) throw InputError(fmt::format("job {}: its own document is missing", quote(id)));
  StoredPerseusJob stored = read_job_document(id, main->second);
  for (const auto& [part, text] : documents) {
    if (number_after(part, "rank/")) read_rank_document(*stored.job, text);
    if (number_after(part, "result/")) read_result_document(*stored.job, text);
    const std::optional<int> window = number_after(part, "window/");
    if (window && *window < stored.job->scheduling.window) {
      const Json json = parse_json(text, part);
      stored.replay.observed[*window] = read_perseus_windows(JsonView(json, part));
      stored.job->kept_windows.push_back(*window);
    }
  }
  return stored;
}

}  // namespace lowgear::server::perseus
