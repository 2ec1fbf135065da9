#include "client/search/point_setter.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <utility>

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

}  // namespace lowgear::client
