#include "server/perseus/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "base/http/message/error.h"
#include "base/http/message/router.h"
#include "server/perseus/job.h"
#include "server/perseus/requests.h"

namespace lowgear::server::perseus {
namespace {

using JobPointer = std::shared_ptr<Job>;
using ReplyPointer = std::shared_ptr<http::Reply>;

http::Response detail_response(int status, std::string_view detail) {
  return http::json_response({{"detail", std::string(detail)}}, status);
}

/// In FastAPI's words where the router refuses.
http::Response detail_response(const http::HttpError& error) {
  std::string_view detail = error.what();
  if (error.kind() == http::ErrorCode::not_found) detail = "Not Found";
  if (error.kind() == http::ErrorCode::method_not_allowed) detail = "Method Not Allowed";
  http::Response response = detail_response(error.status(), detail);
  response.headers = error.headers();
  return response;
}

int read_rank_parameter(const http::Target& target) {
  const auto found = target.parameters.find("rank");
  const std::optional<long long> rank = found == target.parameters.end() ? std::nullopt : parse_integer(found->second);
  if (rank && *rank >= 0 && *rank < kMaxPerseusWorldSize) return static_cast<int>(*rank);
  throw InputError("schedule: the query must name the rank, such as ?rank=0");
}

void require_registered(const Job& job, int rank) {
  if (!job.ranks.contains(rank)) throw InputError(fmt::format("rank {} has not registered for this job", rank));
}

/// Why a change was not kept.
http::Response refusal(StoreOutcome outcome) {
  switch (outcome) {
    case StoreOutcome::disk_full:
      return detail_response(503, "the server's disk is full; free some of it");
    case StoreOutcome::busy:
      return detail_response(503, "too much waits to be written; try again later");
    default:
      return detail_response(503, "the server could not write to its store; its log says why");
  }
}

}  // namespace

class Service::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(ServiceOptions options, Surroundings surroundings, Store& store)
      : options_(std::move(options)),
        surroundings_(std::move(surroundings)),
        store_(store),
        settings_(std::make_shared<const Settings>(options_.settings)),
        fingerprint_(settings_->fingerprint()) {}

  void restore(const StoreContents& contents);
  bool handle(const http::Request& request, const ReplyPointer& reply);
  void remove_idle_jobs();
  [[nodiscard]] Status status() const;

 private:
  /// A request on its way to the function that answers it.
  struct Call {
    const http::Request& request;
    const http::Target& target;
    std::vector<std::string> captures;
    const ReplyPointer& reply;
  };
  struct Route {
    std::string_view method;
    std::string_view pattern;
    void (Impl::*answer)(const Call& call);
  };
  [[nodiscard]] static std::span<const Route> routes();

  void show_info(const Call& call);
  void register_job(const Call& call);
  void register_artifact_rank(const Call& call);
  void register_zeus_rank(const Call& call);
  void give_schedule(const Call& call);
  void take_result(const Call& call);
  void register_rank(const JobPointer& job, RankInfo rank, const ReplyPointer& reply);
  void ask(const JobPointer& job, int rank, const ReplyPointer& reply);
  void report(const JobPointer& job, Result result, const ReplyPointer& reply);

  /// Throws HttpError 404 when there is no such job.
  [[nodiscard]] JobPointer find(const std::string& id) const;
  /// Throws InputError, too, when another kind of client has registered it.
  [[nodiscard]] JobPointer find(const std::string& id, Client client) const;
  [[nodiscard]] std::string new_id(const JobInfo& info) const;
  void begin(const JobPointer& job, Replay replayed, bool released);
  void end_window_if_reported(const JobPointer& job);
  void take_early_reports(const JobPointer& job);
  void start(const JobPointer& job, const std::shared_ptr<Work>& work, bool released);
  void take(const JobPointer& job, Work& work, bool released);
  void keep_window(Job& job, const Work& work);
  void release_if_all_ask(const JobPointer& job);
  static void give(const JobPointer& job);
  static void end(const JobPointer& job, End over);
  /// Writes documents and then calls `then`, unless the service is gone by then.
  void write(std::vector<StoredDocument> documents, std::function<void(StoreOutcome)> then);

