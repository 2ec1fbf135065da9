#include "server/http/api_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/http/message/error.h"
#include "protocol/answers.h"
#include "protocol/json_members.h"
#include "protocol/node_power.h"
#include "protocol/rank_reports.h"
#include "server/http/csv_export.h"
#include "server/http/dashboard_files.h"
#include "server/job/job_documents.h"

namespace lowgear::server {
namespace {

constexpr double kLongestWaitS = 60;
/// Less than what a share is valid for, by enough for the next request.
constexpr double kLongestShareWaitS = 2;
constexpr double kMaxFactor = 100;
constexpr double kMaxWatts = 1e9;
constexpr int kMaxPage = 1'000;
/// The last second of the year 9999.
constexpr double kLastExportS = 253'402'300'799;
constexpr const char* kCsv = "text/csv; charset=utf-8";

void send(ApiCall& call, const Json& body) { call.reply->send(http::json_response(body)); }

/// Of a job that is over, as the store has it.
void send_archived(ApiCall& call, const FinishedJob& job,
                   std::function<std::string(const FinishedJob&, const StoredArchive&)> show) {
  call.control_plane.store().read_archive(
      job.id, [reply = call.reply, job, show = std::move(show)](const std::optional<StoredArchive>& archive) {
        if (!archive) {
          reply->send(error_response(http::ErrorCode::store_failing,
                                     "the server cannot read the data of this job; its log says why"));
          return;
        }
        try {
          reply->send(http::Response::with_body(200, "application/json", show(job, *archive)));
        } catch (const Error& error) {
          reply->send(error_response(http::ErrorCode::store_failing, error.what()));
        }
      });
}

// What ranks do.

void register_job(ApiCall& call) {
  const auto answer = [&](const ControlPlane::Registered& registered) {
    const JobRecord& job = *registered.job;
    const protocol::JobAnswer document{
        .job = job.id, .created = registered.created, .state = std::string(name(job.state()))};
    return call.on_committed(to_json(document), registered.created ? 201 : 200);
  };
  const ControlPlane::Registered registered = call.control_plane.register_job(
      protocol::read_job_spec(call.body()), answer, call.request.header("lowgear-instance"));
  if (const FinishedJob* over = registered.finished) {
    return send(call, to_json(protocol::JobAnswer{.job = over->id, .created = false, .state = over->state}));
  }
}

void register_rank(ApiCall& call) {
  const JobRecord& job = call.job();
  const protocol::RankSpec rank = read_rank_spec(call.body(), job.spec.parallel);
  (void)call.control_plane.register_rank(job, rank, [&](const RankRegistration& registration) {
    if (registration.outcome == RankRegistration::Outcome::taken) {
      throw http::HttpError(http::ErrorCode::rank_taken,
                            fmt::format("another process has registered rank {} of this job; a process of another "
                                        "start of the run is accepted 30 s after the last request of that one",
                                        rank.rank));
    }
    if (registration.outcome == RankRegistration::Outcome::moved) {
      throw http::HttpError(
          http::ErrorCode::rank_moved,
          fmt::format(
              "rank {} has registered for another pp_rank, dp_rank or tp_rank, another host or GPU before: send the "
              "same values, or start another run",
              rank.rank));
    }
    const protocol::RankAnswer answer{.rank_key = registration.key, .plan_version = job.plan_version()};
    const bool created = registration.outcome == RankRegistration::Outcome::created;
    return call.on_committed(to_json(answer), created ? 201 : 200);
  });
}

void give_plan(ApiCall& call) {
  if (!call.target.parameters.contains("rank")) throw InputError("the parameter rank is missing");
  if (const FinishedJob* over = call.finished_job()) {
    (void)call.late_rank(*over, static_cast<int>(call.integer("rank", 0, 0, protocol::kMaxJobRanks - 1)));
    if (call.control_plane.has_another_job(*over)) {
      throw http::HttpError(http::ErrorCode::no_such_job, "its run was started again: register with its new job");
    }
    return call.control_plane.let_wait(call.number("wait_s", 0, 0, kLongestWaitS), pending_plan(call.reply));
  }
  const JobRecord& job = call.job();
  const auto rank = static_cast<int>(call.integer("rank", 0, 0, job.spec.parallel.world_size() - 1));
  call.require_rank(job, rank);
  const auto after = static_cast<int>(call.integer("after", 0, 0, 1 << 30));
  call.control_plane.wait_for_plan(job, rank, after, call.number("wait_s", 0, 0, kLongestWaitS),
                                   pending_plan(call.reply));
}

void take_reports(ApiCall& call) {
  const FinishedJob* over = call.finished_job();
  const protocol::RankReports reports = protocol::read_rank_reports(call.body());
  if (over != nullptr) {
    return send(call,
                to_json(protocol::ReportsAnswer{.last_iteration = call.late_rank(*over, reports.rank).last_iteration,
                                                .plan_version = over->plan_version}));
  }
  const JobRecord& open = call.job();
  call.require_rank(open, reports.rank);
  call.control_plane.change(open, [&](Job& job) {
    const PowerBudgets& budgets = call.control_plane.budgets();
    const RegisteredRank& rank = *open.ranks.find(reports.rank);
    job.report(reports, call.control_plane.now_s(), budgets.most_w(rank.spec.gpu_uuid));
    const bool is_first_stage = open.ranks.find(reports.rank)->spec.pp_rank == 0;
    const protocol::ReportsAnswer answer{.last_iteration = open.history.last_iteration(reports.rank),
                                         .plan_version = open.plan_version(),
                                         .wants_begins = is_first_stage && budgets.wants_begins(),
                                         .delays = is_first_stage ? budgets.delays(open.id) : std::nullopt};
    return call.on_committed(to_json(answer));
  });
}

void take_cells(ApiCall& call) {
  const JobRecord& open = call.job();
  const protocol::RankCells cells = protocol::read_rank_cells(call.body(), open.spec.parallel.stages());
  call.require_rank(open, cells.rank);
  call.control_plane.change(open, [&](Job& job) {
    const protocol::CellsAnswer answer{.accepted = cells.cells.size()};
    job.add_cells(cells, call.control_plane.now_s());
    return call.on_committed(to_json(answer));
  });
}

void take_decisions(ApiCall& call) {
  const FinishedJob* over = call.finished_job();
  const protocol::RankDecisions decisions = protocol::read_rank_decisions(call.body());
  const protocol::DecisionsAnswer answer{.accepted = decisions.decisions.size()};
  if (over != nullptr) {
    (void)call.late_rank(*over, decisions.rank);
    return send(call, to_json(answer));
  }
  const JobRecord& open = call.job();
  call.require_rank(open, decisions.rank);
  call.control_plane.change(open, [&](Job& job) {
    job.add_decisions(decisions, call.control_plane.now_s());
    return call.on_committed(to_json(answer));
  });
}

void finish_rank(ApiCall& call) {
  const JsonView body = call.body();
  // A rank that missed the answer may say so again.
  if (const FinishedJob* over = call.finished_job()) {
    (void)protocol::read_rank_finish(body, protocol::kMaxJobRanks);
    return send(call, to_json(protocol::FinishAnswer{.state = over->state}));
  }
  const JobRecord& known = call.job();
  const protocol::RankFinish finish = protocol::read_rank_finish(body, known.spec.parallel.world_size());
  // Of a job that is over, keys need not be known any more: a rank that missed the answer may say so again.
  if (!known.is_over()) call.require_rank(known, finish.rank);
  call.control_plane.change(known, [&](Job& job) {
    job.finish_rank(finish.rank, call.control_plane.now_s(), finish.failure);
    return call.on_committed(to_json(protocol::FinishAnswer{.state = std::string(name(job.record().state()))}));
  });
}

const std::string& parameter(const ApiCall& call, const std::string& name) {
  const auto found = call.target.parameters.find(name);
  if (found == call.target.parameters.end()) throw InputError(fmt::format("the parameter {} is missing", name));
  return found->second;
}

/// Before a job of the same key registers: its order may depend on the times.
void show_profile(ApiCall& call) {
  protocol::JobSpec job;
  job.model = parameter(call, "model");
  job.partition = parameter(call, "partition");
  job.gpu = parameter(call, "gpu");
  const auto size = [&call](std::string_view name) {
    return static_cast<int>(call.integer(name, 1, 1, protocol::kMaxJobRanks));
  };
  job.parallel = {.pp = size("pp"), .dp = 1, .tp = size("tp"), .chunks = size("chunks")};
  job.microbatch_size = static_cast<int>(call.integer("microbatch_size", 1, 1, 1 << 20));
  const std::string key = job.profile_key(call.integer("simulated", 0, 0, 1) == 1);
  const auto found = call.control_plane.profiles().find(key);
  if (found == call.control_plane.profiles().end()) {
    throw http::HttpError(http::ErrorCode::not_found, "there is no profile of this model, partition and GPU yet");
  }
  call.reply->send(http::Response::with_body(200, "application/json", write_measured_profile(*found->second)));
}

// What people and controllers see.

/// With what a reader has to know to start the first one.
void list_jobs(ApiCall& call) {
  const ApiEnvironment& server = call.environment;
  send(call,
       {{"jobs", call.control_plane.summaries()},
        {"server", {{"unix", server.unix_socket}, {"job_tokens", server.authenticator->has_token_for(Scope::jobs)}}}});
}

void show_job(ApiCall& call) {
  if (const FinishedJob* over = call.finished_job()) return send_archived(call, *over, show_finished_job);
  const JobRecord& job = call.job();
  send(call, {{"job", summary_json(job)}, {"spec", to_json(job.spec)}, {"ranks", ranks_json(job)}});
}

void show_job_frontier(ApiCall& call) {
  if (const FinishedJob* over = call.finished_job()) return send_archived(call, *over, show_frontier);
  send(call, frontier_json(call.job()));
}

void show_job_timeline(ApiCall& call) {
  if (const FinishedJob* over = call.finished_job()) return send_archived(call, *over, show_timeline);
  send(call, timeline_json(call.job()));
}

void show_job_iterations(ApiCall& call) {
  const auto limit = static_cast<std::size_t>(call.integer("limit", kMaxPage, 1, kMaxPage));
  const std::int64_t after = call.integer("after", -1, -1, 1LL << 40);
  const FinishedJob* over = call.finished_job();
  if (over == nullptr) return send(call, iterations_json(call.job(), after, limit));
  send_archived(call, *over, [after, limit](const FinishedJob& job, const StoredArchive& archive) {
    return show_iterations(job, archive, after, limit);
  });
}

void show_decisions(ApiCall& call) {
  const FinishedJob* over = call.finished_job();
  const std::string id = over != nullptr ? over->id : call.job().id;
  const auto limit = static_cast<int>(call.integer("limit", kMaxPage, 1, kMaxPage));
  const std::int64_t after = call.integer("after", 0, 0, 1LL << 40);
  call.control_plane.store().read_decisions(
      id, after, limit, [reply = call.reply, id, after](const std::vector<StoredDecision>& decisions) {
        Json list = Json::array();
        const std::int64_t dropped =
            decisions.empty() ? 0 : std::max<std::int64_t>(0, decisions.front().id - after - 1);
        for (const StoredDecision& decision : decisions) {
          Json document = Json::parse(decision.document, nullptr, false);
          if (document.is_discarded()) continue;  // its row is damaged
          list.push_back(std::move(document));
        }
        reply->send(http::json_response({{"job", id}, {"decisions", std::move(list)}, {"dropped", dropped}}));
      });
}

void show_budgets(ApiCall& call) { send(call, call.control_plane.budgets().to_json()); }

void show_signals(ApiCall& call) { send(call, call.control_plane.signals().to_json()); }

/// The same request from a place in the file on.
std::string next_page(const std::string& file, const ExportQuery& query, const std::string& next) {
  return fmt::format("</v1/exports/{}?from_s={}&to_s={}&after={}>; rel=\"next\"", file, query.from_s, query.to_s, next);
}

void export_file(ApiCall& call) {
  const std::string& file = call.captures.at(0);
  const double from_s = call.number("from_s", 0, 0, kLastExportS);
  const double to_s = call.number("to_s", kLastExportS, 0, kLastExportS);
  const std::optional<ExportTable> table = export_table(file);
  if (!table) {
    throw http::HttpError(
        http::ErrorCode::not_found,
        fmt::format("there is no export {}; there are usage.csv, jobs.csv, decisions.csv and budgets.csv",
                    quote(file)));
  }
  const auto after = call.target.parameters.find("after");
  ExportQuery query{.table = *table, .from_s = from_s, .to_s = to_s, .after = {}, .limit = kExportRows};
  if (after != call.target.parameters.end()) query.after = after->second;
  require_place(*table, query.after);
  call.control_plane.store().read_page(query, [reply = call.reply, file, query](const std::optional<ExportPage>& page) {
    if (!page) {
      return reply->send(
          error_response(http::ErrorCode::store_failing, "the server cannot read these rows; its log says why"));
    }
    const CsvHeader header = query.after.empty() ? CsvHeader::with : CsvHeader::without;
    http::Response response = http::Response::with_body(200, kCsv, export_csv(query.table, *page, header));
    if (!page->next.empty()) response.headers.emplace_back("Link", next_page(file, query, page->next));
    reply->send(std::move(response));
  });
}

void stream_events(ApiCall& call, std::string job) {
  http::Response head;
  head.content_type = "text/event-stream";
  if (auto stream = call.reply->stream(std::move(head)))
    call.environment.events->add(std::move(stream), std::move(job));
}

void stream_all_events(ApiCall& call) { stream_events(call, {}); }

void stream_job_events(ApiCall& call) {
  const FinishedJob* over = call.finished_job();
  stream_events(call, over != nullptr ? over->id : call.job().id);
}

// Requests that change state.

/// The job, to be changed: throws HttpError 409 when it is over.
const JobRecord& open_job(ApiCall& call) {
  const JobRecord& job = call.job();
  if (job.is_over()) throw http::HttpError(http::ErrorCode::job_over, "this job is finished and cannot be changed");
  return job;
}

/// The job, whose plans are to be changed: throws HttpError 409 also when the server makes none for it.
const JobRecord& planned_job(ApiCall& call) {
  const JobRecord& job = open_job(call);
  if (!job.plans_itself()) return job;
  throw http::HttpError(http::ErrorCode::disagrees,
                        "this job plans its own steps, so stragglers, power caps and settings would change nothing: "
                        "leave this out, or start the job again without energy.steps");
}

void set_straggler(ApiCall& call) {
  const JobRecord& open = planned_job(call);
  const JsonView body = call.body();
  require_members(body, {"rank", "factor"});
  const int rank = body.at("rank").integer_in(0, open.spec.parallel.world_size() - 1);
  if (open.ranks.find(rank) == nullptr) body.at("rank").fail("has not registered yet");
  const double factor = number_in(body.at("factor"), 1, kMaxFactor);
  call.control_plane.change(open, [&](Job& job) {
    const std::int64_t decision = job.set(StragglerTarget{rank, factor}, call.control_plane.now_s());
    return call.on_committed({{"decision", decision}});
  });
}

void set_power_cap(ApiCall& call) {
  const JobRecord& open = planned_job(call);
  const JsonView body = call.body();
  require_members(body, {"scope", "watts", "swing_w"});
  api::PowerCap cap;
  if (body.has("scope")) cap.scope = read_cap_scope(body.at("scope"));
  if (has_value(body, "watts")) cap.watts = number_in(body.at("watts"), 1, kMaxWatts);
  if (has_value(body, "swing_w")) cap.swing_w = number_in(body.at("swing_w"), 0, kMaxWatts);
  std::optional<api::PowerCap> target;  // empty: ends the cap
  if (cap.watts || cap.swing_w) target = cap;
  call.control_plane.change(open, [&](Job& job) {
    const std::int64_t decision = job.set(target, call.control_plane.now_s());
    return call.on_committed({{"decision", decision}});
  });
}

void set_settings(ApiCall& call) {
  const JobRecord& open = planned_job(call);
  const JsonView body = call.body();
  require_members(body, {"slowdown_pct", "guard_pct"});
  const auto optional = [&](std::string_view name) {
    return has_value(body, name) ? std::optional(number_in(body.at(name), 0, 1'000)) : std::nullopt;
  };
  const auto slowdown_pct = optional("slowdown_pct");
  const auto guard_pct = optional("guard_pct");
  if (!slowdown_pct && !guard_pct) body.fail("sets nothing", "give slowdown_pct, guard_pct or both");
  call.control_plane.change(open, [&](Job& job) {
    const std::int64_t decision = job.set(SlowdownTarget{slowdown_pct, guard_pct}, call.control_plane.now_s());
    return call.on_committed({{"decision", decision}});
  });
}

void delete_job(ApiCall& call) {
  if (const FinishedJob* over = call.finished_job())
    return send(call, to_json(protocol::FinishAnswer{.state = over->state}));
  call.control_plane.change(call.job(), [&](Job& job) {
    job.finish(kFinishedByRequest, call.control_plane.now_s());
    return call.on_committed(to_json(protocol::FinishAnswer{.state = std::string(name(job.record().state()))}));
  });
}

/// The name in the path of what is put for all jobs.
const std::string& name_in_path(ApiCall& call) {
  const std::string& name = call.captures.at(0);
  if (name.empty() || name.size() > protocol::kMaxNameBytes || printable(name, name.size()) != name) {
    throw InputError("the name in the path must be a short printable text");
  }
  return name;
}

void put_budget(ApiCall& call) {
  const std::string& name = name_in_path(call);
  call.control_plane.budgets().put(name, call.body(), call.on_committed({{"budget", name}}));
}

void delete_budget(ApiCall& call) {
  const std::string& name = call.captures.at(0);
  call.control_plane.budgets().remove(name, call.on_committed({{"budget", name}}));
}

void grant_power(ApiCall& call) {
  const std::string& host = name_in_path(call);
  if (call.nodes == nullptr || !call.nodes->contain(host)) {
    throw http::HttpError(
        http::ErrorCode::not_allowed,
        fmt::format("this token is not that of node {}: the token file names its nodes", quote(host)));
  }
  const protocol::NodePower node = protocol::read_node_power(call.body());
  const double now_s = call.control_plane.now_s();
  const double wait_s = call.control_plane.draining() ? 0 : call.number("wait_s", 0, 0, kLongestShareWaitS);
  call.control_plane.budgets().answer_node(
      node, {.host = host, .until_s = now_s + wait_s, .agent = pending_shares(call.reply)}, now_s);
}

void delete_node(ApiCall& call) {
  const std::string& host = call.captures.at(0);
  call.control_plane.budgets().forget_node(host, call.on_committed({{"node", host}}));
}

void put_signal(ApiCall& call) {
  const std::string& name = name_in_path(call);
  call.control_plane.signals().put(name, call.body(), call.on_committed({{"signal", name}}));
}

void delete_signal(ApiCall& call) {
  const std::string& name = call.captures.at(0);
  call.control_plane.signals().remove(name, call.on_committed({{"signal", name}}));
}

// Sign-ins of browsers, which are kept in memory alone.

/// Users of the Unix socket alone, whom the kernel attests, and not on a token or session that they add: what is
/// withdrawn or expires leaves no sessions behind.
void make_sign_in(ApiCall& call) {
  SignIns& sign_ins = call.environment.authenticator->sign_ins();
  if (!call.request.peer || !call.request.header("authorization").empty()) {
    throw http::HttpError(
        http::ErrorCode::not_found,
        "sign-ins are made on the server's Unix socket alone, without a token: lowgear serve sign-in");
  }
  if (sign_ins.dashboard().empty()) {
    throw http::HttpError(http::ErrorCode::not_found,
                          "the server listens on no loopback address, or all of this machine may read there without "
                          "signing in; start it with --listen 127.0.0.1:7787");
  }
  const std::string code = sign_ins.new_code(Authenticator::Clock::now());
  send(call, {{"url", sign_ins.address_with(code)}, {"valid_s", SignIns::kCodeLife.count()}});
}

/// Whoever reaches the server may ask: a long text is not parsed.
void begin_session(ApiCall& call) {
  constexpr std::size_t kMaxBytes = 4'096;
  if (call.request.body.size() > kMaxBytes) {
    throw http::HttpError(http::ErrorCode::body_too_large, "the body is longer than a one-time token");
  }
  const JsonView body = call.body();
  require_members(body, {"token"});
  const std::string code = body.at("token").text();
  SignIns& sign_ins = call.environment.authenticator->sign_ins();
  std::optional<std::string> token;
  if (is_from_this_machine(call.request)) token = sign_ins.exchange(code, Authenticator::Clock::now());
  if (!token) {
    throw http::HttpError(
        http::ErrorCode::no_token,
        "this address was used, has expired, or is for another machine; lowgear serve sign-in prints a new one");
  }
  send(call, {{"token", *token}, {"valid_s", SignIns::kSessionLife.count()}});
}

// What shows nothing of jobs.

std::string_view health(const ControlPlane& plane) {
  if (plane.draining()) return "draining";
  switch (plane.store().health()) {
    case StoreOutcome::committed:
      return "ok";
    case StoreOutcome::disk_full:
      return "disk_full";
    case StoreOutcome::busy:
      return "store_busy";
    case StoreOutcome::failed:
      return "store_failing";
  }
  return "ok";
}

void show_health(ApiCall& call) {
  const std::string_view status = health(call.control_plane);
  call.reply->send(http::json_response({{"status", status}}, status == "ok" ? 200 : 503));
}

void show_openapi(ApiCall& call) {
  call.reply->send(http::Response::with_body(200, "application/json", std::string(api_document("openapi.json"))));
}

void show_metrics(ApiCall& call) {
  call.reply->send(
      http::Response::with_body(200, "text/plain; version=0.0.4; charset=utf-8", call.environment.metrics()));
}

}  // namespace

Pending<PlanText> pending_plan(const std::shared_ptr<http::Reply>& reply) {
  return {.give =
              [reply](const PlanText& plan) {
                reply->send({.status = plan ? 200 : 204,
                             .content_type = plan ? "application/json" : "",
                             .body = plan,
                             .headers = {}});
              },
          .is_gone = [reply] { return reply->closed(); }};
}

Pending<protocol::NodeShares> pending_shares(const std::shared_ptr<http::Reply>& reply) {
  return {.give = [reply](const protocol::NodeShares& shares) { reply->send(http::json_response(to_json(shares))); },
          .is_gone = [reply] { return reply->closed(); }};
}

std::optional<Scope> scope_of(ApiAccess access) {
  switch (access) {
    case ApiAccess::anybody:
      return std::nullopt;
    case ApiAccess::readers:
      return Scope::read;
    case ApiAccess::ranks:
      return Scope::jobs;
    case ApiAccess::admins:
      return Scope::operate;
    case ApiAccess::agents:
      return Scope::node;
  }
  return Scope::operate;
}

std::span<const ApiRoute> api_routes() {
  using enum ApiAccess;
  static const std::vector<ApiRoute> routes{
      {"POST", "/v1/jobs", ranks, {}, register_job},
      {"POST", "/v1/jobs/{}/ranks", ranks, {}, register_rank},
      {"GET", "/v1/jobs/{}/plan", ranks, {"rank", "after", "wait_s"}, give_plan},
      {"POST", "/v1/jobs/{}/reports", ranks, {}, take_reports},
      {"POST", "/v1/jobs/{}/profile", ranks, {}, take_cells},
      {"POST", "/v1/jobs/{}/finish", ranks, {}, finish_rank},
      {"GET", "/v1/jobs", readers, {}, list_jobs},
      {"GET", "/v1/jobs/{}", readers, {}, show_job},
      {"GET", "/v1/jobs/{}/frontier", readers, {}, show_job_frontier},
      {"GET", "/v1/jobs/{}/timeline", readers, {}, show_job_timeline},
      {"GET", "/v1/jobs/{}/iterations", readers, {"after", "limit"}, show_job_iterations},
      {"GET", "/v1/jobs/{}/decisions", readers, {"after", "limit"}, show_decisions},
      {"GET", "/v1/jobs/{}/events", readers, {}, stream_job_events},
      {"GET", "/v1/events", readers, {}, stream_all_events},
      {"GET", "/v1/signals", readers, {}, show_signals},
      {"POST", "/v1/jobs/{}/straggler", admins, {}, set_straggler},
      {"POST", "/v1/jobs/{}/power_cap", admins, {}, set_power_cap},
      {"POST", "/v1/jobs/{}/settings", admins, {}, set_settings},
      {"DELETE", "/v1/jobs/{}", admins, {}, delete_job},
      {"PUT", "/v1/signals/{}", admins, {}, put_signal},
      {"DELETE", "/v1/signals/{}", admins, {}, delete_signal},
      {"GET", "/healthz", anybody, {}, show_health},
      {"GET", "/openapi.json", anybody, {}, show_openapi},
      {"GET", "/metrics", readers, {}, show_metrics},
      {"POST", "/v1/sign_ins", readers, {}, make_sign_in},
      {"POST", "/v1/sessions", anybody, {}, begin_session},
      {"GET", "/v1/budgets", readers, {}, show_budgets},
      {"PUT", "/v1/budgets/{}", admins, {}, put_budget},
      {"DELETE", "/v1/budgets/{}", admins, {}, delete_budget},
      {"POST", "/v1/jobs/{}/decisions", ranks, {}, take_decisions},
      {"POST", "/v1/nodes/{}/power", agents, {"wait_s"}, grant_power},
      {"DELETE", "/v1/nodes/{}", admins, {}, delete_node},
      {"GET", "/v1/exports/{}", readers, {"from_s", "to_s", "after"}, export_file},
      {"GET",
       "/v1/profile",
       ranks,
       {"model", "partition", "gpu", "pp", "tp", "chunks", "microbatch_size", "simulated"},
       show_profile},
  };
  return routes;
}

}  // namespace lowgear::server
