#include "client/server/server_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/core/error.h"
#include "base/http/client/client.h"
#include "base/http/message/message.h"
#include "client/server/server_messages.h"
#include "protocol/answers.h"
#include "protocol/rank_reports.h"

namespace lowgear::client {
namespace {

using std::chrono::milliseconds;

/// Before a plan that could not be taken is asked for again: the server learns meanwhile which iterations have begun.
constexpr milliseconds kOfferedAgain{200};
/// Before one is asked for again that there is no agent for.
constexpr milliseconds kOfferedWithoutAgent{1'000};
constexpr milliseconds kMaxRetryAfter{60'000};

/// The server has answered, and not with success.
class ServerRefusal : public Error {
 public:
  ServerRefusal(int status, milliseconds retry_after, std::size_t address, const std::string& message)
      : Error(message), status_(status), retry_after_(retry_after), address_(address) {}
  /// It does not know this rank (any more), or the token has changed.
  [[nodiscard]] bool unknown() const { return status_ == 401 || status_ == 403 || status_ == 404; }
  /// The same request will not be taken at any time.
  [[nodiscard]] bool final() const { return status_ == 400 || status_ == 405 || status_ == 409 || status_ == 413; }
  [[nodiscard]] milliseconds retry_after() const { return retry_after_; }
  /// Of which of the addresses it came.
  [[nodiscard]] std::size_t address() const { return address_; }

 private:
  int status_;
  milliseconds retry_after_;
  std::size_t address_;
};

/// Checks a name from the server, which becomes part of a path or of a header.
const std::string& require_name(const std::string& text, std::string_view what) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (!text.empty() && text.size() <= 128 && std::ranges::all_of(text, allowed)) return text;
  throw InputError(fmt::format("the server names a {} of {}", what, quote(text)));
}

template <typename Read>
auto read_answer(const http::ReplyText& reply, const std::string& source, Read read) {
  const Json json = parse_json(reply.body, source);
  return read(JsonView(json, source));
}

/// A server compares when a body with begins was sent with when it came: the clocks of hosts differ.
std::string text_sent_now(protocol::RankReports body) {
  const bool has_begins =
      std::ranges::any_of(body.reports, [](const auto& report) { return report.begin_s.has_value(); });
  if (has_begins) {
    body.sent_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  return write_rank_reports(body);
}

std::uint64_t seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32U | device();
}

}  // namespace

ServerConnection::ServerConnection(ServerConnectionOptions options, PlanTaker& taker)
    : options_(std::move(options)),
      taker_(&taker),
      note_(options_.mark, options_.rank.instance),
      plans_(open_channel()),
      reports_(open_channel()) {
  plans_.thread = std::thread([this] { follow_plans(); });
  reports_.thread = std::thread([this] { send_reports(); });
}

ServerConnection::HttpChannel ServerConnection::open_channel() const {
  http::ClientOptions http;
  http.tls = options_.tls;
  HttpChannel channel{.http = {}, .backoff = ScatteredBackoff(options_.first_backoff, options_.last_backoff, seed())};
  for (const http::Endpoint& address : options_.addresses) channel.http.emplace_back(address, http);
  return channel;
}

void ServerConnection::HttpChannel::cancel() noexcept {
  for (http::Client& client : http) client.cancel();
}

ServerConnection::~ServerConnection() {
  {
    std::unique_lock lock(mutex_);
    phase_ = Phase::stops;
    changed_.notify_all();
    plans_.cancel();
    changed_.wait_for(lock, options_.closing_time, [this] { return phase_ == Phase::finished; });
  }
  reports_.cancel();
  plans_.thread.join();
  reports_.thread.join();
}

bool ServerConnection::stopping() const {
  const std::lock_guard lock(mutex_);
  return stops();
}

void ServerConnection::sleep(milliseconds time) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [this] { return stops(); });
}

// Reports of the client.

void ServerConnection::report(const protocol::IterationReport& report, const protocol::GpuNow& gpu) {
  const std::lock_guard lock(mutex_);
  outbox_.add(report, gpu);
  changed_.notify_all();
}

void ServerConnection::hear(const protocol::GpuNow& gpu) {
  const std::lock_guard lock(mutex_);
  outbox_.hear(gpu);
  changed_.notify_all();
}