  ServiceOptions options_;
  Surroundings surroundings_;
  Store& store_;
  std::shared_ptr<const Settings> settings_;
  std::string fingerprint_;
  std::map<std::string, JobPointer> jobs_;
};

// --- requests
// -----------------------------------------------------------------------------------------------------------

std::span<const Service::Impl::Route> Service::Impl::routes() {
  static constexpr std::array<Route, 6> kRoutes = {{
      {"GET", "/info", &Impl::show_info},
      {"POST", "/register_job", &Impl::register_job},
      {"POST", "/register_rank", &Impl::register_artifact_rank},
      {"POST", "/register_rank/{}", &Impl::register_zeus_rank},
      {"GET", "/schedule/{}", &Impl::give_schedule},
      {"POST", "/result/{}", &Impl::take_result},
  }};
  return kRoutes;
}

bool Service::Impl::handle(const http::Request& request, const ReplyPointer& reply) {
  // FastAPI answers no HEAD where it has a GET.
  static const http::Router router(http::routes_of(routes()), "docs/perseus.md", http::HeadRequests::refused);
  const auto begins = [](std::string_view path) { return path.substr(0, path.find('/', 1)); };
  const auto is_ours = [&](const Route& route) { return begins(route.pattern) == begins(request.path); };
  if (std::ranges::none_of(routes(), is_ours)) return false;
  try {
    refuse_browsers(request, options_.loopback_only);
    const http::Target target = http::parse_target(request.path, request.query);
    http::Router::Match match = router.find(request, target);
    const Call call{.request = request, .target = target, .captures = std::move(match.captures), .reply = reply};
    (this->*routes()[match.route].answer)(call);
  } catch (const http::HttpError& error) {
    reply->send(detail_response(error));
  } catch (const InputError& error) {
    reply->send(detail_response(400, error.what()));
  } catch (const std::exception& error) {
    reply->send(detail_response(500, error.what()));
  }
  return true;
}

void Service::Impl::show_info(const Call& call) {
  call.reply->send(http::json_response(perseus_server_info(*settings_)));
}

void Service::Impl::register_artifact_rank(const Call& call) {
  RankRegistration registration = read_perseus_rank(call.request.body, Client::artifact);
  register_rank(find(registration.job_id, Client::artifact), std::move(registration.rank), call.reply);
}

void Service::Impl::register_zeus_rank(const Call& call) {
  RankRegistration registration = read_perseus_rank(call.request.body, Client::zeus);
  register_rank(find(call.captures[0], Client::zeus), std::move(registration.rank), call.reply);
}

void Service::Impl::give_schedule(const Call& call) {
  ask(find(call.captures[0]), read_rank_parameter(call.target), call.reply);
}

void Service::Impl::take_result(const Call& call) {
  report(find(call.captures[0]), read_perseus_result(call.request.body), call.reply);
}

JobPointer Service::Impl::find(const std::string& id) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end())
    throw http::HttpError(http::ErrorCode::no_such_job, "no job " + quote(id) + "; register it first");
  found->second->last_active_s = surroundings_.now_s();
  return found->second;
}

JobPointer Service::Impl::find(const std::string& id, Client client) const {
  JobPointer job = find(id);
  if (job->client() != client)
    throw InputError("the job was registered by another client; /info says which API this is");
  return job;
}

/// A job like one of the same second is given a later one: scripts know results by the form of their folder's name.
std::string Service::Impl::new_id(const JobInfo& info) const {
  for (double time_s = surroundings_.now_s();; ++time_s) {
    std::string id = perseus_job_name(info, settings_->scheduler, time_s);
    if (jobs_.contains(id)) continue;
    if (!surroundings_.has_results || !surroundings_.has_results(id)) return id;
  }
}

