#include "server/server_process.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/user_database.h"
#include "base/core/monotonic_clock.h"
#include "base/core/progress.h"
#include "base/http/message/message.h"
#include "base/http/server/server.h"
#include "base/http/tls/tls_credentials.h"
#include "base/ipc/termination_signals.h"
#include "base/ipc/unix_socket.h"
#include "server/fleet/control_plane.h"
#include "server/http/access_tokens.h"
#include "server/http/audit_log.h"
#include "server/http/dashboard_files.h"
#include "server/http/event_hub.h"
#include "server/job/rank_registry.h"
#include "server/job/server_metrics.h"
#include "server/perseus/requests.h"
#include "server/perseus/result_writer.h"
#include "server/perseus/service.h"
#include "server/planning/planning_threads.h"
#include "server/planning/work_thread.h"
#include "server/store/sqlite_store.h"
#include "server/store/state_folder.h"

namespace lowgear::server {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::milliseconds kTick{100};
constexpr unsigned kTicksPerFileCheck = 10;
constexpr std::chrono::milliseconds kDrainPatience{3'500};

/// Seconds since 1970 by the system's clock.
double calendar_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Seconds since 1970: what the system's clock said when the server started, and what has passed since. When that clock
/// is set, no rank waits longer for it and no job is taken to be silent.
double server_time_s() {
  static const double start_s = calendar_s() - monotonic_s();
  return start_s + monotonic_s();
}

/// A connection is a file: as many as the system lets this process have.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

AuthenticationRules authentication_rules(const Config& config, const std::optional<WatchedTokens>& tokens) {
  AuthenticationRules rules;
  if (tokens) rules.tokens = tokens->tokens();
  rules.peers = config.allow;
  rules.loopback_read = config.loopback_read;
  return rules;
}

std::optional<WatchedTokens> watched_tokens(const Config& config) {
  return config.token_file ? std::optional<WatchedTokens>(std::in_place, *config.token_file) : std::nullopt;
}

AuditFileOptions audit_file_options(const Config& config) {
  return {.path = config.audit.file.empty() ? config.state / "audit.jsonl" : config.audit.file,
          .max_bytes = config.audit.max_bytes,
          .files = config.audit.files};
}

ControlPlaneLimits limits_of(const Config& config) {
  ControlPlaneLimits limits;
  limits.jobs = static_cast<std::size_t>(config.max_jobs);
  limits.ranks = config.max_ranks;
  limits.job_units = static_cast<std::size_t>(config.max_job_units);
  limits.units = static_cast<std::size_t>(config.max_units);
  limits.node_w = config.max_node_w;
  return limits;
}

std::string url(const TcpAddress& address, std::uint16_t port, std::string_view scheme = "http") {
  const bool is_v6 = address.address.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", scheme, is_v6 ? "[" : "", address.address, is_v6 ? "]" : "", port);
}

/// Whether clients that name this address name the loopback interface.
bool has_loopback_name(const TcpAddress& address) {
  return address.address == "::1" || http::names_loopback(address.address);
}

/// The port of the Perseus protocol.
class PerseusFront final : public http::Handler {
 public:
  PerseusFront(asio::io_context& io, const PerseusPort& port, Store& store, const StoreContents& contents,
               const http::ServerOptions& http, std::function<void(std::string_view)> note)
      : results_(results_of(io, port.settings, http)),
        worker_([&io](std::function<void()> function) { asio::post(io, std::move(function)); }),
        service_({.settings = port.settings, .loopback_only = has_loopback_name(port.listen)}, surroundings(http.warn),
                 store, contents),
        http_(io, *this, http),
        port_(http_.listen_tcp(port.listen.address, port.listen.port)) {
    if (port.settings.log_level == perseus::kPerseusDebug) debug_ = std::move(note);
  }

  PerseusFront(const PerseusFront&) = delete;
  PerseusFront& operator=(const PerseusFront&) = delete;
  /// Stops what is being planned: a server that starts anew plans it again.
  ~PerseusFront() override { stop_->stop(); }

  void handle(http::Request request, std::shared_ptr<http::Reply> reply) override {
    if (debug_) reply = perseus::logged(request, std::move(reply), [this](const std::string& line) { debug_(line); });
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

  [[nodiscard]] perseus::Surroundings surroundings(std::function<void(const std::string&)> warn) {
    perseus::Surroundings surroundings;
    surroundings.warn = std::move(warn);
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
  WorkThread worker_;                            ///< before the service, which gives it work from its first moment on
  std::function<void(std::string_view)> debug_;  ///< hears of every request; may be empty
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
                        .calendar_s = calendar_s,
                        .new_key = new_secret,
                        .log = messages.warn,
                        .policy = options.config.policy},
                       limits_of(options.config)),
        tokens_(watched_tokens(options.config)),
        authenticator_(authentication_rules(options.config, tokens_), system_group_lookup()),
        audit_(options.config.audit.keep ? std::make_unique<AuditLog>(audit_file_options(options.config), messages.warn)
                                         : nullptr),
        api_({.control_plane = &control_plane_,
              .authenticator = &authenticator_,
              .events = &events_,
              .activity = &activity_,
              .audit = audit_.get(),
              .unix_socket = options.config.unix_socket.string(),
              .metrics = [this] { return server_metrics(snapshot()).text(); }}),
        site_(api_),
        http_(io, site_, http_options(options.config)),
        timer_(io) {
    StoreContents contents = store_.load();
    if (options.perseus) {
      perseus_ = std::make_unique<PerseusFront>(io, *options.perseus, store_, contents, http_options(options.config),
                                                messages_.note);
    }
    control_plane_.restore(std::move(contents));
    listen(options);
    offer_sign_ins(options);
    audit("started", fmt::format("process {}", ::getpid()));
    tick();
  }

  ~Server() { audit("stopped", fmt::format("process {}", ::getpid())); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

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

  void listen(const ProcessOptions& options) {
    const Config& config = options.config;
    http_.listen_unix(config.unix_socket, config.unix_mode, config.unix_group);
    addresses_.unix_socket = config.unix_socket;
    for (const TcpAddress& address : config.tcp) {
      addresses_.tcp.push_back(url(address, http_.listen_tcp(address.address, address.port)));
    }
    if (!config.tls.empty()) listen_tls(config);
    if (perseus_) addresses_.perseus = url(options.perseus->listen, perseus_->port());
  }

  /// For browsers over the loopback interface, where it asks for tokens.
  void offer_sign_ins(const ProcessOptions& options) {
    const auto& tcp = options.config.tcp;
    auto loopback = std::ranges::find_if(tcp, &TcpAddress::is_loopback);
    if (loopback == tcp.end()) {
      loopback = std::ranges::find_if(tcp, [](const TcpAddress& each) { return !each.loopback_name().empty(); });
    }
    if (options.config.loopback_read || loopback == tcp.end()) return;
    SignIns& sign_ins = authenticator_.sign_ins();
    std::string dashboard = addresses_.tcp.at(static_cast<std::size_t>(loopback - tcp.begin()));
    dashboard.replace(dashboard.find(loopback->address), loopback->address.size(), loopback->loopback_name());
    sign_ins.set_dashboard(std::move(dashboard));
    addresses_.dashboard = options.shown_to_person
                               ? sign_ins.address_with(sign_ins.new_code(Authenticator::Clock::now()))
                               : sign_ins.dashboard();
  }

  void audit(std::string_view event, std::string detail) {
    if (audit_) audit_->add(AuditedEvent{event, std::move(detail)});
  }

  void listen_tls(const Config& config) {
    tls_.emplace(config.tls_files);
    for (const TcpAddress& address : config.tls) {
      addresses_.tcp.push_back(url(address, http_.listen_tls(address.address, address.port, tls_->side()), "https"));
    }
  }

  /// Reads files again that have changed.
  void check_files() {
    if (tokens_) check_tokens();
    if (tls_) check_tls();
  }

  void check_tokens() {
    const std::optional<WatchedTokens::Change> change = tokens_->check();
    if (!change) return;
    audit("tokens", change->message);
    if (change->refused()) return messages_.warn(change->message);
    authenticator_.replace_tokens(change->tokens);
    if (change->withdraws) events_.end_streams();
    messages_.note(change->message);
  }

  void check_tls() {
    const std::optional<http::WatchedTls::Change> change = tls_->check();
    if (!change) return;
    audit("certificate", change->message);
    (change->accepted ? messages_.note : messages_.warn)(change->message);
  }

  void tick() {
    control_plane_.tick();
    if (ticks_++ % kTicksPerFileCheck == 0) check_files();
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
    if (audit_) {
      const AuditLog::Statistics log = audit_->statistics();
      snapshot.audit = Snapshot::Audit{.lines = log.written_lines, .lost = log.lost_lines, .failing = log.failing};
    }
    if (tls_) snapshot.certificate_expires_s = tls_->side()->expires_s();
    snapshot.stale_tokens = tokens_ && tokens_->stale();
    return snapshot;
  }

  asio::io_context& io_;
  Messages messages_;
  SqliteStore store_;
  PlanningThreads planning_;
  EventHub events_;
  Activity activity_;
  ControlPlane control_plane_;
  std::optional<WatchedTokens> tokens_;
  std::optional<http::WatchedTls> tls_;  ///< empty: no TLS is spoken
  Authenticator authenticator_;
  std::unique_ptr<AuditLog> audit_;
  Api api_;
  SiteHandler site_;
  http::Server http_;
  asio::steady_timer timer_;
  std::unique_ptr<PerseusFront> perseus_;
  Addresses addresses_;
  bool draining_ = false;
  unsigned ticks_ = 0;
};

/// Where the server writes. What its start makes is not looked for, as the service manager may make folders, too.
void check_places(const ProcessOptions& options) {
  const Config& config = options.config;
  StateFolder::check(config.state);
  const AuditFileOptions audit = audit_file_options(config);
  const bool is_in_state = audit.path.parent_path() == config.state;
  if (config.audit.keep && (!is_in_state || std::filesystem::exists(config.state))) AuditFile::check(audit.path);
  if (options.perseus && !options.perseus->settings.dump_dir.empty()) {
    perseus::ResultFolder::check(options.perseus->settings.dump_dir);
  }
  (void)ipc::UnixAddress::of_path(config.unix_socket);
  struct stat status {};
  if (::lstat(config.unix_socket.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
    throw InputError(
        fmt::format("{}: a file that is not a socket exists there; move it away, or configure another path",
                    printable(config.unix_socket.string())));
  }
}

}  // namespace

void check_server(const ProcessOptions& options) {
  const Config& config = options.config;
  require_safe_listening(config);
  StateFolder::require_not_moved(config.state);
  (void)watched_tokens(config);
  if (!config.tls.empty()) (void)http::TlsServerSide(config.tls_files);
  check_places(options);
}

void run_server(const ProcessOptions& options, const Messages& messages) {
  raise_file_limit();
  check_server(options);  // before anything is begun
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
