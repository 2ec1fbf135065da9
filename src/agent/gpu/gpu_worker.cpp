#include "agent/gpu/gpu_worker.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <exception>
#include <mutex>
#include <utility>

#include "agent/gpu/guarded_driver.h"
#include "agent/gpu/leased_units.h"
#include "base/core/monotonic_clock.h"

namespace lowgear::agent {
namespace {

constexpr std::int64_t kNsPerS = 1'000'000'000;

void sleep_for_ns(std::int64_t time_ns) {
  const timespec time{.tv_sec = time_ns / kNsPerS, .tv_nsec = time_ns % kNsPerS};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

std::int64_t to_ns(std::chrono::milliseconds time) { return std::chrono::nanoseconds(time).count(); }

/// Says since when the thread has been at one thing, for as long as this lives.
class BusyMark {
 public:
  explicit BusyMark(std::atomic<std::int64_t>& since_ns) : since_ns_(&since_ns) {
    since_ns_->store(monotonic_ns(), std::memory_order_relaxed);
  }
  ~BusyMark() { since_ns_->store(0, std::memory_order_relaxed); }
  BusyMark(const BusyMark&) = delete;
  BusyMark& operator=(const BusyMark&) = delete;

 private:
  std::atomic<std::int64_t>* since_ns_;
};

}  // namespace

/// All that the thread uses; shared with it, as it may stay within the driver for longer than the worker lives.
class GpuWorker::Loop {
 public:
  Loop(std::shared_ptr<gpu::GpuSystem> system, std::unique_ptr<GpuWriter> writer, GpuWorkerOptions options)
      : system_(std::move(system)), options_(options), writer_(std::move(writer)) {
    restore_failed_ = writer_->status().clock_state == ClockState::failed;
    publish();
  }

  void run();
  std::future<void> post(std::function<void(Loop&)> task);
  void stop() { tasks_.stop(); }
  [[nodiscard]] GpuWorkerStatus status() const;

  // Called on the thread.
  void write(const Task& task);
  void begin_lease(std::shared_ptr<SharedUnitRing> ring);
  void end_lease();
  [[nodiscard]] ipc::PlanAnswer follow(std::unique_ptr<UnitClocks> clocks, std::optional<std::uint32_t> from_iteration);
  void publish();

 private:
  class PublishAtEnd {
   public:
    explicit PublishAtEnd(Loop& loop) : loop_(loop) {}
    PublishAtEnd(const PublishAtEnd&) = delete;
    PublishAtEnd& operator=(const PublishAtEnd&) = delete;
    ~PublishAtEnd() { loop_.publish(); }

   private:
    Loop& loop_;
  };
  [[nodiscard]] bool run_tasks();
  void wait_for_task();
  void look_at_ring();
  [[nodiscard]] bool ask_for_clock();
  void tell_begun_clock();
  void suspend();
  void let_go_of_clock();

  std::shared_ptr<gpu::GpuSystem> system_;
  GpuWorkerOptions options_;
  TaskQueue tasks_;

  mutable std::mutex mutex_;
  GpuWorkerStatus status_;  // under mutex_
  std::atomic<std::int64_t> busy_since_ns_{0};