void ServerConnection::set_refusal(std::string reason) {
  const std::lock_guard lock(mutex_);
  if (outbox_.set_refusal(std::move(reason))) changed_.notify_all();
}

void ServerConnection::set_failure(std::string failure) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
}

void ServerConnection::post(ProfileResult result) {
  const std::lock_guard lock(mutex_);
  outbox_.add(std::move(result));
  changed_.notify_all();
}

void ServerConnection::report(protocol::TrainingDecision decision) {
  const std::lock_guard lock(mutex_);
  outbox_.decisions().add(std::move(decision), Clock::now());
  changed_.notify_all();
}

void ServerConnection::set_work(protocol::JobWork work) {
  const std::lock_guard lock(mutex_);
  outbox_.decisions().set_work(std::move(work));
  if (!outbox_.decisions().empty()) changed_.notify_all();
}

ServerStatus ServerConnection::status() const {
  const std::lock_guard lock(mutex_);
  return {.connected = health_.connected,
          .problem = health_.problem.empty() ? health_.plan_problem : health_.problem,
          .reports_lost = outbox_.lost(),
          .decisions_waiting = outbox_.decisions().waiting(),
          .decisions_lost = outbox_.decisions().lost()};
}

// Questions.

std::size_t ServerConnection::address() const {
  const std::lock_guard lock(mutex_);
  return place_.address;
}

/// The next address is asked from now on, unless this one has been left already. False where there is no other.
bool ServerConnection::leave(std::size_t address) {
  const std::lock_guard lock(mutex_);
  if (place_.address == address) place_.address = (address + 1) % options_.addresses.size();
  return options_.addresses.size() > 1;
}

/// An address does not know the rank (any more). The server may have moved to another one, with the rank: it registers
/// anew once each has been asked.
void ServerConnection::forget_session(const Session& session, std::size_t address) {
  const std::lock_guard lock(mutex_);
  if (place_.address != address || session_ != session) return;  // the other thread has seen to it
  place_.address = (address + 1) % options_.addresses.size();
  if (++place_.unknown < options_.addresses.size()) return;
  place_.unknown = 0;
  session_.reset();
}

/// Asks one address after the other until one can be reached. What may have been seen is not sent elsewhere at once:
/// the caller asks again.
ServerConnection::Reply ServerConnection::request(HttpChannel& channel, std::string_view method,
                                                  const std::string& target, const std::string& body,
                                                  const http::Client::HeaderList& headers, milliseconds timeout) {
  std::string problems;
  for (std::size_t tried = 1;; ++tried) {
    const std::size_t address = this->address();
    try {
      return {.text = channel.http[address].request(method, target, body, headers, timeout), .address = address};
    } catch (const http::ClientError& error) {
      if (error.kind() == http::ClientError::Kind::cancelled || !leave(address)) throw;
      if (error.kind() != http::ClientError::Kind::unreachable) throw;
      problems += (problems.empty() ? "" : "; ") + std::string(error.what());
      if (tried == options_.addresses.size()) throw http::ClientError(error.kind(), problems);
    }
  }
}

http::ReplyText ServerConnection::ask(HttpChannel& channel, std::string_view method, const std::string& target,
                                      const std::string& body, const Session* session, milliseconds timeout) {
  http::Client::HeaderList headers = http::token_headers(options_.token_file);
  if (!body.empty()) headers.emplace_back("Content-Type", "application/json");
  if (session != nullptr) {
    headers.emplace_back("Lowgear-Rank-Key", session->rank_key);
  } else {
    headers.emplace_back("Lowgear-Instance", options_.rank.instance);  // one that was cut off is not another start
  }
  auto [reply, address] = request(channel, method, target, body, headers, timeout);
  if (reply.status >= 300) {
    throw ServerRefusal(reply.status, http::retry_after(reply.headers, kMaxRetryAfter), address,
                        fmt::format("{}: {}", options_.addresses[address].text(),
                                    refusal_of(reply.status, reply.body, options_.addresses[address])));
  }
  const std::lock_guard lock(mutex_);
  health_.connected = true;
  health_.problem.clear();
  channel.backoff.reset();
  return reply;
}

