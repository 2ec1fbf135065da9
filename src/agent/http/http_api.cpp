#include "agent/http/http_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "base/core/monotonic_clock.h"
#include "base/http/message/error.h"
#include "base/http/message/message.h"

namespace lowgear::agent {

namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr int kMaxAttempts = 20;

/// Over TCP the caller cannot be identified. What a browser sends for a page of the web carries that page's name as its
/// host.
http::Response misdirected(const http::Request& request) {
  constexpr std::size_t kMaxHost = 200;
  return error_response(
      http::ErrorCode::misdirected_request,
      fmt::format(
          "this port answers requests to localhost, 127.0.0.1 or [::1] only, not to {}; a proxy has to send one "
          "of these as Host",
          quote(request.header("host").substr(0, kMaxHost))));
}

/// The responses that reveal nothing about users, and can be read from other machines: a Prometheus or a kubelet sends
/// the machine's address as its host.
class PublicReadings : public http::Handler {
 public:
  using Answer = std::function<void(http::Request, std::shared_ptr<http::Reply>)>;
  explicit PublicReadings(Answer answer) : answer_(std::move(answer)) {}

  void handle(http::Request request, std::shared_ptr<http::Reply> reply) override {
    if (request.path == "/metrics" || request.path == "/healthz") return answer_(std::move(request), std::move(reply));
    reply->send(error_response(http::ErrorCode::not_found,
                               "this port has /metrics and /healthz only; the agent's Unix socket has the rest"));
  }

 private:
  Answer answer_;
};

}  // namespace

http::ServerOptions agent_server_options() {
  http::ServerOptions options;
  options.max_connections = 512;
  options.max_streams = 256;
  options.max_stream_backlog_bytes = std::size_t{64} * 1024;
  options.stream_retry = std::chrono::milliseconds(0);
  return options;
}

class HttpApi::Impl : public http::Handler, public std::enable_shared_from_this<HttpApi::Impl> {
 public:
  Impl(boost::asio::io_context& io, Service& service, CpuMeter* cpu_meter, HttpApiOptions options)
      : io_(io),
        telemetry_(service, cpu_meter, options.mps, options.zeusd_events, options.server.warn),
        telemetry_period_(options.telemetry_period),
        tick_timer_(io),
        server_(io, *this, options.server),
        public_server_(io, public_readings_, std::move(options.server)) {}

  [[nodiscard]] http::Server& server() { return server_; }
  [[nodiscard]] http::Server& public_server() { return public_server_; }

  void start() {
    if (std::exchange(ticking_, true)) return;
    next_tick_ = std::chrono::steady_clock::now();
    tick();
  }

  void stop() {
    stopped_ = true;
    tick_timer_.cancel();
    server_.stop();
    public_server_.stop();
    telemetry_.clear();
  }

  void handle(http::Request request, std::shared_ptr<http::Reply> reply) override {
    if (!request.peer && !http::names_loopback(request.header("host"))) return reply->send(misdirected(request));
    answer(std::make_shared<const http::Request>(std::move(request)), std::move(reply), 1);
  }

 private:
  void answer(const std::shared_ptr<const http::Request>& request, std::shared_ptr<http::Reply> reply, int attempt) {
    RouteAnswer answer = lowgear::agent::handle(*request, telemetry_.context());
    if (answer.ask_again_after.count() > 0) {
      if (attempt == kMaxAttempts) {
        return reply->send(
            error_response(http::ErrorCode::unavailable, "the response was not ready in time; try again"));
      }
      return answer_later(answer.ask_again_after, request, std::move(reply), attempt + 1);
    }
    if (answer.later) {
      return answer.later([reply](http::Response response) { reply->send(std::move(response)); });
    }
    if (!answer.stream) return reply->send(std::move(answer));
    PowerStream wanted = std::move(*answer.stream);
    if (auto stream = reply->stream(std::move(answer))) telemetry_.subscribe(std::move(wanted), std::move(stream));
  }

  void answer_later(std::chrono::milliseconds delay, const std::shared_ptr<const http::Request>& request,
                    std::shared_ptr<http::Reply> reply, int attempt) {
    auto timer = std::make_shared<boost::asio::steady_timer>(io_, delay);
    timer->async_wait([self = shared_from_this(), timer, request, reply = std::move(reply),
                       attempt](const boost::system::error_code& error) mutable {
      if (!error && !self->stopped_ && !reply->closed()) self->answer(request, std::move(reply), attempt);
    });
  }

