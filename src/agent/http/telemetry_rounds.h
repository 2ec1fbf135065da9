#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "agent/cpu/cpu_meter.h"
#include "agent/cpu/cpu_power.h"
#include "agent/http/http_routes.h"
#include "agent/http/metrics.h"
#include "agent/service/agent_service.h"
#include "base/http/server/reply.h"

namespace lowgear::agent {

/// What is measured at each round and sent to the clients that stream it: power of GPUs and of the CPU. Runs on one
/// thread.
class TelemetryRounds {
 public:
  /// `service`, `cpu_meter` and `mps` (both may be null) must outlive this. `warn` receives why a round failed,
  /// and may be empty.
  TelemetryRounds(Service& service, CpuMeter* cpu_meter, MpsSharing* mps, ZeusdEvents zeusd_events,
                  std::function<void(std::string_view)> warn);

  /// Sends `wanted` to the stream at each round, until it is closed.
  void subscribe(PowerStream wanted, std::shared_ptr<http::EventStream> stream);
  /// Reads the GPUs, and the CPU where it is due, and sends what streams want of it. Throws nothing.
  void round();
  /// Forgets all streams.
  void clear() { streams_.clear(); }

  /// What routes answer with.
  [[nodiscard]] RouteContext context() { return {service_, cpu_power_, metrics_, zeusd_events_, mps_}; }

 private:
  struct Subscriber {
    PowerStream wanted;
    std::shared_ptr<http::EventStream> stream;
  };

  void read_cpu_when_due();
  void publish(const std::vector<GpuStatus>& gpus);

  Service& service_;
  MpsSharing* mps_;
  ZeusdEvents zeusd_events_;
  std::function<void(std::string_view)> warn_;
  CpuPower cpu_power_;
  std::chrono::steady_clock::time_point last_cpu_read_ = std::chrono::steady_clock::now();
  Metrics metrics_;
  std::vector<Subscriber> streams_;
};

}  // namespace lowgear::agent
