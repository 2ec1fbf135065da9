#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agent/allowed_everything.h"
#include "agent/service/gpu_writer.h"
#include "base/core/error.h"
#include "base/core/eventually.h"

namespace lowgear::agent {

/// What a fake writer has done, for the test to look at while the GPU's thread works.
class WriterLog {
 public:
  void add(std::string call) {
    const std::scoped_lock lock(mutex_);
    calls_.push_back(std::move(call));
    changed_.notify_all();
  }
  [[nodiscard]] std::vector<std::string> calls() const {
    const std::scoped_lock lock(mutex_);
    return calls_;
  }
  /// Whether this call was made; waits for it.
  [[nodiscard]] bool wait_for(const std::string& call) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience,
                             [&] { return std::find(calls_.begin(), calls_.end(), call) != calls_.end(); });
  }
  /// The same for the last call.
  [[nodiscard]] bool wait_for_last(const std::string& call) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return !calls_.empty() && calls_.back() == call; });
  }

  std::atomic<int> failing_follows{0};
  std::atomic<int> failing_restores{0};
  std::atomic<int> failing_suspends{0};

  /// Holds up the next calls of the writer until `let_go`.
  void hang() { hanging_ = true; }
  void let_go() {
    hanging_ = false;
    hanging_.notify_all();
  }
  void pass() {
    if (hanging_) held_ = true;
    hanging_.wait(true);
    held_ = false;
  }
  /// Whether a call is being held up.
  [[nodiscard]] bool held() const { return held_; }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::string> calls_;
  std::atomic<bool> hanging_{false};
  std::atomic<bool> held_{false};
};

/// Writes nothing but its log: `follow 1305`, `lock SM clocks to 345-1005 MHz`, `suspend`, `restore`.
class FakeWriter final : public GpuWriter {
 public:
  explicit FakeWriter(std::shared_ptr<WriterLog> log) : log_(std::move(log)) {}

  bool follow(int clock_mhz) override {
    const bool known = status_.clock_state != ClockState::failed;
    if (known && status_.requested_max_mhz == clock_mhz) return false;
    if (log_->failing_follows.load() > 0) {
      --log_->failing_follows;
      status_.clock_state = ClockState::failed;
      log_->add("follow failed");
      return false;
    }
    write("follow " + std::to_string(clock_mhz));
    status_.requested_min_mhz = status_.requested_max_mhz = clock_mhz;
    return true;
  }
  void apply(const gpu::GpuSetting& setting) override {
    const auto* power = std::get_if<gpu::SetPowerLimit>(&setting);
    if (power != nullptr && power->limit_w == 666) {
      status_.clock_state = ClockState::failed;
      throw gpu::GpuError(gpu::GpuErrorCode::no_permission, "the driver refuses");
    }
    write(to_string(setting));
  }
  void suspend() noexcept override {
    log_->pass();
    const bool fails = log_->failing_suspends.load() > 0;
    if (fails) --log_->failing_suspends;
    status_.clock_state = fails ? ClockState::failed : ClockState::leased;
    if (!fails) {
      status_.requested_min_mhz.reset();
      status_.requested_max_mhz.reset();
    }
    log_->add(fails ? "suspend failed" : "suspend");
  }
  void restore() noexcept override {
    log_->pass();
    const bool fails = log_->failing_restores.load() > 0;
    if (fails) --log_->failing_restores;
    status_.clock_state = fails ? ClockState::failed : ClockState::restored;
    status_.problem = fails ? "the driver refuses" : "";
    status_.requested_min_mhz.reset();
    status_.requested_max_mhz.reset();
    log_->add(fails ? "restore failed" : "restore");
  }
  [[nodiscard]] GpuWriterStatus status() const override { return status_; }

 private:
  void write(std::string call) {
    log_->pass();
    ++status_.clock_writes;
    status_.clock_state = ClockState::leased;
    log_->add(std::move(call));
  }

  std::shared_ptr<WriterLog> log_;
  GpuWriterStatus status_;
};

/// Forwards at one clock, everything else at another.
class FakeUnitClocks final : public UnitClocks {
 public:
  explicit FakeUnitClocks(int forward_mhz = 1005, int other_mhz = 1500, std::int64_t lead_ns = 0)
      : forward_mhz_(forward_mhz), other_mhz_(other_mhz), lead_ns_(lead_ns) {}
  [[nodiscard]] std::int64_t lead_ns() const override { return lead_ns_; }
  [[nodiscard]] std::optional<int> clock_mhz(const ipc::UnitEvent& event,
                                             std::optional<std::uint32_t> /*iteration*/) const override {
    if (event.type != ipc::UnitEventType::unit_begin) return std::nullopt;
    return event.kind == 0 ? forward_mhz_ : other_mhz_;
  }

 private:
  int forward_mhz_;
  int other_mhz_;
  std::int64_t lead_ns_;
};

/// Lets one user (all, when not set) do anything between 345 and 1980 MHz.
class FakePolicy final : public Policy {
 public:
  std::vector<std::string> controlled;
  std::optional<uid_t> only_user;
  std::vector<std::shared_ptr<WriterLog>> logs;  ///< in the order of `controlled`
  std::function<void()> on_read_plan;            ///< called on the GPU's thread; may be empty

  explicit FakePolicy(std::vector<std::string> gpus) : controlled(std::move(gpus)) {
    for (std::size_t i = 0; i < controlled.size(); ++i) logs.push_back(std::make_shared<WriterLog>());
  }

  [[nodiscard]] std::vector<std::string> controlled_gpus() const override { return controlled; }
  [[nodiscard]] AllowedRange allow(const Peer& peer, const gpu::GpuIdentity&) const override {
    if (only_user && peer.uid != *only_user) throw AccessDenied("this user is not configured");
    return kAllowedEverything;
  }
  [[nodiscard]] bool may_read(const Peer& peer) const override { return !only_user || peer.uid == *only_user; }
  [[nodiscard]] bool dry_run() const override { return false; }
  [[nodiscard]] std::unique_ptr<GpuWriter> writer(const gpu::GpuIdentity& gpu) override {
    const auto position = std::find(controlled.begin(), controlled.end(), gpu.uuid) - controlled.begin();
    return std::make_unique<FakeWriter>(logs.at(static_cast<std::size_t>(position)));
  }
  [[nodiscard]] std::unique_ptr<UnitClocks> read_plan(const ipc::PlanMessage& plan, const gpu::GpuIdentity&,
                                                      const AllowedRange&) const override {
    if (on_read_plan) on_read_plan();
    if (plan.plan_json != "plan") throw InputError("this is not a plan");
    return std::make_unique<FakeUnitClocks>();
  }
};

}  // namespace lowgear::agent