void Service::Impl::register_job(const Call& call) {
  JobInfo info = read_perseus_job(call.request.body);
  auto ranks = static_cast<std::size_t>(info.world_size);
  for (const auto& [id, job] : jobs_) ranks += job->ranks.size();
  if (jobs_.size() >= options_.max_jobs || ranks > options_.max_ranks) {
    throw http::HttpError(http::ErrorCode::full,
                          fmt::format("the server has {} jobs and accepts no more of this size", jobs_.size()));
  }
  const auto job = std::make_shared<Job>(new_id(info), std::move(info));
  job->created_s = job->last_active_s = surroundings_.now_s();
  job->settings_fingerprint = fingerprint_;
  jobs_.emplace(job->id, job);
  write({{perseus_key(job->id, "job"), write_perseus_job_document(*job)}},
        [this, job, reply = call.reply](StoreOutcome outcome) {
          if (outcome == StoreOutcome::committed) {
            reply->send(http::json_response(job->id));
          } else {
            jobs_.erase(job->id);
            reply->send(refusal(outcome));
          }
        });
}

void Service::Impl::register_rank(const JobPointer& job, RankInfo rank, const ReplyPointer& reply) {
  if (job->ranks.check(rank)) {
    // Answered after the write that the first registration may still wait for.
    write({}, [reply](StoreOutcome) { reply->send(http::json_response(nullptr)); });
    return;
  }
  const int number = rank.rank;
  std::string document = write_perseus_rank_document(rank);
  job->ranks.add(std::move(rank));
  write({{perseus_key(job->id, "rank", number), std::move(document)}}, [=, this](StoreOutcome outcome) {
    if (outcome != StoreOutcome::committed) {
      job->ranks.remove(number);
      reply->send(refusal(outcome));
      return;
    }
    reply->send(http::json_response(nullptr));
    job->ranks.count_stored();
    if (job->ranks.all_stored()) begin(job, {}, false);
  });
}

void Service::Impl::ask(const JobPointer& job, int rank, const ReplyPointer& reply) {
  require_registered(*job, rank);
  const auto index = static_cast<std::size_t>(rank);
  if (job->end) {
    reply->send(detail_response(job->end->status, job->end->detail));
    return;
  }
  // It was given the schedule before, and the answer was lost, or it is Zeus' client, which never reports.
  if (job->state == Job::State::running && !job->reports.results[index]) {
    reply->send(http::json_response(job->scheduling.schedule_of(rank)));
    return;
  }
  ReplyPointer& place = job->waiting.replies[index];
  if (place) {
    place->send(detail_response(400, fmt::format("rank {} has asked again on another connection", rank)));
  } else {
    ++job->waiting.count;
  }
  place = reply;
  reply->on_close([weak = std::weak_ptr(job), index, asked = std::weak_ptr(reply)] {
    const JobPointer held = weak.lock();
    if (!held) return;
    ReplyPointer& waiting = held->waiting.replies[index];
    if (!waiting || waiting != asked.lock()) return;
    waiting.reset();
    --held->waiting.count;
  });
  release_if_all_ask(job);
}

void Service::Impl::report(const JobPointer& job, Result result, const ReplyPointer& reply) {
  const int rank = result.rank;
  require_registered(*job, rank);
  if (job->state == Job::State::resuming && job->reports.early.size() < job->reports.results.size()) {
    job->reports.early.push_back({std::move(result), reply});
    return;
  }
  if (job->state != Job::State::running) {
    throw InputError(fmt::format("rank {} reports without a schedule; request one first", rank));
  }
  const auto index = static_cast<std::size_t>(rank);
  std::optional<Result>& reported = job->reports.results[index];
  if (reported) {
    // Of what nothing looks at, no more is kept than that it came.
    const bool is_whole = !reported->iteration_time_s.empty();
    if (is_whole && *reported != result) {
      throw InputError(fmt::format("rank {} has already reported other results; request the next schedule", rank));
    }
    write({}, [reply](StoreOutcome) { reply->send(http::json_response(nullptr)); });
    return;
  }
  // What nothing will look at is not worth the disk.
  const bool whole = job->scheduling.observes || surroundings_.dump;
  Result mark;
  mark.rank = rank;
  std::string document = write_perseus_result_document(job->scheduling.window, whole ? result : mark);
  reported = std::move(result);
  write({{perseus_key(job->id, "result", rank), std::move(document)}}, [=, this](StoreOutcome outcome) {
    if (outcome != StoreOutcome::committed) {
      job->reports.results[index].reset();
      reply->send(refusal(outcome));
      return;
    }
    reply->send(http::json_response(nullptr));
    ++job->reports.stored;
    end_window_if_reported(job);
  });
}

