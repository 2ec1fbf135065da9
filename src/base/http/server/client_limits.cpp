#include "base/http/server/client_limits.h"

#include <algorithm>

namespace lowgear::http {

std::optional<std::chrono::duration<double>> RateLimiter::refuse(const std::string& client, Clock::time_point now) {
  if (limit_.requests_per_s <= 0) return std::nullopt;
  if (buckets_.size() >= forget_at_) forget_full_buckets(now);
  Bucket& bucket = buckets_.try_emplace(client, Bucket{std::max(limit_.burst, 1.0), now}).first->second;
  bucket.tokens = tokens(bucket, now);
  bucket.filled = now;
  if (bucket.tokens >= 1) {
    bucket.tokens -= 1;
    return std::nullopt;
  }
  return std::chrono::duration<double>((1 - bucket.tokens) / limit_.requests_per_s);
}

double RateLimiter::tokens(const Bucket& bucket, Clock::time_point now) const {
  const double passed_s = std::max(std::chrono::duration<double>(now - bucket.filled).count(), 0.0);
  return std::min(bucket.tokens + passed_s * limit_.requests_per_s, std::max(limit_.burst, 1.0));
}

void RateLimiter::forget_full_buckets(Clock::time_point now) {
  std::erase_if(buckets_, [&](const auto& entry) { return tokens(entry.second, now) >= std::max(limit_.burst, 1.0); });
  // Twice what is left, so that looking through all of them is rare.
  constexpr std::size_t kAtLeast = 1024;
  forget_at_ = std::max(kAtLeast, 2 * buckets_.size());
}

}  // namespace lowgear::http