  // The thread's own.
  std::unique_ptr<GpuWriter> writer_;
  LeasedUnits units_;
  bool restore_failed_ = false;                  // the last lease's, and no lease has had the GPU since
  std::optional<std::int64_t> let_go_again_ns_;  // suspended, and the driver has refused: when it is asked again
};

void GpuWorker::Loop::run() {
  // Sleeps are to end when they were asked to, not up to 50 us later, as they do by default.
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  ::pthread_setname_np(::pthread_self(), "lowgear-gpu");
  while (run_tasks()) {
    if (units_.active()) {
      look_at_ring();
      sleep_for_ns(units_.sleep_ns(monotonic_ns()));
    } else {
      wait_for_task();
    }
  }
}

/// Runs what is waiting; false when the thread is to end.
bool GpuWorker::Loop::run_tasks() {
  while (std::optional<TaskQueue::Task> task = tasks_.next()) {
    const BusyMark busy(busy_since_ns_);
    (*task)();
  }
  return !tasks_.stopped();
}

void GpuWorker::Loop::wait_for_task() {
  if (!restore_failed_) return tasks_.wait();
  if (tasks_.wait_for(options_.retry_after)) return;
  end_lease();
  publish();
}

std::future<void> GpuWorker::Loop::post(std::function<void(Loop&)> task) {
  // Whoever waits for the task finds the status as the task left it.
  return tasks_.post([this, run_task = std::move(task)] {
    const PublishAtEnd publish{*this};
    run_task(*this);
  });
}

void GpuWorker::Loop::begin_lease(std::shared_ptr<SharedUnitRing> ring) {
  units_.begin(std::move(ring));
  let_go_again_ns_.reset();
}

void GpuWorker::Loop::end_lease() {
  units_.end();
  writer_->restore();
  restore_failed_ = writer_->status().clock_state == ClockState::failed;
}

/// Cancels a pending restoration: the lease of the task's client restores the GPU when it ends.
void GpuWorker::Loop::write(const Task& task) {
  restore_failed_ = false;
  task(*writer_);
}

ipc::PlanAnswer GpuWorker::Loop::follow(std::unique_ptr<UnitClocks> clocks,
                                        std::optional<std::uint32_t> from_iteration) {
  if (!from_iteration) {
    units_.follow(std::move(clocks));
    return ipc::AcceptedMessage{};
  }
  // What began while the plan was read began at the old clocks.
  if (units_.active()) look_at_ring();
  return units_.follow_from(*from_iteration, std::move(clocks));
}

void GpuWorker::Loop::look_at_ring() {
  const LeasedUnits::Look look = units_.look();
  if (look.any) let_go_again_ns_.reset();
  const bool asked = ask_for_clock();
  if (look.any) tell_begun_clock();
  if (look.any || asked) publish();
  if (look.any) return;
  if (!units_.suspended() && look.idle_ns > to_ns(options_.suspend_after)) suspend();
  if (units_.suspended() && let_go_again_ns_ && look.time_ns >= *let_go_again_ns_) let_go_of_clock();
}

/// Requests from the driver the clock that is wanted now; true when it was asked and has accepted it.
bool GpuWorker::Loop::ask_for_clock() {
  const std::optional<int> clock_mhz = units_.wanted_clock_mhz();
  if (!clock_mhz) return false;
  const BusyMark busy(busy_since_ns_);
  if (units_.begun_clock_mhz()) writer_->follow_power_limit(units_.begun_power_limit_w());
  if (!writer_->follow(*clock_mhz)) return false;
  units_.ring().applied_time_ns.store(static_cast<std::uint64_t>(monotonic_ns()), std::memory_order_release);
  return true;
}

/// Tells the client the clock of the unit that has begun, which may have been asked for before it began, and whether
/// the GPU runs at it.
void GpuWorker::Loop::tell_begun_clock() {
  const std::optional<int> clock_mhz = units_.begun_clock_mhz();
  if (!clock_mhz) return;
  ipc::UnitRing& ring = units_.ring();
  const ClockState state = writer_->status().clock_state;
  const bool held = state != ClockState::failed && state != ClockState::foreign;
  if (held) ring.requested_clock_mhz.store(static_cast<std::uint32_t>(*clock_mhz), std::memory_order_relaxed);
  ring.clocks_not_held.store(held ? 0 : 1, std::memory_order_release);
}

void GpuWorker::Loop::suspend() {
  units_.suspend();
  let_go_of_clock();
}

/// Tells the client that the clock is the driver's choice once it is: a driver that refuses is asked again.
void GpuWorker::Loop::let_go_of_clock() {
  {
    const BusyMark busy(busy_since_ns_);
    writer_->suspend();
  }
  const GpuWriterStatus writer = writer_->status();
  const auto clock_mhz = static_cast<std::uint32_t>(writer.requested_max_mhz.value_or(0));
  units_.ring().requested_clock_mhz.store(clock_mhz, std::memory_order_relaxed);
  let_go_again_ns_.reset();
  if (writer.clock_state == ClockState::failed) let_go_again_ns_ = monotonic_ns() + to_ns(options_.retry_after);
  publish();
}

void GpuWorker::Loop::publish() {
  const std::scoped_lock lock(mutex_);
  status_.writer = writer_->status();
  status_.units = units_.counts();
  status_.has_plan = units_.has_clocks();
  status_.suspended = units_.suspended();
}

GpuWorkerStatus GpuWorker::Loop::status() const {
  std::unique_lock lock(mutex_);
  GpuWorkerStatus status = status_;
  lock.unlock();
  const std::int64_t busy_since_ns = busy_since_ns_.load(std::memory_order_relaxed);
  if (busy_since_ns != 0)
    status.busy = std::chrono::nanoseconds(std::max<std::int64_t>(monotonic_ns() - busy_since_ns, 0));
  return status;
}

GpuWorker::GpuWorker(const GuardedGpus& system, std::unique_ptr<GpuWriter> writer, GpuWorkerOptions options)
    : loop_(std::make_shared<Loop>(system.driver(), std::move(writer), options)),
      thread_([loop = loop_] { loop->run(); }) {}

GpuWorker::~GpuWorker() { loop_->stop(); }

std::future<void> GpuWorker::post(Task task) {
  return loop_->post([task = std::move(task)](Loop& loop) { loop.write(task); });
}

void GpuWorker::apply(const gpu::GpuSetting& setting, std::function<void(std::exception_ptr)> done) {
  (void)loop_->post([setting, done = std::move(done)](Loop& loop) {
    std::exception_ptr error;
    try {
      loop.write([&setting](GpuWriter& writer) { writer.apply(setting); });
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    loop.publish();
    done(error);
  });
}

std::future<void> GpuWorker::begin_lease(std::shared_ptr<SharedUnitRing> ring) {
  return loop_->post([ring = std::move(ring)](Loop& loop) { loop.begin_lease(ring); });
}

void GpuWorker::follow_plan(std::function<std::unique_ptr<UnitClocks>()> make,
                            std::optional<std::uint32_t> from_iteration, std::function<void(ipc::PlanAnswer)> reply) {
  (void)loop_->post([make = std::move(make), from_iteration, reply = std::move(reply)](Loop& loop) {
    ipc::PlanAnswer answer;
    try {
      answer = loop.follow(make(), from_iteration);
    } catch (const std::exception& error) {
      answer = ipc::RefusedMessage{.reason = error.what()};
    }
    reply(std::move(answer));
  });
}

std::future<void> GpuWorker::end_lease() {
  return loop_->post([](Loop& loop) { loop.end_lease(); });
}

void GpuWorker::tell_when_done(std::function<void()> done) {
  (void)loop_->post([done = std::move(done)](Loop&) { done(); });
}

GpuWorkerStatus GpuWorker::status() const { return loop_->status(); }

}  // namespace lowgear::agent
