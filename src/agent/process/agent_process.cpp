#include "agent/process/agent_process.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "agent/http/http_api.h"
#include "agent/process/power_share_keeper.h"
#include "base/http/tls/tls_credentials.h"
#include "base/ipc/termination_signals.h"

namespace lowgear::agent {
namespace {

namespace asio = boost::asio;

/// Looks after the agent's health at regular times, and tells the service manager that its main thread lives.
class Heartbeat {
 public:
  /// `each_second` is called about once a second.
  Heartbeat(asio::io_context& io, Agent& agent, std::function<void()> each_second)
      : agent_(agent), each_second_(std::move(each_second)), timer_(io) {
    if (const auto wanted = ipc::service_watchdog_period())
      period_ = std::min<std::chrono::microseconds>(period_, *wanted / 2);
    beat();
  }

 private:
  void beat() {
    agent_.check_health();
    each_second_();
    ipc::notify_service_manager("WATCHDOG=1");
    timer_.expires_after(period_);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) beat();
    });
  }

  Agent& agent_;
  std::function<void()> each_second_;
  asio::steady_timer timer_;
  std::chrono::microseconds period_ = std::chrono::seconds(1);
};

HttpApiOptions http_options(const ProcessOptions& options, const AgentEnvironment& environment) {
  HttpApiOptions http;
  http.telemetry_period = std::chrono::milliseconds(static_cast<int>(1000 / options.agent.telemetry_rate_hz));
  http.zeusd_events = options.zeusd_events;
  http.server.warn = environment.warn;
  return http;
}

/// Null where no GPU is to be shared.
std::unique_ptr<MpsSharing> start_mps(asio::io_context& io, const ProcessOptions& options,
                                      const AgentEnvironment& environment) {
  if (environment.mps_gpus.empty()) return nullptr;
  return std::make_unique<MpsSharing>(io, options.mps, environment.mps_gpus,
                                      MpsEnvironment{.processes = environment.processes,
                                                     .in_group = system_group_lookup(),
                                                     .messages = {environment.note, environment.warn}});
}

}  // namespace

void check_agent(const ProcessOptions& options) {
  if (options.metrics && options.metrics->tls) (void)http::TlsServerSide(*options.metrics->tls);
  if (options.power_share) check_power_share(*options.power_share);
}

std::vector<std::string> run_agent(const ProcessOptions& options, AgentEnvironment environment, CpuMeter* cpu_meter,
                                   const ipc::TerminationSignals& signals) {
  asio::io_context io(1);
  asio::posix::stream_descriptor told_to_end(io, ::dup(signals.descriptor()));
  told_to_end.async_wait(asio::posix::stream_descriptor::wait_read, [&io](const boost::system::error_code& error) {
    if (!error) io.stop();
  });
  const std::unique_ptr<MpsSharing> mps = start_mps(io, options, environment);
  const std::function<void(std::string_view)> warn = environment.warn;
  HttpApiOptions http_api_options = http_options(options, environment);
  http_api_options.mps = mps.get();
  Agent agent(io, options.agent, std::move(environment));
  HttpApi http(io, agent, cpu_meter, http_api_options);
  http.listen_unix(options.http_socket, options.http_mode, options.http_group);
  if (options.http_port) (void)http.listen_tcp(*options.http_port);
  std::optional<http::WatchedTls> tls;
  if (options.metrics) {
    if (options.metrics->tls) tls.emplace(*options.metrics->tls);
    (void)http.listen_metrics(options.metrics->address, options.metrics->port, tls ? tls->side() : nullptr);
  }
  agent.listen();
  const Heartbeat heartbeat(io, agent, [&tls, warn] {
    const auto change = tls ? tls->check() : std::nullopt;
    if (change && !change->accepted && warn) warn(change->message);
  });
  std::optional<PowerShareKeeper> power_share;
  if (options.power_share) power_share.emplace(io, agent, *options.power_share, warn);
  ipc::notify_service_manager("READY=1");
  io.run();
  ipc::notify_service_manager("STOPPING=1");
  http.stop();
  power_share.reset();
  std::vector<std::string> failures = agent.stop();
  if (mps) {
    for (std::string& left : mps->stop()) failures.push_back(std::move(left));
  }
  return failures;
}

}  // namespace lowgear::agent
