/// How long it takes from a unit's start in the shared ring to the call to the driver, and what processor time the
/// thread of a leased GPU takes meanwhile: one GPU whose driver does nothing, iterations of eight units of 5 to 20 ms
/// that vary by some per cent.

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "agent/gpu/gpu_worker.h"
#include "base/core/monotonic_clock.h"
#include "measurement.h"

namespace lowgear {
namespace {

constexpr double kReachMedianUs = 50;
constexpr double kReachP99Us = 200;

std::uint64_t now_ns() { return static_cast<std::uint64_t>(monotonic_ns()); }

double processor_time_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Notes when each write would have been made.
class NotingWriter final : public agent::GpuWriter {
 public:
  explicit NotingWriter(std::vector<std::uint64_t>& times) : times_(&times) {}
  bool follow(int) override {
    times_->push_back(now_ns());
    return true;
  }
  void apply(const gpu::GpuSetting&) override {}
  void suspend() noexcept override {}
  void restore() noexcept override {}
  [[nodiscard]] agent::GpuWriterStatus status() const override { return {}; }

 private:
  std::vector<std::uint64_t>* times_;
};

/// Another clock for every unit.
class AlternatingClocks final : public agent::UnitClocks {
 public:
  [[nodiscard]] std::optional<int> clock_mhz(const ipc::UnitEvent& event,
                                             std::optional<std::uint32_t> /*iteration*/) const override {
    if (event.type != ipc::UnitEventType::unit_begin) return std::nullopt;
    return event.microbatch % 2 == 0 ? 1005 : 1500;
  }
};

std::vector<std::uint64_t> run_units(ipc::UnitRing& ring, int iterations) {
  constexpr std::uint32_t kUnits = 8;
  std::mt19937_64 random(1);
  std::normal_distribution<double> variation(1, 0.02);
  std::vector<std::uint64_t> starts;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    write_unit(ring, {.time_ns = now_ns(), .type = ipc::UnitEventType::iteration_begin});
    for (std::uint32_t unit = 0; unit < kUnits; ++unit) {
      starts.push_back(now_ns());
      write_unit(ring, {.time_ns = starts.back(), .type = ipc::UnitEventType::unit_begin, .microbatch = unit});
      const double time_ms = (5 + 15.0 * unit / kUnits) * variation(random);
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(time_ms));
    }
  }
  return starts;
}

/// From each unit's start to the write that followed it before the next unit began; units that got none are left out.
std::vector<double> latencies_of(const std::vector<std::uint64_t>& starts, const std::vector<std::uint64_t>& writes) {
  std::vector<double> latencies_us;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto write = std::lower_bound(writes.begin(), writes.end(), starts[i]);
    const bool overtaken = write == writes.end() || (i + 1 < starts.size() && *write >= starts[i + 1]);
    if (!overtaken) latencies_us.push_back(static_cast<double>(*write - starts[i]) / 1e3);
  }
  return latencies_us;
}

void study() {
  constexpr int kIterations = 100;
  std::vector<std::uint64_t> writes;
  auto ring = std::make_shared<agent::SharedUnitRing>();
  std::vector<std::uint64_t> starts;
  double share_of_core = 0;
  {
    agent::GpuWorker worker({}, std::make_unique<NotingWriter>(writes), {});
    worker.begin_lease(ring).get();
    std::promise<void> ready;
    worker.follow_plan([] { return std::make_unique<AlternatingClocks>(); }, std::nullopt,
                       [&ready](const auto&) { ready.set_value(); });
    ready.get_future().get();
    const double before_s = processor_time_s();
    const std::uint64_t begin_ns = now_ns();
    starts = run_units(ring->ring(), kIterations);
    share_of_core = (processor_time_s() - before_s) / (static_cast<double>(now_ns() - begin_ns) / 1e9);
    worker.end_lease().get();
  }
  const std::vector<double> latencies_us = latencies_of(starts, writes);
  const double median_us = bench::quantile(latencies_us, 0.5);
  const double p99_us = bench::quantile(latencies_us, 0.99);
  fmt::print("| units | writes | median | p99 | processor time of the GPU's thread |\n|---|---|---|---|---|\n");
  fmt::print("| {} | {} | {:.0f} µs | {:.0f} µs | {:.1f} % of a core |\n", starts.size(), writes.size(), median_us,
             p99_us, 100 * share_of_core);
  bench::print_target("unit ring to driver call, idle machine",
                      fmt::format("median {:.0f} µs, p99 {:.0f} µs", median_us, p99_us),
                      fmt::format("≤ {} µs, ≤ {} µs", kReachMedianUs, kReachP99Us),
                      median_us <= kReachMedianUs && p99_us <= kReachP99Us);
}

}  // namespace
}  // namespace lowgear

int main() { lowgear::study(); }
