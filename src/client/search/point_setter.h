#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "client/agent/agent_settings.h"

namespace lowgear::client {

/// What operating points without a plan are values of.
enum class PointKind : unsigned char { clock, power_limit };

/// `1380 MHz`, `600 W`.
[[nodiscard]] std::string point_name(PointKind kind, double value);

/// Has all GPUs of a job run at an operating point. Throws as AgentSettings.
class PointSetter {
 public:
  virtual ~PointSetter() = default;

  virtual void set(double value) = 0;
  /// Throws where the GPUs no longer run at what was set last.
  virtual void require_held() = 0;
  /// The GPUs are as they were before the first `set`. Never throws: an agent that is away restores them itself.
  virtual void release() noexcept = 0;
};

/// By the agent of this node.
class AgentPointSetter final : public PointSetter {
 public:
  /// `gpus` are UUIDs.
  AgentPointSetter(const std::filesystem::path& socket, const std::vector<std::string>& gpus, PointKind kind);
  ~AgentPointSetter() override;
  AgentPointSetter(const AgentPointSetter&) = delete;
  AgentPointSetter& operator=(const AgentPointSetter&) = delete;

  void set(double value) override;
  void require_held() override;
  void release() noexcept override;

 private:
  struct HeldGpu {
    std::string uuid;
    std::uint64_t lease = 0;  ///< 0: none
  };

  AgentSettings agent_;
  PointKind kind_;
  std::vector<HeldGpu> gpus_;
};

}  // namespace lowgear::client
