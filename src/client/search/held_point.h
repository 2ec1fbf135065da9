#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/agent/agent_connection.h"

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
  /// Throws where the GPUs no longer run at the point that was set last.
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

/// CLOCK_MONOTONIC in ns.
using NowNs = std::function<std::uint64_t()>;

/// The operating point that the GPUs of a job are held at. While no agent responds it waits, and is set again when one
/// does.
class HeldPoint {
 public:
  HeldPoint(std::unique_ptr<PointSetter> setter, NowNs now_ns)
      : setter_(std::move(setter)), now_ns_(std::move(now_ns)) {}

  /// Throws GpuHeld and LeaseRefused. Where no agent responds, the GPUs are away.
  void run_at(double value);
  /// To be called several times a second: asks whether the GPUs are still held, and sets them again once there is an
  /// agent. Throws GpuHeld and LeaseRefused.
  void keep();
  void release() noexcept;

  /// 0: the GPUs' own choice.
  [[nodiscard]] double value() const { return value_; }
  /// From then on the GPUs have run at the value, but for the time in which no agent responded.
  [[nodiscard]] std::uint64_t settled_ns() const { return settled_ns_; }
  /// Why the GPUs are not held now; empty: they are held.
  [[nodiscard]] const std::string& away() const { return away_; }
  /// Since when; 0: they are held.
  [[nodiscard]] std::uint64_t away_since_ns() const { return away_since_ns_; }

 private:
  void set();

  std::unique_ptr<PointSetter> setter_;
  NowNs now_ns_;
  double value_ = 0;
  std::uint64_t settled_ns_ = 0;
  std::uint64_t looked_ns_ = 0;
  std::string away_;
  std::uint64_t away_since_ns_ = 0;
};

}  // namespace lowgear::client
