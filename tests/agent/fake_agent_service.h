#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agent/cpu/cpu_meter.h"
#include "agent/service/agent_service.h"
#include "hardware/gpu/gpu.h"

namespace lowgear::agent {

inline constexpr const char* kFakeUuid0 = "GPU-00000000-1111-2222-3333-444444444444";
inline constexpr const char* kFakeUuid1 = "GPU-55555555-6666-7777-8888-999999999999";
inline constexpr uid_t kStranger = 4242;  ///< may neither read nor write

/// Two simulated GPUs that do what they are told and keep a list of it.
class FakeAgentService : public Service {
 public:
  FakeAgentService() {
    for (const auto& [index, uuid] : {std::pair{0, kFakeUuid0}, std::pair{1, kFakeUuid1}}) {
      GpuStatus gpu;
      gpu.identity.uuid = uuid;
      gpu.identity.index = index;
      gpu.identity.pci_address = fmt::format("0000:00:0{}.0", 6 + index);
      gpu.identity.name = "NVIDIA H100 80GB HBM3";
      gpu.controlled = true;
      gpu.power_limits = gpu::PowerLimits{200, 700, 700, 650, 600};
      gpu.persistence_mode = index == 0;
      gpu.energy_counter.present = gpu.energy_counter.works = true;
      gpu.reading.time_ns = 1'762'000'000'000'000'000;
      gpu.reading.energy_j = 123.456 + index;
      gpu.reading.power_w = 75 + 25 * index;
      gpu.reading.sm_clock_mhz = 1980;
      gpu.reading.memory_clock_mhz = 2619;
      gpu.reading.temperature_c = 41;
      gpu.reading.gpu_utilisation_percent = 35;
      gpu.reading.memory_utilisation_percent = 25;
      gpu.reading.throttle_reasons = gpu::ThrottleReasons{};
      gpu_list.push_back(gpu);
    }
  }

  bool simulated() const override { return is_simulated; }
  bool dry_run() const override { return is_dry_run; }
  std::string driver_version() const override { return "580.159.04"; }
  std::vector<GpuStatus> gpus() override {
    if (before_gpus) before_gpus();
    return gpu_list;
  }
  std::vector<UnattendedGpu> unattended_gpus() override { return unattended_list; }
  [[nodiscard]] std::vector<std::string> hidden_gpus() const override { return hidden; }
  std::vector<LeaseStatus> leases() override { return lease_list; }

  void apply(const Peer& peer, std::string_view gpu, const gpu::GpuSetting& setting, WriteDone done) override {
    GpuStatus& status = find(gpu);
    note(fmt::format("{} of {} by {}", to_string(setting), status.identity.index, peer.uid));
    if (const auto* clocks = std::get_if<gpu::LockSmClocks>(&setting)) {
      status.requested_min_mhz = clocks->min_mhz;
      status.requested_max_mhz = clocks->max_mhz;
      status.clock_state = ClockState::leased;
    } else if (std::holds_alternative<gpu::ResetSmClocks>(setting)) {
      status.requested_min_mhz.reset();
      status.requested_max_mhz.reset();
      status.clock_state = ClockState::restored;
    }
    finish(std::move(done));
  }
  void release(const Peer&, std::uint64_t lease_id) override {
    for (auto lease = lease_list.begin(); lease != lease_list.end(); ++lease) {
      if (lease->id != lease_id) continue;
      note(fmt::format("release {}", lease_id));
      lease_list.erase(lease);
      return;
    }
    throw NotFound(fmt::format("no lease {}", lease_id));
  }
  void assign(const Peer& peer, std::string_view gpu, GpuAssignment assignment) override {
    if (peer.uid != 0) throw AccessDenied("only root may assign GPUs to users");
    find(gpu).assignment = std::move(assignment);
  }
  void give_back(const Peer& peer, std::string_view gpu, std::string_view job) override {
    if (peer.uid != 0) throw AccessDenied("only root may take GPUs back from users");
    GpuStatus& status = find(gpu);
    if (!status.assignment || status.assignment->job != job) throw NotFound("it is not that job's");
    status.assignment.reset();
  }
  void restore_all(const Peer& peer, WriteDone done) override {
    if (peer.uid != 0) throw AccessDenied("only root may restore every GPU");
    note("restore");
    finish(std::move(done));
  }
  bool may_read(const Peer& peer) const override { return peer.uid != kStranger; }

  bool is_simulated = true;
  bool is_dry_run = false;
  std::vector<GpuStatus> gpu_list;
  std::vector<UnattendedGpu> unattended_list;
  std::vector<std::string> hidden;
  std::vector<LeaseStatus> lease_list;
  std::vector<std::string> calls;
  std::function<void()> before_call;  ///< throws what the service is to throw
  std::function<void()> before_gpus;  ///< the same of reading them
  bool holds_writes = false;          ///< writes wait in `held` instead of ending at once
  std::vector<WriteDone> held;

 private:
  GpuStatus& find(std::string_view gpu) {
    for (GpuStatus& status : gpu_list) {
      if (status.identity.uuid == gpu) return status;
    }
    throw NotFound(fmt::format("no GPU {}", gpu));
  }
  void finish(WriteDone done) {
    if (holds_writes) return held.push_back(std::move(done));
    done(nullptr);
  }
  void note(std::string call) {
    if (before_call) before_call();
    calls.push_back(std::move(call));
  }
};

/// One package with memory, one without.
class FakeCpuMeter : public CpuMeter {
 public:
  std::vector<CpuEnergy> read() override {
    CpuEnergy first{.package = 0, .package_uj = 1'000'000 + gained_uj, .dram_uj = 500'000 + gained_uj / 2};
    CpuEnergy second{.package = 1, .package_uj = 2'000'000 + gained_uj, .dram_uj = std::nullopt};
    first.package_set_aside = first.dram_set_aside = set_aside;
    if (!dram_problem.empty()) first.dram_uj.reset();
    first.problem = dram_problem;
    if (!problem().empty()) return {};
    return {first, second};
  }
  std::string problem() const override { return absent_because; }

  std::uint64_t gained_uj = 0;
  long set_aside = 0;        ///< of package 0
  std::string dram_problem;  ///< why its memory's counter does not tell
  std::string absent_because;
};

}  // namespace lowgear::agent
