#include "agent/writing/clock_governor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>
#include <variant>

#include "agent/writing/restore.h"
#include "base/core/error.h"

namespace lowgear::agent {

namespace {

constexpr std::size_t kWaitingBytes = 8192;
constexpr std::string_view kHead = "freq,start,end\n";

}  // namespace

std::int64_t wall_clock_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

ClockLog::ClockLog(std::filesystem::path file, std::function<void(const std::string& problem)> warn,
                   std::size_t max_bytes)
    : file_(std::move(file)), warn_(std::move(warn)), max_bytes_(max_bytes) {}

void ClockLog::set(int clock_mhz, std::int64_t asked_ns, std::int64_t returned_ns) {
  close_row(asked_ns);
  clock_mhz_ = clock_mhz;
  start_ns_ = returned_ns;
  if (lines_.size() >= kWaitingBytes) flush();
}

void ClockLog::ended(std::int64_t asked_ns) {
  close_row(asked_ns);
  clock_mhz_.reset();
  flush();
}

void ClockLog::close_row(std::int64_t end_ns) {
  if (clock_mhz_ && !failed_) lines_ += fmt::format("{},{},{}\n", *clock_mhz_, start_ns_, end_ns);
}

void ClockLog::flush() {
  const std::string lines = std::exchange(lines_, {});
  if (lines.empty() || failed_) return;
  std::error_code error;
  std::filesystem::create_directories(file_.parent_path(), error);
  const std::uintmax_t bytes = std::filesystem::exists(file_, error) ? std::filesystem::file_size(file_, error) : 0;
  const bool is_full = !error && bytes > max_bytes_;
  if (is_full) std::filesystem::rename(file_, file_.string() + ".old", error);
  std::ofstream out(file_, std::ios::app | std::ios::binary);
  if (bytes == 0 || is_full) out << kHead;
  out << lines << std::flush;
  if (out) return;
  failed_ = true;
  warn_(fmt::format("{}: clock changes cannot be logged: {}; nothing more is logged for this GPU", file_.string(),
                    std::strerror(errno)));
}

namespace {

/// A clock may be one step outside the locked range, as drivers round.
constexpr int kClockStepMhz = 15;
constexpr int kBusyPercent = 50;
/// A power limit may differ by this much from what was asked for, as drivers round.
constexpr double kPowerStepW = 1;

/// The driver has said that it does not do it: what was in force is in force.
bool is_refusal(gpu::GpuErrorCode code) {
  return code == gpu::GpuErrorCode::not_supported || code == gpu::GpuErrorCode::no_permission ||
         code == gpu::GpuErrorCode::invalid_value;
}

}  // namespace

ClockGovernor::ClockGovernor(std::unique_ptr<gpu::GpuControl> control, std::shared_ptr<Journal> journal,
                             ClockGovernorOptions options)
    : control_(std::move(control)), journal_(std::move(journal)), options_(std::move(options)) {
  const std::string& uuid = control_->gpu().identity().uuid;
  if (!options_.dry_run && !options_.clock_log.empty()) {
    const auto warn = [hear = options_.warn](const std::string& problem) {
      if (hear) hear(problem);
    };
    log_ = std::make_unique<ClockLog>(options_.clock_log / (uuid + ".freqevents.csv"), warn);
  }
  if (options_.dry_run || !journal_->changed(uuid)) return;
  status_.clock_state = ClockState::failed;
  status_.problem = fmt::format("GPU {}: was left changed, and could not be restored yet", uuid);
}

void ClockGovernor::write(std::string_view what, const std::function<void()>& call) {
  try {
    if (options_.dry_run) {
      if (options_.note) {
        options_.note(fmt::format("dry run: would {} on GPU {}", what, control_->gpu().identity().uuid));
      }
    } else {
      if (!journal_->changed(control_->gpu().identity().uuid)) journal_->record_change(original());
      call();
      ++status_.clock_writes;
    }
    if (status_.clock_state != ClockState::foreign) status_.clock_state = ClockState::leased;
    status_.problem.clear();
  } catch (const Error& error) {
    ++status_.clock_write_errors;
    status_.clock_state = ClockState::failed;
    status_.problem = error.what();
    throw;
  }
}

void ClockGovernor::call_driver(const gpu::GpuSetting& setting) {
  const std::int64_t asked_ns = wall_clock_ns();
  control_->apply(setting);
  if (!log_) return;
  if (const auto* clocks = std::get_if<gpu::LockSmClocks>(&setting)) {
    log_->set(clocks->max_mhz, asked_ns, wall_clock_ns());
  } else if (std::holds_alternative<gpu::ResetSmClocks>(setting)) {
    log_->ended(asked_ns);
  }
}

OriginalGpuState ClockGovernor::original() const {
  OriginalGpuState state = original_state(*control_);
  if (options_.safe_power_w && state.power_limit_w) {
    const double least_w = control_->gpu().power_limits().min_w;
    state.power_limit_w = std::min(*state.power_limit_w, std::max(*options_.safe_power_w, least_w));
  }
  return state;
}

void ClockGovernor::require_own() const {
  if (status_.clock_state == ClockState::foreign) throw GpuBusy(status_.problem);
}

bool ClockGovernor::follow(int clock_mhz) {
  if (status_.clock_state == ClockState::foreign) return false;
  // After a call that failed it is not known what the GPU runs at.
  const bool known = status_.clock_state != ClockState::failed;
  if (known && status_.requested_min_mhz == clock_mhz && status_.requested_max_mhz == clock_mhz) return false;
  return try_apply(gpu::LockSmClocks{clock_mhz, clock_mhz});
}

bool ClockGovernor::follow_power_limit(std::optional<int> limit_w) {
  if (status_.clock_state == ClockState::foreign) return false;
  if (!limit_w) {
    if (!limit_before_plan_w_ || !try_apply(gpu::SetPowerLimit{*limit_before_plan_w_})) return false;
    limit_before_plan_w_.reset();
    return true;
  }
  if (power_limit_w_ == *limit_w) return false;
  if (!limit_before_plan_w_) limit_before_plan_w_ = power_limit_w_ ? power_limit_w_ : original().power_limit_w;
  return try_apply(gpu::SetPowerLimit{static_cast<double>(*limit_w)});
}

bool ClockGovernor::try_apply(const gpu::GpuSetting& setting) {
  if (retry_at_ && options_.now() < *retry_at_) return false;
  try {
    apply(setting);
    retry_at_.reset();
    return true;
  } catch (const Error& error) {
    status_.problem = error.what();  // only the status reports it
    retry_at_ = options_.now() + options_.retry_after;
    return false;
  }
}

void ClockGovernor::apply(const gpu::GpuSetting& setting) {
  require_own();
  const ClockState before = status_.clock_state;
  std::string problem = status_.problem;
  try {
    write(to_string(setting), [&] { call_driver(setting); });
  } catch (const gpu::GpuError& error) {
    if (!is_refusal(error.code())) throw;
    status_.clock_state = before;
    status_.problem = std::move(problem);
    throw;
  }
  remember(setting);
}

void ClockGovernor::remember(const gpu::GpuSetting& setting) {
  if (const auto* clocks = std::get_if<gpu::LockSmClocks>(&setting)) {
    status_.requested_min_mhz = clocks->min_mhz;
    status_.requested_max_mhz = clocks->max_mhz;
    locked_at_ = options_.now();
    outside_since_.reset();
  } else if (std::holds_alternative<gpu::ResetSmClocks>(setting)) {
    status_.requested_min_mhz.reset();
    status_.requested_max_mhz.reset();
  } else if (const auto* power = std::get_if<gpu::SetPowerLimit>(&setting)) {
    power_limit_w_ = power->limit_w;
    limited_at_ = options_.now();
    other_limit_since_.reset();
  }
}

bool ClockGovernor::may_hold_sm_clock() const {
  if (status_.clock_state == ClockState::foreign) return false;
  if (!options_.dry_run && !journal_->changed(control_->gpu().identity().uuid)) return false;
  return status_.requested_max_mhz || status_.clock_state == ClockState::failed;
}

void ClockGovernor::suspend() noexcept {
  try {
    if (!may_hold_sm_clock()) return;
    const gpu::GpuSetting reset = gpu::ResetSmClocks{};
    write(to_string(reset), [&] {
      try {
        call_driver(reset);
      } catch (const gpu::GpuError& error) {
        if (error.code() != gpu::GpuErrorCode::not_supported) throw;  // such a GPU holds no clock
      }
    });
    remember(reset);
    retry_at_.reset();
  } catch (const std::exception& error) {
    status_.problem = error.what();
  }
}

void ClockGovernor::restore() noexcept {
  try {
    const std::string& uuid = control_->gpu().identity().uuid;
    if (const std::optional<OriginalGpuState> original = journal_->changed(uuid)) {
      if (log_) log_->ended(wall_clock_ns());
      restore_gpu(*control_, *original);
      journal_->record_restored(uuid);
      status_.clock_state = ClockState::restored;
    } else if (options_.dry_run && status_.clock_state == ClockState::leased) {
      if (options_.note) options_.note(fmt::format("dry run: would restore GPU {}", uuid));
      status_.clock_state = ClockState::untouched;
    } else if (status_.clock_state != ClockState::untouched) {
      status_.clock_state = ClockState::restored;
    }
    status_.problem.clear();
    status_.requested_min_mhz.reset();
    status_.requested_max_mhz.reset();
    retry_at_.reset();
    outside_since_.reset();
    power_limit_w_.reset();
    limit_before_plan_w_.reset();
    other_limit_since_.reset();
  } catch (const std::exception& error) {
    ++status_.clock_write_errors;
    status_.clock_state = ClockState::failed;
    status_.problem = error.what();
  }
}

void ClockGovernor::observe(const GpuReading& reading, const std::optional<ReadPowerLimit>& limit) {
  if (options_.dry_run || status_.clock_state != ClockState::leased) return;
  observe_clock(reading);
  if (limit) observe_power_limit(*limit);
}

// NVML cannot say what is locked, but a busy GPU that nothing holds back runs within its locked range.
void ClockGovernor::observe_clock(const GpuReading& reading) {
  if (!status_.requested_min_mhz || !status_.requested_max_mhz || !reading.sm_clock_mhz) return;
  const bool busy = reading.gpu_utilisation_percent.value_or(0) >= kBusyPercent;
  const bool held_back = !reading.throttle_reasons || reading.throttle_reasons->throttled();
  const int clock_mhz = *reading.sm_clock_mhz;
  const bool above = clock_mhz > *status_.requested_max_mhz + kClockStepMhz;
  const bool below = clock_mhz < *status_.requested_min_mhz - kClockStepMhz && !held_back;
  const Time now = options_.now();
  if (!busy || !(above || below) || now - locked_at_ < options_.foreign_after) {
    outside_since_.reset();
    return;
  }
  if (!outside_since_) outside_since_ = now;
  if (now - *outside_since_ < options_.foreign_after) return;
  leave_to_others(
      fmt::format("runs at {} MHz though {}-{} MHz are locked: another program sets its clocks (nvidia-smi -lgc?)",
                  clock_mhz, *status_.requested_min_mhz, *status_.requested_max_mhz));
}

// A reading from before the limit was set does not count: a driver may delay a reader for seconds.
void ClockGovernor::observe_power_limit(const ReadPowerLimit& limit) {
  const Time now = options_.now();
  const bool own = !power_limit_w_ || std::abs(limit.power_limit_w - *power_limit_w_) <= kPowerStepW;
  const bool too_early = limit.asked_at <= limited_at_ || now - limited_at_ < options_.foreign_after;
  if (own || too_early) {
    other_limit_since_.reset();
    return;
  }
  if (!other_limit_since_) other_limit_since_ = now;
  if (now - *other_limit_since_ < options_.foreign_after) return;
  leave_to_others(fmt::format("its power limit is {} W though {} W were set: another program sets it (nvidia-smi -pl?)",
                              limit.power_limit_w, *power_limit_w_));
}

void ClockGovernor::leave_to_others(std::string_view what_shows_them) {
  status_.clock_state = ClockState::foreign;
  status_.problem = fmt::format("GPU {}: {}; nothing more is written until this lease ends",
                                control_->gpu().identity().uuid, what_shows_them);
}

}  // namespace lowgear::agent
