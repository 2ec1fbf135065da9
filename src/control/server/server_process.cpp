#include "control/server/server_process.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <utility>

#include "base/core/files/user_database.h"
#include "base/core/monotonic_clock.h"
#include "base/core/stop_switch.h"
#include "base/http/message/host.h"
#include "base/http/server/server.h"
#include "base/ipc/service_notification.h"
#include "control/server/exports/webhook.h"
#include "control/server/fleet/control_plane.h"
#include "control/server/fleet/event_hub.h"
#include "control/server/http/site_handler.h"
#include "control/server/job/planning_threads.h"
#include "control/server/job/server_metrics.h"
#include "control/server/perseus/result_folder.h"
#include "control/server/perseus/result_writer.h"
#include "control/server/perseus/service.h"
#include "control/server/planning/work_thread.h"
#include "control/server/store/secret.h"
#include "control/server/store/sqlite_store.h"

namespace lowgear::server {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::milliseconds kTick{100};
constexpr std::chrono::milliseconds kDrainPatience{3'500};

/// Seconds since 1970: what the system's clock said when the server started, and what has passed since. When that clock
/// is set, no rank waits longer for it and no job is taken to be silent.
double server_time_s() {
  static const double start_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() - monotonic_s();
  return start_s + monotonic_s();
}

/// A connection is a file: as many as the system lets this process have.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

AuthenticationRules authentication_rules(const Config& config) {
  AuthenticationRules rules;
  if (config.token_file) rules.tokens = load_tokens(*config.token_file);
  rules.peers = config.allow;
  rules.loopback_read = config.loopback_read;
  return rules;
}

ControlPlaneLimits limits_of(const Config& config) {
  ControlPlaneLimits limits;
  limits.jobs = static_cast<std::size_t>(config.max_jobs);
  limits.ranks = config.max_ranks;
  limits.job_units = static_cast<std::size_t>(config.max_job_units);
  limits.units = static_cast<std::size_t>(config.max_units);
  return limits;
}

std::string url(const TcpAddress& address, std::uint16_t port) {
  const bool is_v6 = address.address.find(':') != std::string::npos;
  return is_v6 ? fmt::format("http://[{}]:{}", address.address, port)
               : fmt::format("http://{}:{}", address.address, port);
}

/// Whether clients that name this address name the loopback interface.
bool has_loopback_name(const TcpAddress& address) {
  return address.address == "::1" || http::names_loopback(address.address);
}

/// The port of the Perseus protocol.
class PerseusFront final : public http::Handler {
 public:
  PerseusFront(asio::io_context& io, const PerseusPort& port, Store& store, const StoreContents& contents,
               const http::ServerOptions& http)
      : results_(results_of(io, port.settings, http)),
        worker_([&io](std::function<void()> function) { asio::post(io, std::move(function)); }),
        service_({.settings = port.settings, .loopback_only = has_loopback_name(port.listen)}, surroundings(), store,
                 contents),
        http_(io, *this, http),
        port_(http_.listen_tcp(port.listen.address, port.listen.port)) {}

  PerseusFront(const PerseusFront&) = delete;
  PerseusFront& operator=(const PerseusFront&) = delete;
  /// Stops what is being planned: a server that starts anew plans it again.
  ~PerseusFront() override { stop_->stop(); }

  void handle(http::Request request, std::shared_ptr<http::Reply> reply) override {
    if (service_.handle(request, reply)) return;
    reply->send(http::Response::with_body(404, "application/json", R"({"detail":"Not Found"})"));
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] http::Server& http() { return http_; }
  [[nodiscard]] perseus::Service& service() { return service_; }
  [[nodiscard]] const perseus::Service& service() const { return service_; }

 private:
  struct Results {
    perseus::ResultFolder folder;
    perseus::ResultWriter writer;
  };

  /// Null when the settings name no folder.
  static std::unique_ptr<Results> results_of(asio::io_context& io, const perseus::Settings& settings,
                                             const http::ServerOptions& http) {
    if (settings.dump_dir.empty()) return nullptr;
    const perseus::ResultFolder folder(settings.dump_dir);
    return std::unique_ptr<Results>(new Results{folder, {folder, [&io, warn = http.warn](const std::string& text) {
                                                           asio::post(io, [warn, text] { warn(text); });
                                                         }}});
  }

  [[nodiscard]] perseus::Surroundings surroundings() {
    perseus::Surroundings surroundings;
    surroundings.now_s = server_time_s;
    surroundings.run = [this](std::function<void()> work, std::function<void()> done) {
      worker_.run(std::move(work), std::move(done));
    };
    surroundings.progress = stop_;
    if (!results_) return surroundings;
    surroundings.dump = [this](const std::string& job, perseus::File file) {
      results_->writer.write(job, std::move(file));
    };
    surroundings.has_results = [this](const std::string& job) { return results_->folder.has(job); };
    return surroundings;
  }

  std::shared_ptr<StopSwitch> stop_ = std::make_shared<StopSwitch>();
  std::unique_ptr<Results> results_;
  WorkThread worker_;  ///< before the service, which gives it work from its first moment on
  perseus::Service service_;
  http::Server http_;
  std::uint16_t port_;
};

/// All parts of a server that runs, put together: it has a field for each and no logic of its own.
class Server {
 public:
  Server(asio::io_context& io, const ProcessOptions& options, const Messages& messages)
      : io_(io),
        messages_(messages),
        store_(options.config.state, poster(), store_options(options.config)),
        planning_(options.config.planning_threads, poster(), options.config.planning_times),
        control_plane_({.store = &store_,
                        .planning = &planning_,
                        .events = &events_,
                        .activity = &activity_,
                        .now_s = server_time_s,
                        .new_key = new_secret,
                        .log = messages.warn},
                       limits_of(options.config)),
        authenticator_(authentication_rules(options.config), system_group_lookup()),
        api_({.control_plane = &control_plane_,
              .authenticator = &authenticator_,
              .events = &events_,
              .activity = &activity_,
              .metrics = [this] { return server_metrics(snapshot()) + webhook_text(); }}),
        site_(api_),
        http_(io, site_, http_options(options.config)),
        timer_(io) {
    StoreContents contents = store_.load();
    if (options.perseus) {
      perseus_ = std::make_unique<PerseusFront>(io, *options.perseus, store_, contents, http_options(options.config));
    }
    start_webhooks(options.config);
    control_plane_.restore(std::move(contents));
    listen(options);
    tick();
  }

  [[nodiscard]] const Addresses& addresses() const { return addresses_; }

  /// Ends in good order; the io_context then runs out of work, or is stopped.
  void drain() {
    if (draining_) return io_.stop();  // asked twice
    draining_ = true;
    planning_.stop();  // now, to have ended by the time the requests at hand have
    control_plane_.drain();
    if (perseus_) perseus_->http().stop();
    http_.drain(kDrainPatience, [this] { io_.stop(); });
  }

 private:
  [[nodiscard]] std::function<void(std::function<void()>)> poster() {
    return [this](std::function<void()> function) { asio::post(io_, std::move(function)); };
  }

  [[nodiscard]] SqliteStoreOptions store_options(const Config& config) const {
    return {.retention = config.retention,
            .now_s = server_time_s,
            .log = [warn = messages_.warn](const std::string& text) { warn(text); }};
  }

  [[nodiscard]] http::ServerOptions http_options(const Config& config) const {
    http::ServerOptions http = config.http;
    http.warn = messages_.warn;
    return http;
  }

  void start_webhooks(const Config& config) {
    for (const WebhookConfig& webhook : config.webhooks) {
      webhooks_.push_back(std::make_shared<Webhook>(
          webhook, read_webhook_address(webhook.url_file),
          [this](const std::string& text) { asio::post(io_, [warn = messages_.warn, text] { warn(text); }); }));
      events_.add(webhooks_.back(), {});
    }
  }

  [[nodiscard]] std::string webhook_text() const {
    std::vector<WebhookStatistics> statistics;
    for (const auto& webhook : webhooks_) statistics.push_back(webhook->statistics());
    return webhook_metrics(statistics);
  }

  void listen(const ProcessOptions& options) {
    const Config& config = options.config;
    http_.listen_unix(config.unix_socket, config.unix_mode, config.unix_group);
    addresses_.unix_socket = config.unix_socket;
    for (const TcpAddress& address : config.tcp) {
      addresses_.tcp.push_back(url(address, http_.listen_tcp(address.address, address.port)));
    }
    if (perseus_) addresses_.perseus = url(options.perseus->listen, perseus_->port());
  }

  void tick() {
    control_plane_.tick();
    if (perseus_) perseus_->service().remove_idle_jobs();
    ipc::notify_service_manager("WATCHDOG=1");
    timer_.expires_after(kTick);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) tick();
    });
  }

  [[nodiscard]] Snapshot snapshot() const {
    Snapshot snapshot = control_plane_.snapshot();
    snapshot.connections = http_.connections();
    snapshot.streams = http_.streams();
    const PlanningThreads::Load planning = planning_.load();
    snapshot.planned_for = planning.running;
    snapshot.waiting_planning = planning.waiting;
    if (perseus_) {
      snapshot.perseus_jobs = perseus_->service().status().jobs;
      snapshot.perseus_waiting = perseus_->service().status().waiting;
    }
    const StoreStatistics store = store_.statistics();
    snapshot.store = {.changes = store.changes,
                      .commits = store.commits,
                      .refused = store.refused,
                      .queued_bytes = store.queued_bytes,
                      .disk_full = store.disk_full};
    return snapshot;
  }

  asio::io_context& io_;
  Messages messages_;
  SqliteStore store_;
  PlanningThreads planning_;
  EventHub events_;
  Activity activity_;
  ControlPlane control_plane_;
  Authenticator authenticator_;
  Api api_;
  SiteHandler site_;
  http::Server http_;
  asio::steady_timer timer_;
  std::unique_ptr<PerseusFront> perseus_;
  std::vector<std::shared_ptr<Webhook>> webhooks_;
  Addresses addresses_;
  bool draining_ = false;
};

}  // namespace

void run_server(const ProcessOptions& options, const Messages& messages) {
  raise_file_limit();
  require_tokens(options.config);
  asio::io_context io(1);
  Server server(io, options, messages);
  asio::signal_set signals(io, SIGTERM, SIGINT, SIGHUP);
  const std::function<void(const boost::system::error_code&, int)> on_signal =
      [&](const boost::system::error_code& error, int) {
        if (error) return;
        ipc::notify_service_manager("STOPPING=1");
        server.drain();
        signals.async_wait(on_signal);
      };
  signals.async_wait(on_signal);
  ipc::notify_service_manager("READY=1");
  if (messages.started) messages.started(server.addresses());
  io.run();
}

}  // namespace lowgear::server
