#pragma once

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

#include "agent/agent_service.h"
#include "agent/cpu_meter.h"
#include "agent/http_message.h"

namespace boost::asio {
class io_context;
}

namespace lowgear {

struct HttpServerOptions {
  HttpLimits limits;
  /// One more closes the connection that has been idle longest, or is refused with 503.
  std::size_t max_connections = 512;
  std::size_t max_streams = 256;
  /// A stream that has this much waiting to be read is closed.
  std::size_t max_stream_backlog_bytes = 64 * 1024;
  std::chrono::milliseconds request_timeout{10'000};  ///< for a request to come in, and for an answer to be read
  std::chrono::milliseconds idle_timeout{60'000};     ///< between the requests of a connection
  std::chrono::milliseconds telemetry_period{50};     ///< between the events of a stream
  std::function<void(std::string_view)> warn;         ///< told what an operator should know; may be empty
};

/// The agent's HTTP side (docs/agent-api.md): control and telemetry as JSON, streams of server-sent events, Prometheus
/// metrics. All of it runs on the thread of the given io_context, on which also the AgentService is called; nothing
/// waits for a client.
class HttpServer {
 public:
  /// `service` and `cpu_meter` (may be null: the CPU's energy is then "not supported") must outlive the server.
  HttpServer(boost::asio::io_context& io, AgentService& service, CpuMeter* cpu_meter, HttpServerOptions options = {});
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  /// Stops. Handlers that are still queued in the io_context then do nothing.
  ~HttpServer();

  /// Listens on a Unix socket with this mode and group. A socket on which nobody listens any more is replaced; throws
  /// InputError when somebody does, when the path is something else than a socket, or too long, or cannot be made.
  void listen_unix(const std::filesystem::path& path, mode_t mode, std::optional<gid_t> group = std::nullopt);
  /// Listens on the loopback interface, for reading only. Port 0 takes any that is free. Returns the port. Throws
  /// InputError when it is taken.
  std::uint16_t listen_tcp(std::uint16_t port);
  /// Closes every connection and removes the Unix sockets. May be called again.
  void stop();

  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] std::size_t streams() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lowgear
