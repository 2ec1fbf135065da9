#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/core/backoff.h"
#include "base/http/client/client.h"
#include "client/agent/agent_lease.h"
#include "client/server/outbox.h"
#include "client/server/profile_collector.h"
#include "client/server/rank_note.h"
#include "protocol/answers.h"
#include "protocol/rank_plan.h"
#include "protocol/rank_reports.h"
#include "protocol/rank_spec.h"

namespace lowgear::client {

struct ServerConnectionOptions {
  std::vector<http::Endpoint> addresses;  ///< of the server, which may move from one to another; at least one
  http::TlsClientFiles tls;               ///< for addresses of `https`
  std::filesystem::path token_file;       ///< holds the token alone; empty: none is sent
  std::string job_json;                   ///< body of POST /v1/jobs
  protocol::RankSpec rank;
  std::filesystem::path mark;  ///< of the `lowgear run` that speaks for the rank where its process cannot; empty: none
  std::chrono::milliseconds first_backoff{100};
  std::chrono::milliseconds last_backoff{5'000};
  std::chrono::milliseconds report_period{200};  ///< between two requests with reports, at least
  std::chrono::seconds plan_wait{20};            ///< that the server holds a request for a plan
  std::chrono::milliseconds answer_timeout{10'000};
  std::chrono::milliseconds closing_time{3'000};  ///< for the last messages
};

struct ServerStatus {
  bool connected = false;               ///< the last request was answered
  std::string problem;                  ///< empty: none
  std::uint64_t reports_lost = 0;       ///< reports that were dropped while the server was away for long
  std::uint64_t decisions_waiting = 0;  ///< that the server does not have yet
  std::uint64_t decisions_lost = 0;     ///< that it will not get: it refuses them, or was away for long
};

/// Receives the server's plans and its answers to reports. Called on the connection's threads.
class PlanTaker {
 public:
  virtual ~PlanTaker() = default;
  [[nodiscard]] virtual AgentLease::OfferAnswer offer(const protocol::RankPlan& plan) = 0;
  /// The server knows nothing of earlier versions any more.
  virtual void forget_versions() = 0;
  virtual void take(const protocol::ReportsAnswer& answer) = 0;
};

/// A rank's connection to the server (docs/server-api.md): registers, waits for plans, reports. Tries again for ever,
/// at each of its addresses in turn, while the server is not reachable, refuses, or sends invalid responses; meanwhile
/// the last plan stays in effect, and reports wait, of which the oldest are dropped beyond a limit. Separate threads do
/// all that; `report` and the others only queue.
class ServerConnection {
 public:
  /// `taker` lives longer than this.
  ServerConnection(ServerConnectionOptions options, PlanTaker& taker);
  /// Sends the remaining reports and finishes the rank, within `closing_time`.
  ~ServerConnection();
  ServerConnection(const ServerConnection&) = delete;
  ServerConnection& operator=(const ServerConnection&) = delete;

  void report(const protocol::IterationReport& report, const protocol::GpuNow& gpu);
  /// Lets the server hear that the rank trains, though there is nothing to report.
  void hear(const protocol::GpuNow& gpu);
  /// Why the rank follows no plans from now on; empty: it does.
  void set_refusal(std::string reason);
  /// What ends the rank; empty: nothing does. Said at the end.
  void set_failure(std::string failure);
  void post(ProfileResult result);
  /// Its `number` and `age_s` are set here.
  void report(protocol::TrainingDecision decision);
  void set_work(protocol::JobWork work);
  [[nodiscard]] ServerStatus status() const;

 private:
  using Clock = std::chrono::steady_clock;
  /// What registering has given.
  struct Session {
    std::string job;
    std::string rank_key;
    friend bool operator==(const Session&, const Session&) = default;
  };
  /// A connection to the server, how long it waits after a failure, and its thread.
  struct HttpChannel {
    std::vector<http::Client> http;  ///< to each address
    ScatteredBackoff backoff;
    std::thread thread = {};

    void cancel() noexcept;
  };
  struct Reply {
    http::ReplyText text;
    std::size_t address = 0;  ///< of which of the addresses
  };
  /// Which of the addresses is asked.
  struct Place {
    std::size_t address = 0;
    std::size_t unknown = 0;  ///< addresses left in a row, as they did not know the rank
  };
  struct Health {
    bool connected = false;    ///< the last request was answered
    std::string problem;       ///< with the connection; empty: none
    std::string plan_problem;  ///< with the newest plan; empty: none
  };
  enum class Phase : unsigned char {
    works,
    stops,     ///< the last messages are sent
    finished,  ///< nothing is left to be said
  };

  void follow_plans();
  [[nodiscard]] HttpChannel open_channel() const;
  void wait_for_plan(int& after, std::string& job);
  void send_reports();
  [[nodiscard]] bool wait_for_reports(Clock::time_point not_before);
  void say_all(HttpChannel& channel);
  void say_reports(HttpChannel& channel);
  [[nodiscard]] bool post_reports(HttpChannel& channel, const protocol::RankReports& body);
  void say_profile(HttpChannel& channel);
  void say_decisions(HttpChannel& channel);
  void finish();

  [[nodiscard]] Session session(HttpChannel& channel);
  void start_session(Session session);
  [[nodiscard]] std::size_t address() const;
  [[nodiscard]] bool leave(std::size_t address);
  void forget_session(const Session& session, std::size_t address);
  [[nodiscard]] Reply request(HttpChannel& channel, std::string_view method, const std::string& target,
                              const std::string& body, const http::Client::HeaderList& headers,
                              std::chrono::milliseconds timeout);
  [[nodiscard]] http::ReplyText ask(HttpChannel& channel, std::string_view method, const std::string& target,
                                    const std::string& body, const Session* session, std::chrono::milliseconds timeout);
  [[nodiscard]] http::ReplyText ask_as_rank(HttpChannel& channel, const Session& session, std::string_view method,
                                            const std::string& what, const std::string& body,
                                            std::chrono::milliseconds timeout);
  [[nodiscard]] std::optional<http::ReplyText> post(HttpChannel& channel, const std::string& what,
                                                    const std::string& body);
  [[nodiscard]] std::optional<http::ReplyText> post_as(const Session& as, HttpChannel& channel, const std::string& what,
                                                       const std::string& body);
  void failed(HttpChannel& channel, const Error& error);
  void sleep(std::chrono::milliseconds time);
  [[nodiscard]] bool stopping() const;
  /// The same, under the lock.
  [[nodiscard]] bool stops() const { return phase_ != Phase::works; }

  ServerConnectionOptions options_;
  PlanTaker* taker_;
  RankNote note_;
  HttpChannel plans_;
  HttpChannel reports_;

  std::mutex registering_;  ///< held by the thread that does

  mutable std::mutex mutex_;  ///< of all below
  std::condition_variable changed_;
  Phase phase_ = Phase::works;
  Place place_;
  std::optional<Session> session_;
  std::string last_job_;
  std::string failure_;
  Outbox outbox_;
  Health health_;
};

}  // namespace lowgear::client
