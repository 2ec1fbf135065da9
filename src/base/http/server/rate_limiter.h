#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/http/server/server.h"

namespace lowgear::http {

/// Counts the requests of each client against a token bucket.
class RateLimiter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RateLimiter(RateLimit limit) : limit_(limit) {}

  /// Takes one of the client's tokens; if it has none, returns the time until the next one.
  [[nodiscard]] std::optional<std::chrono::duration<double>> refuse(const std::string& client, Clock::time_point now);
  /// Clients that are remembered: those whose bucket is not full, and some of the others.
  [[nodiscard]] std::size_t clients() const { return buckets_.size(); }

 private:
  struct Bucket {
    double tokens = 0;
    Clock::time_point filled{};
  };
  [[nodiscard]] double tokens(const Bucket& bucket, Clock::time_point now) const;
  void forget_full_buckets(Clock::time_point now);

  RateLimit limit_;
  std::unordered_map<std::string, Bucket> buckets_;
  std::size_t forget_at_ = 1024;  ///< clients
};

}  // namespace lowgear::http