/// Who this rank is to the server; registers when it has not yet. Either thread may have to.
ServerConnection::Session ServerConnection::session(HttpChannel& channel) {
  const std::lock_guard registering(registering_);
  {
    const std::lock_guard lock(mutex_);
    if (session_) return *session_;
  }
  const std::string source = "the server";
  Session session;
  http::ReplyText reply = ask(channel, "POST", "/v1/jobs", options_.job_json, nullptr, options_.answer_timeout);
  session.job = require_name(read_answer(reply, source, protocol::read_job_answer).job, "job");
  reply = ask(channel, "POST", fmt::format("/v1/jobs/{}/ranks", session.job), write_rank_spec(options_.rank), nullptr,
              options_.answer_timeout);
  session.rank_key = require_name(read_answer(reply, source, protocol::read_rank_answer).rank_key, "rank_key");
  start_session(session);
  return session;
}

void ServerConnection::start_session(Session session) {
  bool another_job = false;
  {
    const std::lock_guard lock(mutex_);
    another_job = !last_job_.empty() && last_job_ != session.job;
    last_job_ = session.job;
  }
  // First: what the taker still hands over of the job that is gone is dropped below.
  if (another_job) taker_->forget_versions();
  {
    const std::lock_guard lock(mutex_);
    if (another_job) outbox_.drop_job();
    note_.write({.addresses = options_.addresses,
                 .tls = options_.tls,
                 .token_file = options_.token_file,
                 .job = session.job,
                 .rank = options_.rank.rank,
                 .rank_key = session.rank_key});
    session_ = std::move(session);
  }
}

http::ReplyText ServerConnection::ask_as_rank(HttpChannel& channel, const Session& session, std::string_view method,
                                              const std::string& what, const std::string& body, milliseconds timeout) {
  try {
    http::ReplyText reply =
        ask(channel, method, fmt::format("/v1/jobs/{}/{}", session.job, what), body, &session, timeout);
    const std::lock_guard lock(mutex_);
    place_.unknown = 0;
    return reply;
  } catch (const ServerRefusal& refusal) {
    if (refusal.unknown()) forget_session(session, refusal.address());
    throw;
  }
}

/// Empty when the server will never take it; throws while it may.
std::optional<http::ReplyText> ServerConnection::post(HttpChannel& channel, const std::string& what,
                                                      const std::string& body) {
  return post_as(session(channel), channel, what, body);
}

std::optional<http::ReplyText> ServerConnection::post_as(const Session& as, HttpChannel& channel,
                                                         const std::string& what, const std::string& body) {
  try {
    return ask_as_rank(channel, as, "POST", what, body, options_.answer_timeout);
  } catch (const ServerRefusal& refusal) {
    if (!refusal.final()) throw;
    const std::lock_guard lock(mutex_);
    health_.problem = refusal.what();
    return std::nullopt;
  }
}

void ServerConnection::failed(HttpChannel& channel, const Error& error) {
  milliseconds wait = channel.backoff.next();
  if (const auto* refusal = dynamic_cast<const ServerRefusal*>(&error)) wait = std::max(wait, refusal->retry_after());
  {
    const std::lock_guard lock(mutex_);
    if (stops()) return;
    health_.connected = false;
    health_.problem = error.what();
  }
  sleep(wait);
}

// Plans.

void ServerConnection::follow_plans() {
  int after = 0;
  std::string job;
  while (!stopping()) {
    try {
      wait_for_plan(after, job);
    } catch (const Error& error) {
      failed(plans_, error);
    }
  }
}

/// Waits for a plan above version `after` of `job`, and hands it to the agent.
void ServerConnection::wait_for_plan(int& after, std::string& job) {
  const Session now = session(plans_);
  if (now.job != job) after = 0;
  job = now.job;
  const http::ReplyText reply =
      ask_as_rank(plans_, now, "GET",
                  fmt::format("plan?rank={}&after={}&wait_s={}", options_.rank.rank, after, options_.plan_wait.count()),
                  {}, options_.plan_wait + options_.answer_timeout);
  if (reply.status == 204) return;
  const protocol::RankPlan plan = protocol::read_rank_plan(reply.body, "the server");
  const AgentLease::OfferAnswer answer = taker_->offer(plan);
  {
    const std::lock_guard lock(mutex_);
    health_.plan_problem = answer.reason.empty() ? "" : fmt::format("plan {}: {}", plan.version, answer.reason);
  }
  switch (answer.offer) {
    case AgentLease::Offer::accepted:
    case AgentLease::Offer::refused:  // and will be again
      after = plan.version;
      return;
    case AgentLease::Offer::too_late:
      return sleep(kOfferedAgain);
    case AgentLease::Offer::no_lease:
      return sleep(kOfferedWithoutAgent);
  }
}

