#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "agent/gpu/gpu_worker.h"
#include "agent/http/http_routes.h"
#include "agent/lease/lease_server.h"
#include "agent/mps/mps_options.h"
#include "base/http/message/endpoint.h"
#include "base/http/tls/tls_credentials.h"

namespace lowgear::agent {

struct Options {
  LeaseServerOptions lease_server;
  GpuWorkerOptions worker;
  double telemetry_rate_hz = 20;
  std::chrono::milliseconds settings_period{1'000};  ///< between checks of limits that other programs may change
  std::chrono::milliseconds driver_timeout{5'000};   ///< how long a request waits for the driver
  std::chrono::milliseconds hung_after{2'000};       ///< a driver call of this length is reported
  bool shares_power = false;                         ///< power limits are the agent's, and no process may set them
};

/// Where other machines may read metrics and health, and nothing else.
struct MetricsAddress {
  std::string address;  ///< of IPv4 or IPv6, without brackets
  std::uint16_t port = 0;
  std::optional<http::TlsServerFiles> tls;  ///< empty: plain HTTP
};

/// The node's share of a power budget (docs/serving.md).
struct PowerShareOptions {
  http::Endpoint server;
  std::filesystem::path token_file;  ///< empty: none is sent
  std::filesystem::path ca_file;     ///< authorities of a server of `https`; before LOWGEAR_SERVER_CA_FILE
  double safe_w = 0;                 ///< the power limit of each GPU without a share
  std::string host;                  ///< as budgets and ranks name it
};

struct ProcessOptions {
  Options agent;
  std::filesystem::path http_socket;
  mode_t http_mode = 0660;
  std::optional<gid_t> http_group;
  std::optional<std::uint16_t> http_port;  ///< on the loopback interface, for reading only; empty: none
  std::optional<MetricsAddress> metrics;   ///< empty: none
  ZeusdEvents zeusd_events = ZeusdEvents::device;
  MpsOptions mps;
  std::optional<PowerShareOptions> power_share;  ///< empty: power limits are as users set them
};

}  // namespace lowgear::agent
