#include "control/agent/gpu/gpu_worker.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <exception>
#include <mutex>
#include <span>
#include <utility>

#include "base/core/monotonic_clock.h"
#include "control/agent/gpu/poll_schedule.h"

namespace lowgear::agent {
namespace {

constexpr std::int64_t kNsPerS = 1'000'000'000;
/// While a lease is suspended: its first unit after that may be this much late.
constexpr std::int64_t kSuspendedSleepNs = 2'000'000;

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
      : system_(std::move(system)), writer_(std::move(writer)), options_(options) {
    restore_failed_ = writer_->status().clock_state == ClockState::failed;
    publish();
  }

  void run();
  std::future<void> post(std::function<void(Loop&)> task);
  void stop();
  [[nodiscard]] GpuWorkerStatus status() const;

  // Called on the thread.
  void write(const Task& task);
  void begin_lease(std::shared_ptr<SharedUnitRing> ring);
  void end_lease();
  [[nodiscard]] ipc::PlanAnswer follow(std::unique_ptr<UnitClocks> clocks, std::optional<std::uint32_t> from_iteration);
  void publish();

 private:
  using Queued = std::packaged_task<void(Loop&)>;
  /// Clocks that wait for their iteration.
  struct NextClocks {
    std::uint32_t from_iteration = 0;
    std::unique_ptr<UnitClocks> clocks;
  };
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
  void take(const ipc::UnitEvent& event, std::int64_t now_ns);
  void iteration_began(std::uint32_t iteration);
  /// Follows these clocks from now on, and no others that wait.
  void use(std::unique_ptr<UnitClocks> clocks);
  void apply_newest();
  void suspend();
  void let_go_of_clock();
  void sleep_until_next_look();

  std::shared_ptr<gpu::GpuSystem> system_;
  std::unique_ptr<GpuWriter> writer_;
  GpuWorkerOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Queued> tasks_;  // under mutex_
  bool stopping_ = false;     // under mutex_
  GpuWorkerStatus status_;    // under mutex_
  std::atomic<bool> called_{false};
  std::atomic<std::int64_t> busy_since_ns_{0};

