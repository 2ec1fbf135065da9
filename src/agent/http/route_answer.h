#pragma once

#include <chrono>
#include <compare>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/http/message/message.h"

namespace lowgear::agent {

/// A stream of power readings that follows a response: one event, or one event a device, for every round of telemetry.
struct PowerStream {
  enum class Format : unsigned char {
    lowgear,    ///< docs/agent.md
    zeusd_gpu,  ///< as RouteContext::zeusd_events says
    zeusd_cpu,
  };
  Format format = Format::lowgear;
  std::vector<int> ids;  ///< GPU indices or CPU packages, ascending; empty for all

  // NOLINTNEXTLINE(modernize-use-nullptr): the 0 of a comparison is no pointer
  friend auto operator<=>(const PowerStream&, const PowerStream&) = default;
};

/// The result of a route: a response, or a way to get it later.
struct RouteAnswer : http::Response {
  RouteAnswer() = default;
  RouteAnswer(http::Response response) : http::Response(std::move(response)) {}  // NOLINT(google-explicit-constructor)

  using Send = std::function<void(http::Response)>;
  /// Requests a response that is not available yet: called once, it passes the response to `send`, at once or later on
  /// the same thread. Empty if the response is here.
  std::function<void(const Send& send)> later;
  /// The events that follow; the body is then empty.
  std::optional<PowerStream> stream;
  /// The answer is not known yet: ask the same again after this time. Zero when this is the answer.
  std::chrono::milliseconds ask_again_after{0};
};

}  // namespace lowgear::agent
