#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "agent/cpu/cpu_meter.h"
#include "agent/http/http_routes.h"
#include "agent/service/agent_service.h"
#include "base/http/server/server.h"
#include "base/http/tls/tls_credentials.h"

namespace boost::asio {
class io_context;
}

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

}  // namespace lowgear::agent
