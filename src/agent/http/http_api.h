#pragma once

namespace boost::asio {
class io_context;
}

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/cpu/cpu_meter.h"
#include "agent/http/http_routes.h"
#include "agent/http/metrics.h"
#include "agent/service/agent_service.h"
#include "base/http/server/reply.h"
#include "base/http/server/server.h"
#include "base/http/tls/tls_credentials.h"

namespace lowgear::agent {

/// Limits for the clients of one machine.
[[nodiscard]] http::ServerOptions agent_server_options();

struct HttpApiOptions {
  http::ServerOptions server = agent_server_options();
  std::chrono::milliseconds telemetry_period{50};  ///< between the events of a stream
  ZeusdEvents zeusd_events = ZeusdEvents::device;
  MpsSharing* mps = nullptr;  ///< has to outlive the API; null: no GPU is shared by MPS
};

/// The agent's HTTP side (docs/agent.md): control and telemetry as JSON, streams of server-sent events, Prometheus
/// metrics. All of it runs on the thread of the given io_context, on which also the Service is called; nothing
/// waits for a client.
class HttpApi {
 public:
  /// `service` and `cpu_meter` (may be null: the CPU's energy is then "not supported") must outlive this.
  HttpApi(boost::asio::io_context& io, Service& service, CpuMeter* cpu_meter, HttpApiOptions options = {});
  HttpApi(const HttpApi&) = delete;
  HttpApi& operator=(const HttpApi&) = delete;
  /// Stops. Functions that are still queued in the io_context then do nothing.
  ~HttpApi();  // NOLINT(bugprone-exception-escape): see its definition

  /// As http::Server's.
  void listen_unix(const std::filesystem::path& path, mode_t mode, std::optional<gid_t> group = std::nullopt);
  /// Listens on the loopback interface, for reading only. Port 0 takes any that is free. Returns the port. Throws
  /// InputError when it is taken.
  std::uint16_t listen_tcp(std::uint16_t port);
  /// Answers `GET /metrics` and `GET /healthz`, and nothing else, to every program that reaches this address of IPv4 or
  /// IPv6, whatever its `Host`. Port 0 takes any that is free. Returns the port. Throws InputError when it is taken.
  /// With `tls` it speaks that.
  std::uint16_t listen_metrics(const std::string& address, std::uint16_t port,
                               std::shared_ptr<const http::TlsServerSide> tls = nullptr);
  /// Closes every connection and removes the Unix sockets. May be called again.
  void stop();

  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] std::size_t streams() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// Measures the power of GPUs and of the CPU in rounds, and sends it to the clients that stream it. Runs on one
/// thread.
class TelemetryRounds {
 public:
  /// `service`, `cpu_meter` and `mps` (both may be null) must outlive this. `warn` receives why a round failed,
  /// and may be empty.
  TelemetryRounds(Service& service, CpuMeter* cpu_meter, MpsSharing* mps, ZeusdEvents zeusd_events,
                  std::function<void(std::string_view)> warn);

  /// Sends `wanted` to the stream at each round, until it is closed.
  void subscribe(PowerStream wanted, std::shared_ptr<http::EventStream> stream);
  /// Reads the GPUs, and the CPU where it is due, and sends each stream its readings. Throws nothing.
  void round();
  /// Forgets all streams.
  void clear() { streams_.clear(); }

  /// The context of routes.
  [[nodiscard]] RouteContext context() { return {service_, cpu_power_, metrics_, zeusd_events_, mps_}; }

 private:
  struct Subscriber {
    PowerStream wanted;
    std::shared_ptr<http::EventStream> stream;
  };

  void read_cpu_when_due();
  void publish(const std::vector<GpuStatus>& gpus);

  Service& service_;
  MpsSharing* mps_;
  ZeusdEvents zeusd_events_;
  std::function<void(std::string_view)> warn_;
  CpuPower cpu_power_;
  std::chrono::steady_clock::time_point last_cpu_read_ = std::chrono::steady_clock::now();
  Metrics metrics_;
  std::vector<Subscriber> streams_;
};

}  // namespace lowgear::agent
