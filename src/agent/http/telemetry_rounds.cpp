#include "agent/http/telemetry_rounds.h"

#include <exception>
#include <map>
#include <string>
#include <utility>

#include "base/core/monotonic_clock.h"

namespace lowgear::agent {
namespace {

/// RAPL's counters start over after a minute at full load.
constexpr std::chrono::seconds kCpuReadPeriod{20};

}  // namespace

TelemetryRounds::TelemetryRounds(Service& service, CpuMeter* cpu_meter, MpsSharing* mps, ZeusdEvents zeusd_events,
                                 std::function<void(std::string_view)> warn)
    : service_(service),
      mps_(mps),
      zeusd_events_(zeusd_events),
      warn_(std::move(warn)),
      cpu_power_(cpu_meter, monotonic_ns) {}

void TelemetryRounds::subscribe(PowerStream wanted, std::shared_ptr<http::EventStream> stream) {
  streams_.push_back({std::move(wanted), std::move(stream)});
}

void TelemetryRounds::round() {
  try {
    const std::vector<GpuStatus> gpus = service_.gpus();
    metrics_.observe(gpus);
    read_cpu_when_due();
    publish(gpus);
  } catch (const std::exception& error) {
    if (warn_) warn_(std::string("no telemetry: ") + error.what());
  }
}

void TelemetryRounds::read_cpu_when_due() {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_cpu_read_ <= kCpuReadPeriod) return;
  last_cpu_read_ = now;
  (void)cpu_power_.energy();
}

/// One text for all streams that ask for the same.
void TelemetryRounds::publish(const std::vector<GpuStatus>& gpus) {
  std::erase_if(streams_, [](const Subscriber& subscriber) { return subscriber.stream->closed(); });
  std::map<PowerStream, std::shared_ptr<const std::string>> texts;
  for (const Subscriber& subscriber : streams_) {
    std::shared_ptr<const std::string>& shared = texts[subscriber.wanted];
    if (!shared) {
      std::string text;
      for (const std::string& event : stream_events(subscriber.wanted, gpus, context())) {
        text.append("data: ").append(event).append("\n\n");
      }
      shared = std::make_shared<const std::string>(std::move(text));
    }
    if (!shared->empty()) subscriber.stream->push(shared);
  }
}

}  // namespace lowgear::agent