// --- windows
// ------------------------------------------------------------------------------------------------------------

void Service::Impl::begin(const JobPointer& job, Replay replayed, bool released) {
  auto work = std::make_shared<Work>();
  work->ranks = job->ranks.all();
  work->replayed = std::move(replayed);
  start(job, work, released);
}

void Service::Impl::end_window_if_reported(const JobPointer& job) {
  if (job->state != Job::State::running || job->reports.stored < job->info.world_size) return;
  auto work = std::make_shared<Work>();
  std::vector<std::optional<Result>>& results = job->reports.results;
  for (std::optional<Result>& result : results) work->results.push_back(std::move(*result));
  results.assign(results.size(), std::nullopt);
  job->reports.stored = 0;
  start(job, work, false);
}

void Service::Impl::start(const JobPointer& job, const std::shared_ptr<Work>& work, bool released) {
  job->state = released ? Job::State::resuming : Job::State::preparing;
  work->job_id = job->id;
  work->info = job->info;
  work->scheduling = std::move(job->scheduling);
  work->settings = settings_;
  work->progress = surroundings_.progress;
  work->keeps_files = static_cast<bool>(surroundings_.dump);
  surroundings_.run(
      [work, dump = surroundings_.dump] {
        do_work(*work);
        for (File& file : work->files) dump(work->job_id, std::move(file));
      },
      [weak = weak_from_this(), job, work, released] {
        const std::shared_ptr<Impl> self = weak.lock();
        if (self) self->take(job, *work, released);
      });
}

void Service::Impl::take(const JobPointer& job, Work& work, bool released) {
  const bool window_is_over = !work.results.empty();
  job->scheduling = std::move(work.scheduling);
  for (const std::string& doubt : work.doubts) {
    if (surroundings_.warn) surroundings_.warn(fmt::format("job {}: {}", job->id, doubt));
  }
  if (window_is_over) ++job->scheduling.window;
  if (!work.end) job->state = released ? Job::State::running : Job::State::ready;
  if (window_is_over) keep_window(*job, work);
  if (work.end) {
    end(job, *std::move(work.end));
  } else if (released) {
    give(job);
    take_early_reports(job);
    end_window_if_reported(job);
  } else {
    release_if_all_ask(job);
  }
}

void Service::Impl::take_early_reports(const JobPointer& job) {
  for (Reports::Early& early : std::exchange(job->reports.early, {})) {
    try {
      report(job, std::move(early.result), early.reply);
    } catch (const InputError& error) {
      early.reply->send(detail_response(400, error.what()));
    }
  }
}

/// The results of the window are on disk: should this be lost, it is done again.
void Service::Impl::keep_window(Job& job, const Work& work) {
  std::vector<StoredDocument> documents = {{perseus_key(job.id, "job"), write_perseus_job_document(job)}};
  if (!work.window.empty()) {
    const int window = job.scheduling.window - 1;
    documents.push_back({perseus_key(job.id, "window", window), to_json(work.window).dump()});
    job.kept_windows.push_back(window);
  }
  write(std::move(documents), {});
}

void Service::Impl::release_if_all_ask(const JobPointer& job) {
  if (job->state != Job::State::ready || job->waiting.count < job->info.world_size) return;
  job->state = Job::State::running;
  // So that a server that starts anew knows that ranks have begun. They are given the schedule also when it cannot be
  // written down: a disk that is full is no reason to stop training.
  write({{perseus_key(job->id, "job"), write_perseus_job_document(*job)}}, [job](StoreOutcome) { give(job); });
}

