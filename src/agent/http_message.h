#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/agent_service.h"

namespace lowgear {

/// What a request may measure; more is refused before it is stored.
struct HttpLimits {
  std::size_t header_bytes = 8 * 1024;  ///< request line and headers together
  std::size_t body_bytes = 64 * 1024;
};

struct HttpRequest {
  std::string method;  ///< `GET`, `POST`, ...
  std::string path;    ///< as sent, still percent-encoded, without the query
  std::string query;   ///< as sent, without the question mark
  std::string body;
  /// Who asks, as the kernel attests it; empty over TCP, where nobody attests.
  std::optional<Peer> peer;
};

/// A stream of power readings that follows a response, one event for every round of telemetry.
struct PowerStream {
  enum class Format : unsigned char {
    lowgear,    ///< docs/agent-api.md
    zeusd_gpu,  ///< `{"timestamp_ms": 0, "power_mw": {"0": 75000}}`
    zeusd_cpu,  ///< `{"timestamp_ms": 0, "power_mw": {"0": {"cpu_mw": 85000, "dram_mw": null}}}`
  };
  Format format = Format::lowgear;
  std::vector<int> ids;  ///< GPU indices or CPU packages, ascending; empty for all

  friend auto operator<=>(const PowerStream&, const PowerStream&) = default;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  /// The events that follow; the body is then empty.
  std::optional<PowerStream> stream;
  /// The answer is not known yet: ask the same again after this time. Zero when this is the answer.
  std::chrono::milliseconds ask_again_after{0};
};

}  // namespace lowgear
