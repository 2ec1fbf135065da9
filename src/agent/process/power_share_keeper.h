#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "agent/config/config.h"
#include "agent/process/agent.h"
#include "protocol/node_power.h"

namespace lowgear::agent {

/// Reads the files that asking the server needs. Throws InputError when one cannot be used.
void check_power_share(const PowerShareOptions& options);

/// Sends one request at a time on a thread of its own, which no driver blocks and that blocks no other.
class PowerShareRequests;

/// Holds this node's share of the server's power budgets: it asks the server what each GPU may draw, by long poll, and
/// sets that as the GPU's power limit. A share is valid for some seconds. If none comes until then, whatever the
/// reason, each GPU gets the safe limit of the configuration. On the thread of the io_context.
class PowerShareKeeper {
 public:
  /// Sets the safe limits. `warn` receives what goes wrong, once for each change. Throws InputError when a file for TLS
  /// cannot be used.
  PowerShareKeeper(boost::asio::io_context& io, Agent& agent, PowerShareOptions options,
                   std::function<void(std::string_view)> warn);
  ~PowerShareKeeper();
  PowerShareKeeper(const PowerShareKeeper&) = delete;
  PowerShareKeeper& operator=(const PowerShareKeeper&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  void look();
  [[nodiscard]] std::map<std::string, double> unset_limits_w() const;
  [[nodiscard]] bool is_held() const { return unset_limits_w().empty(); }
  void hold();
  void ask();
  void take(const std::string& answer, Clock::time_point asked);
  void report(const std::string& problem);

  boost::asio::steady_timer timer_;
  Agent& agent_;
  PowerShareOptions options_;
  std::function<void(std::string_view)> warn_;
  std::unique_ptr<PowerShareRequests> requests_;
  std::map<std::string, double> shares_w_;  ///< by UUID
  Clock::time_point valid_until_;
  Clock::time_point set_;    ///< limits, last
  Clock::time_point asked_;  ///< last
  bool is_asking_ = false;
  bool is_renewed_ = false;  ///< shares have come, and the server was not asked since
  std::string problem_;      ///< as last reported
};

}  // namespace lowgear::agent