  // The thread's own.
  std::shared_ptr<SharedUnitRing> ring_;
  std::optional<ipc::UnitRingReader> reader_;
  std::unique_ptr<UnitClocks> clocks_;
  std::optional<NextClocks> next_clocks_;
  std::optional<std::uint32_t> iteration_;  // the newest that began
  bool restore_failed_ = false;             // the last lease's, and no lease has had the GPU since
  PollSchedule schedule_;
  std::array<ipc::UnitEvent, ipc::kUnitRingCapacity> events_{};
  std::optional<int> wanted_clock_mhz_;
  std::uint64_t late_units_ = 0;
  std::uint64_t units_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t unplanned_units_ = 0;
  std::int64_t last_unit_ns_ = 0;
  bool suspended_ = false;
  std::optional<std::int64_t> let_go_again_ns_;  // suspended, and the driver has refused: when it is asked again
};

void GpuWorker::Loop::run() {
  // Sleeps are to end when they were asked to, not up to 50 us later, as they do by default.
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  ::pthread_setname_np(::pthread_self(), "lowgear-gpu");
  while (run_tasks()) {
    if (ring_) {
      look_at_ring();
      sleep_until_next_look();
    } else {
      wait_for_task();
    }
  }
}

/// Runs what is waiting; false when the thread is to end.
bool GpuWorker::Loop::run_tasks() {
  while (called_.load(std::memory_order_acquire)) {
    std::unique_lock lock(mutex_);
    if (stopping_) return false;
    if (tasks_.empty()) {
      called_.store(false, std::memory_order_release);
      break;
    }
    Queued task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    const BusyMark busy(busy_since_ns_);
    task(*this);
  }
  return true;
}

void GpuWorker::Loop::wait_for_task() {
  const auto called = [this] { return called_.load(std::memory_order_acquire); };
  std::unique_lock lock(mutex_);
  if (!restore_failed_) {
    wake_.wait(lock, called);
    return;
  }
  if (wake_.wait_for(lock, options_.retry_after, called)) return;
  lock.unlock();
  end_lease();
  publish();
}

std::future<void> GpuWorker::Loop::post(std::function<void(Loop&)> task) {
  // Whoever waits for the task finds the status as the task left it.
  Queued queued([run_task = std::move(task)](Loop& loop) {
    const PublishAtEnd publish{loop};
    run_task(loop);
  });
  std::future<void> done = queued.get_future();
  const std::scoped_lock lock(mutex_);
  tasks_.push_back(std::move(queued));
  called_.store(true, std::memory_order_release);
  wake_.notify_all();
  return done;
}

void GpuWorker::Loop::stop() {
  const std::scoped_lock lock(mutex_);
  stopping_ = true;
  called_.store(true, std::memory_order_release);
  wake_.notify_all();
}

void GpuWorker::Loop::begin_lease(std::shared_ptr<SharedUnitRing> ring) {
  ring_ = std::move(ring);
  reader_.emplace(ring_->ring());
  clocks_.reset();
  next_clocks_.reset();
  iteration_.reset();
  schedule_ = PollSchedule();
  wanted_clock_mhz_.reset();
  units_ = 0;
  lost_ = 0;
  unplanned_units_ = 0;
  last_unit_ns_ = monotonic_ns();
  suspended_ = false;
  let_go_again_ns_.reset();
  ring_->ring().state.store(static_cast<std::uint32_t>(ipc::RingState::active), std::memory_order_release);
}

void GpuWorker::Loop::end_lease() {
  if (ring_) {
    ring_->ring().requested_clock_mhz.store(0, std::memory_order_relaxed);
    ring_->ring().state.store(static_cast<std::uint32_t>(ipc::RingState::ended), std::memory_order_release);
  }
  reader_.reset();
  ring_.reset();
  clocks_.reset();
  next_clocks_.reset();
  writer_->restore();
  restore_failed_ = writer_->status().clock_state == ClockState::failed;
}

/// What the task's asker holds is not to be restored under it: the end of its lease does that.
void GpuWorker::Loop::write(const Task& task) {
  restore_failed_ = false;
  task(*writer_);
}

ipc::PlanAnswer GpuWorker::Loop::follow(std::unique_ptr<UnitClocks> clocks,
                                        std::optional<std::uint32_t> from_iteration) {
  if (!from_iteration) {
    use(std::move(clocks));
    wanted_clock_mhz_.reset();
    return ipc::AcceptedMessage{};
  }
  // What began while the plan was read began at the old clocks.
  if (ring_) look_at_ring();
  if (iteration_ && ipc::has_come(*iteration_, *from_iteration))
    return ipc::TooLateMessage{.begun_iteration = *iteration_};
  next_clocks_ = {.from_iteration = *from_iteration, .clocks = std::move(clocks)};
  return ipc::AcceptedMessage{};
}

void GpuWorker::Loop::iteration_began(std::uint32_t iteration) {
  iteration_ = iteration;
  if (!next_clocks_ || !ipc::has_come(iteration, next_clocks_->from_iteration)) return;
  use(std::move(next_clocks_->clocks));
}

void GpuWorker::Loop::look_at_ring() {
  const ipc::UnitRingReader::Batch batch = reader_->read(events_);
  const std::int64_t now_ns = monotonic_ns();
  lost_ += batch.lost;
  if (batch.events == 0) {
    if (!suspended_ && now_ns - last_unit_ns_ > to_ns(options_.suspend_after)) suspend();
    if (suspended_ && let_go_again_ns_ && now_ns >= *let_go_again_ns_) let_go_of_clock();
    return;
  }
  std::uint64_t begun = 0;
  wanted_clock_mhz_.reset();
  for (const ipc::UnitEvent& event : std::span(events_).first(batch.events)) {
    take(event, now_ns);
    if (event.type == ipc::UnitEventType::unit_begin) ++begun;
  }
  units_ += begun;
  if (begun > 1) late_units_ += begun - 1;
  last_unit_ns_ = now_ns;
  if (suspended_) {
    suspended_ = false;
    let_go_again_ns_.reset();
    ring_->ring().state.store(static_cast<std::uint32_t>(ipc::RingState::active), std::memory_order_release);
  }
  apply_newest();
}

void GpuWorker::Loop::take(const ipc::UnitEvent& event, std::int64_t now_ns) {
  // The client wrote the time: one that cannot be is taken for now.
  const auto event_ns = static_cast<std::int64_t>(event.time_ns & INT64_MAX);
  const std::int64_t time_ns = event_ns <= now_ns && now_ns - event_ns < kNsPerS ? event_ns : now_ns;
  if (event.type == ipc::UnitEventType::iteration_begin) {
    schedule_.iteration_began(time_ns);
    iteration_began(event.microbatch);
  }
  if (event.type == ipc::UnitEventType::unit_begin) schedule_.unit_began(time_ns);
  if (!clocks_) return;
  if (const std::optional<int> clock_mhz = clocks_->clock_mhz(event)) {
    wanted_clock_mhz_ = clock_mhz;
  } else if (event.type == ipc::UnitEventType::unit_begin) {
    ++unplanned_units_;
    ring_->ring().unplanned_unit.store(pack_unit(event), std::memory_order_relaxed);
    ring_->ring().unplanned_units.store(unplanned_units_, std::memory_order_release);
  }
}

void GpuWorker::Loop::use(std::unique_ptr<UnitClocks> clocks) {
  clocks_ = std::move(clocks);
  next_clocks_.reset();
  unplanned_units_ = 0;
  if (ring_) ring_->ring().unplanned_units.store(0, std::memory_order_release);
}

/// Requests the newest unit's clock from the driver, and reports to the client the request, the time when the driver
/// accepted it, and refusals.
void GpuWorker::Loop::apply_newest() {
  if (wanted_clock_mhz_) {
    const BusyMark busy(busy_since_ns_);
    if (writer_->follow(*wanted_clock_mhz_)) {
      ipc::UnitRing& ring = ring_->ring();
      ring.requested_clock_mhz.store(static_cast<std::uint32_t>(*wanted_clock_mhz_), std::memory_order_relaxed);
      ring.applied_time_ns.store(static_cast<std::uint64_t>(monotonic_ns()), std::memory_order_release);
    }
    const ClockState state = writer_->status().clock_state;
    const bool held = state != ClockState::failed && state != ClockState::foreign;
    ring_->ring().clocks_not_held.store(held ? 0 : 1, std::memory_order_release);
  }
  publish();
}

void GpuWorker::Loop::suspend() {
  suspended_ = true;
  wanted_clock_mhz_.reset();
  schedule_.pause();
  ring_->ring().state.store(static_cast<std::uint32_t>(ipc::RingState::suspended), std::memory_order_release);
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
  ring_->ring().requested_clock_mhz.store(clock_mhz, std::memory_order_relaxed);
  let_go_again_ns_.reset();
  if (writer.clock_state == ClockState::failed) let_go_again_ns_ = monotonic_ns() + to_ns(options_.retry_after);
  publish();
}

void GpuWorker::Loop::sleep_until_next_look() {
  sleep_for_ns(suspended_ ? kSuspendedSleepNs : schedule_.sleep_ns(monotonic_ns()));
}

void GpuWorker::Loop::publish() {
  const std::scoped_lock lock(mutex_);
  status_.writer = writer_->status();
  status_.late_units = late_units_;
  status_.units = units_;
  status_.lost = lost_;
  status_.unplanned_units = unplanned_units_;
  status_.has_plan = clocks_ != nullptr;
  status_.suspended = suspended_;
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
