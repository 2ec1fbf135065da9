#include "client/search/held_point.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <utility>

#include "base/core/error.h"

namespace lowgear::client {

std::string point_name(PointKind kind, double value) {
  return fmt::format("{:g} {}", value, kind == PointKind::clock ? "MHz" : "W");
}

AgentPointSetter::AgentPointSetter(const std::filesystem::path& socket, const std::vector<std::string>& gpus,
                                   PointKind kind)
    : agent_(socket), kind_(kind) {
  for (const std::string& uuid : gpus) gpus_.push_back({.uuid = uuid, .lease = 0});
}

AgentPointSetter::~AgentPointSetter() { release(); }

void AgentPointSetter::set(double value) {
  for (HeldGpu& gpu : gpus_) {
    gpu.lease = kind_ == PointKind::clock ? agent_.lock_clock(gpu.uuid, static_cast<int>(std::lround(value)))
                                          : agent_.set_power_limit(gpu.uuid, value);
  }
}

void AgentPointSetter::require_held() {
  for (const HeldGpu& gpu : gpus_) {
    if (gpu.lease != 0) agent_.require_held(gpu.uuid, gpu.lease);
  }
}

void AgentPointSetter::release() noexcept {
  for (HeldGpu& gpu : gpus_) {
    const std::uint64_t lease = std::exchange(gpu.lease, 0);
    if (lease == 0) continue;
    try {
      agent_.release(lease);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
      // The agent is away, or has ended the lease: it restores the GPU by itself.
    }
  }
}

namespace {

constexpr std::uint64_t kLookEveryNs = 500'000'000;
/// After the driver has taken a setting: locked clocks take some 10 ms, a power limit is enforced within 100 ms.
constexpr std::uint64_t kSettleNs = 100'000'000;

}  // namespace

void HeldPoint::run_at(double value) {
  value_ = value;
  set();
}

void HeldPoint::set() {
  looked_ns_ = now_ns_();
  try {
    setter_->set(value_);
  } catch (const LeaseRefused&) {
    throw;
  } catch (const Error& error) {
    if (away_since_ns_ == 0) away_since_ns_ = looked_ns_;
    away_ = error.what();
    return;
  }
  looked_ns_ = now_ns_();
  settled_ns_ = looked_ns_ + kSettleNs;
  away_.clear();
  away_since_ns_ = 0;
}

void HeldPoint::keep() {
  if (value_ == 0 || now_ns_() < looked_ns_ + kLookEveryNs) return;
  if (away_since_ns_ != 0) return set();
  looked_ns_ = now_ns_();
  try {
    setter_->require_held();
  } catch (const LeaseRefused&) {
    throw;
  } catch (const Error& error) {
    away_since_ns_ = looked_ns_;
    away_ = error.what();
  }
}

void HeldPoint::release() noexcept {
  value_ = 0;
  away_.clear();
  away_since_ns_ = 0;
  setter_->release();
}

}  // namespace lowgear::client