  void tick() {
    telemetry_.round();
    next_tick_ = std::max(next_tick_ + telemetry_period_, std::chrono::steady_clock::now());
    tick_timer_.expires_at(next_tick_);
    tick_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error && !self->stopped_) self->tick();
    });
  }

  boost::asio::io_context& io_;
  TelemetryRounds telemetry_;
  std::chrono::milliseconds telemetry_period_;
  boost::asio::steady_timer tick_timer_;
  std::chrono::steady_clock::time_point next_tick_;
  bool ticking_ = false;
  bool stopped_ = false;
  PublicReadings public_readings_{[this](http::Request request, std::shared_ptr<http::Reply> reply) {
    answer(std::make_shared<const http::Request>(std::move(request)), std::move(reply), 1);
  }};
  http::Server server_;
  http::Server public_server_;
};

HttpApi::HttpApi(boost::asio::io_context& io, Service& service, CpuMeter* cpu_meter, HttpApiOptions options)
    : impl_(std::make_shared<Impl>(io, service, cpu_meter, std::move(options))) {}

// NOLINTNEXTLINE(bugprone-exception-escape): cancelling a timer throws nothing on Linux
HttpApi::~HttpApi() { impl_->stop(); }

void HttpApi::listen_unix(const std::filesystem::path& path, mode_t mode, std::optional<gid_t> group) {
  impl_->server().listen_unix(path, mode, group);
  impl_->start();
}

std::uint16_t HttpApi::listen_tcp(std::uint16_t port) {
  const std::uint16_t taken = impl_->server().listen_tcp(kLoopback, port);
  impl_->start();
  return taken;
}

std::uint16_t HttpApi::listen_metrics(const std::string& address, std::uint16_t port,
                                      std::shared_ptr<const http::TlsServerSide> tls) {
  http::Server& server = impl_->public_server();
  const std::uint16_t taken = tls ? server.listen_tls(address, port, std::move(tls)) : server.listen_tcp(address, port);
  impl_->start();
  return taken;
}

void HttpApi::stop() { impl_->stop(); }

std::size_t HttpApi::connections() const { return impl_->server().connections(); }

std::size_t HttpApi::streams() const { return impl_->server().streams(); }

namespace {

/// RAPL's counters start over after a minute at full load.
constexpr std::chrono::seconds kCpuReadPeriod{20};

}  // namespace

TelemetryRounds::TelemetryRounds(Service& service, CpuMeter* cpu_meter, MpsSharing* mps, ZeusdEvents zeusd_events,
                                 std::function<void(std::string_view)> warn)
    : service_(service),
      mps_(mps),
      zeusd_events_(zeusd_events),
      warn_(std::move(warn)),
      cpu_power_(cpu_meter, monotonic_ns) {}

void TelemetryRounds::subscribe(PowerStream wanted, std::shared_ptr<http::EventStream> stream) {
  streams_.push_back({std::move(wanted), std::move(stream)});
}

void TelemetryRounds::round() {
  try {
    const std::vector<GpuStatus> gpus = service_.gpus();
    metrics_.observe(gpus);
    read_cpu_when_due();
    publish(gpus);
  } catch (const std::exception& error) {
    if (warn_) warn_(std::string("no telemetry: ") + error.what());
  }
}

void TelemetryRounds::read_cpu_when_due() {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_cpu_read_ <= kCpuReadPeriod) return;
  last_cpu_read_ = now;
  (void)cpu_power_.energy();
}

/// One text for all streams that ask for the same.
void TelemetryRounds::publish(const std::vector<GpuStatus>& gpus) {
  std::erase_if(streams_, [](const Subscriber& subscriber) { return subscriber.stream->closed(); });
  std::map<PowerStream, std::shared_ptr<const std::string>> texts;
  for (const Subscriber& subscriber : streams_) {
    std::shared_ptr<const std::string>& shared = texts[subscriber.wanted];
    if (!shared) {
      std::string text;
      for (const std::string& event : stream_events(subscriber.wanted, gpus, context())) {
        text.append("data: ").append(event).append("\n\n");
      }
      shared = std::make_shared<const std::string>(std::move(text));
    }
    if (!shared->empty()) subscriber.stream->push(shared);
  }
}

}  // namespace lowgear::agent