// Reports.

void ServerConnection::send_reports() {
  Clock::time_point not_before;
  while (wait_for_reports(not_before)) {
    not_before = Clock::now() + options_.report_period;
    try {
      say_all(reports_);
    } catch (const Error& error) {
      failed(reports_, error);
    }
  }
  finish();
  const std::lock_guard lock(mutex_);
  phase_ = Phase::finished;
  changed_.notify_all();
}

/// Waits until there is something to say and it is time to; false when the connection is to end.
bool ServerConnection::wait_for_reports(Clock::time_point not_before) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stops() || !outbox_.empty(); });
  changed_.wait_until(lock, not_before, [this] { return stops(); });
  return !stops();
}

/// Reports come first: the server knows by them that a profile plan has run.
void ServerConnection::say_all(HttpChannel& channel) {
  (void)session(channel);  // first, or what is said would be chosen long before
  say_reports(channel);
  say_profile(channel);
  say_decisions(channel);
}

void ServerConnection::say_reports(HttpChannel& channel) {
  std::optional<protocol::RankReports> body;
  {
    const std::lock_guard lock(mutex_);
    body = outbox_.next_reports(options_.rank.rank);
  }
  if (!body) return;
  const bool taken = post_reports(channel, *body);
  const std::lock_guard lock(mutex_);
  outbox_.heard(*body, taken);
}

/// Reports that were not sent stay in the outbox. An answer that is not as expected is none: the server has taken the
/// reports.
bool ServerConnection::post_reports(HttpChannel& channel, const protocol::RankReports& body) {
  std::optional<http::ReplyText> reply;
  try {
    reply = post(channel, "reports", text_sent_now(body));
  } catch (const Error&) {
    const std::lock_guard lock(mutex_);
    outbox_.not_heard();
    throw;
  }
  protocol::ReportsAnswer answer;
  try {
    if (reply) answer = read_answer(*reply, "the server", protocol::read_reports_answer);
  } catch (const InputError&) {
    answer = {};
  }
  taker_->take(answer);
  return reply.has_value();
}

void ServerConnection::say_profile(HttpChannel& channel) {
  std::optional<ProfileResult> result;
  {
    const std::lock_guard lock(mutex_);
    result = outbox_.next_profile();
  }
  if (!result) return;
  (void)post(channel, "profile", write_rank_cells(cells_of(options_.rank.rank, *result)));
  const std::lock_guard lock(mutex_);
  outbox_.heard_profile(result->plan_version);
}

/// Chooses the decisions for the job of the session, as another job lacks other ones.
void ServerConnection::say_decisions(HttpChannel& channel) {
  const Session as = session(channel);
  std::optional<protocol::RankDecisions> body;
  {
    const std::lock_guard lock(mutex_);
    body = outbox_.decisions().next(options_.rank.rank, Clock::now());
  }
  if (!body) return;
  const bool taken = post_as(as, channel, "decisions", write_rank_decisions(*body)).has_value();
  const std::lock_guard lock(mutex_);
  outbox_.decisions().sent(*body, taken);
}

/// Sends the remaining reports once. A server that is away now misses them, and notices the rank's silence by itself.
void ServerConnection::finish() {
  protocol::RankFinish end{.rank = options_.rank.rank};
  try {
    for (bool left = true; left;) {
      say_all(reports_);
      const std::lock_guard lock(mutex_);
      left = !outbox_.empty();
      end.failure = failure_;
    }
    (void)post(reports_, "finish", protocol::write_rank_finish(end));
    note_.remove();
  } catch (const Error& error) {
    const std::lock_guard lock(mutex_);
    health_.problem = error.what();
  }
}

}  // namespace lowgear::client