void Service::Impl::give(const JobPointer& job) {
  if (job->state != Job::State::running) return;
  std::vector<ReplyPointer>& replies = job->waiting.replies;
  for (std::size_t rank = 0; rank < replies.size(); ++rank) {
    if (job->reports.results[rank]) continue;
    const ReplyPointer reply = std::exchange(replies[rank], nullptr);
    if (!reply) continue;
    --job->waiting.count;
    reply->send(http::json_response(job->scheduling.schedule_of(static_cast<int>(rank))));
  }
}

void Service::Impl::end(const JobPointer& job, End over) {
  job->state = Job::State::ended;
  job->end = std::move(over);
  job->waiting.count = 0;
  for (ReplyPointer& place : job->waiting.replies) {
    const ReplyPointer reply = std::exchange(place, nullptr);
    if (reply) reply->send(detail_response(job->end->status, job->end->detail));
  }
  for (const Reports::Early& early : std::exchange(job->reports.early, {})) {
    early.reply->send(detail_response(job->end->status, job->end->detail));
  }
}

// --- the store
// ----------------------------------------------------------------------------------------------------------

void Service::Impl::write(std::vector<StoredDocument> documents, std::function<void(StoreOutcome)> then) {
  StoreChange change;
  change.documents = std::move(documents);
  store_.write(std::move(change), [weak = weak_from_this(), then = std::move(then)](StoreOutcome outcome) {
    const std::shared_ptr<Impl> self = weak.lock();
    if (self && then) then(outcome);
  });
}

void Service::Impl::restore(const StoreContents& contents) {
  for (const auto& [id, documents] : documents_by_job(contents.documents)) {
    try {
      StoredPerseusJob stored = read_perseus_documents(id, documents);
      const JobPointer job = std::move(stored.job);
      jobs_.emplace(id, job);
      if (job->settings_fingerprint != fingerprint_) {
        end(job, {400, "the server was restarted with another scheduler; start the job again"});
      } else if (job->ranks.all_stored()) {
        begin(job, std::move(stored.replay), stored.released);
      }
    } catch (const InputError&) {
      // A job whose documents are damaged is not there; the answers to its ranks say so.
      jobs_.erase(id);
    }
  }
}

void Service::Impl::remove_idle_jobs() {
  const double oldest_s = surroundings_.now_s() - options_.max_idle_s;
  std::erase_if(jobs_, [&](const auto& entry) {
    const JobPointer& job = entry.second;
    if (job->last_active_s >= oldest_s || job->waiting.count > 0) return false;
    std::vector<StoredDocument> documents = {{perseus_key(job->id, "job"), ""}};
    for (int rank = 0; rank < job->info.world_size; ++rank) {
      documents.push_back({perseus_key(job->id, "rank", rank), ""});
      documents.push_back({perseus_key(job->id, "result", rank), ""});
    }
    for (const int window : job->kept_windows) {
      documents.push_back({perseus_key(job->id, "window", window), ""});
    }
    write(std::move(documents), {});
    return true;
  });
}

Status Service::Impl::status() const {
  Status status;
  status.jobs = jobs_.size();
  for (const auto& [id, job] : jobs_) {
    status.ranks += job->ranks.stored();
    status.waiting += static_cast<std::size_t>(job->waiting.count);
  }
  return status;
}

Service::Service(ServiceOptions options, Surroundings surroundings, Store& store, const StoreContents& contents)
    : impl_(std::make_shared<Impl>(std::move(options), std::move(surroundings), store)) {
  impl_->restore(contents);
}

Service::~Service() = default;

bool Service::handle(const http::Request& request, const std::shared_ptr<http::Reply>& reply) {
  return impl_->handle(request, reply);
}
void Service::remove_idle_jobs() { impl_->remove_idle_jobs(); }
Status Service::status() const { return impl_->status(); }

}  // namespace lowgear::server::perseus
