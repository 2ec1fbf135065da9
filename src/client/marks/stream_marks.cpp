#include "client/marks/stream_marks.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"

namespace lowgear::client {

namespace {

std::uint64_t relay_time_ns() noexcept { return static_cast<std::uint64_t>(monotonic_ns()); }

void sleep_for(std::chrono::nanoseconds time) {
  const timespec span{.tv_sec = 0, .tv_nsec = time.count()};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &span, nullptr);
}

}  // namespace

MarkRelay::MarkRelay(std::unique_ptr<StreamDriver> driver, MarkTaker& taker, MarkRelayOptions options)
    : driver_(std::move(driver)),
      words_(driver_->words().first(std::min(driver_->words().size(), KnownStreams::kCapacity))),
      taker_(&taker),
      options_(options),
      progress_({.next = {}, .look_ns = relay_time_ns(), .mark_ns = relay_time_ns(), .ends_since_ns = 0}),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void MarkRelay::finish() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

bool MarkRelay::use(StreamDriver::Stream stream) noexcept { return streams_.use(stream, words_.size()); }

/// The number is asked for before the mark waits for it, so that a mark in the queue always knows how it gets out.
void MarkRelay::mark(const Mark& mark) noexcept {
  if (!queue_.make_room()) return;
  Waiting waiting{.mark = mark, .number = number_ + 1, .word = kHost};
  if (works()) {
    const int answer = driver_->write(streams_.stream(), streams_.number(), waiting.number);
    if (answer == StreamDriver::kCaptured) {
      captured_.store(captured_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      return;
    }
    if (answer == StreamDriver::kWritten) {
      waiting.word = static_cast<std::uint16_t>(streams_.number());
      number_ = waiting.number;
      word_ = waiting.word;
    } else {
      failure_.store(answer, std::memory_order_relaxed);
    }
  }
  queue_.push(waiting);
}

void MarkRelay::wait_for_gpu() const noexcept {
  const Waiting newest{.mark = {}, .number = number_, .word = static_cast<std::uint16_t>(word_)};
  const std::uint64_t end_ns =
      relay_time_ns() + static_cast<std::uint64_t>(std::chrono::nanoseconds(options_.last_wait).count());
  while (works() && !has_come(newest) && relay_time_ns() < end_ns) sleep_for(options_.look_period);
}

std::uint64_t MarkRelay::lost() const {
  return queue_.lost() + not_reached_.load(std::memory_order_relaxed) + captured_.load(std::memory_order_relaxed);
}

std::string MarkRelay::problem() const {
  if (!works()) {
    return fmt::format("marks are the host's since the driver refused to write one: {}",
                       driver_->describe(failure_.load(std::memory_order_relaxed)));
  }
  const std::uint64_t captured = captured_.load(std::memory_order_relaxed);
  if (captured > 0) {
    return fmt::format(
        "{} marks were made while the stream was captured in a CUDA graph, and are lost: mark around the graph's "
        "launch",
        captured);
  }
  const std::uint64_t lost = this->lost();
  return lost == 0 ? "" : fmt::format("{} marks are lost: too many waited for the GPU", lost);
}

void MarkRelay::run(const std::stop_token& stop) {
  ::prctl(PR_SET_TIMERSLACK, 1UL);  // sleeps are to end when they were asked to, not up to 50 us later
  ::pthread_setname_np(::pthread_self(), "lowgear-marks");
  for (;;) {
    const bool stops = stop.stop_requested();  // first: what was marked before is in the queue
    const std::uint64_t now_ns = relay_time_ns();
    if ((stops || !works()) && progress_.ends_since_ns == 0) progress_.ends_since_ns = now_ns;
    look(now_ns);
    if (stops && !progress_.next) return;
    sleep_for(pause(now_ns));
  }
}

void MarkRelay::look(std::uint64_t now_ns) {
  for (;;) {
    if (!progress_.next) {
      Waiting waiting;
      if (!queue_.pop(waiting)) break;
      progress_.next = waiting;
    }
    if (has_come(*progress_.next)) {
      pass_on(*progress_.next, now_ns);
    } else if (is_given_up(now_ns)) {
      not_reached_.fetch_add(1, std::memory_order_relaxed);
    } else {
      break;
    }
    progress_.next.reset();
  }
  progress_.look_ns = now_ns;
}

bool MarkRelay::has_come(const Waiting& waiting) const noexcept {
  if (waiting.word == kHost) return true;
  const std::uint32_t written = words_[waiting.word].load(std::memory_order_acquire);
  return static_cast<std::int32_t>(written - waiting.number) >= 0;  // numbers start again after 2^32
}

bool MarkRelay::is_given_up(std::uint64_t now_ns) const noexcept {
  if (progress_.ends_since_ns == 0) return false;
  return now_ns - progress_.ends_since_ns >=
         static_cast<std::uint64_t>(std::chrono::nanoseconds(options_.last_wait).count());
}

void MarkRelay::pass_on(const Waiting& waiting, std::uint64_t now_ns) noexcept {
  Mark mark = waiting.mark;
  if (waiting.word != kHost) {
    const std::uint64_t since_ns = std::max(progress_.look_ns, mark.time_ns);
    mark.time_ns = since_ns + (std::max(now_ns, since_ns) - since_ns) / 2;
  }
  progress_.mark_ns = std::max(mark.time_ns, progress_.mark_ns);
  mark.time_ns = progress_.mark_ns;
  taker_->take(mark);
}

std::chrono::nanoseconds MarkRelay::pause(std::uint64_t now_ns) const {
  const bool is_idle = !progress_.next && now_ns - std::min(now_ns, progress_.mark_ns) >
                                              static_cast<std::uint64_t>(options_.idle_after.count());
  return is_idle ? options_.idle_period : options_.look_period;
}

void StreamMarks::use(StreamDriver::Stream stream) {
  if (stream == nullptr) return use_host();
  if (!relay_) {
    const std::lock_guard lock(mutex_);
    if (!problem_.empty()) return;  // it was tried, and the host was not asked for since
    try {
      relay_ = std::make_unique<MarkRelay>(open_driver_(), *taker_);
    } catch (const std::exception& error) {
      problem_ = std::string("marks are the host's: ") + error.what();
      return;
    }
  }
  if (relay_->use(stream)) return;
  const std::lock_guard lock(mutex_);
  problem_ = "marks follow another stream: too many have been named";
}

void StreamMarks::mark(Mark mark) noexcept { relay_->mark(mark); }

void StreamMarks::use_host() {
  std::unique_ptr<MarkRelay> ended;
  {
    const std::lock_guard lock(mutex_);
    problem_.clear();
    ended = std::move(relay_);
  }
  if (!ended) return;
  ended->finish();
  const std::lock_guard lock(mutex_);
  lost_before_ += ended->lost();
}

StreamMarksStatus StreamMarks::status() const {
  const std::lock_guard lock(mutex_);
  StreamMarksStatus status{.follow_stream = relay_ && relay_->works(), .problem = problem_};
  if (relay_ && status.problem.empty()) status.problem = relay_->problem();
  return status;
}

std::uint64_t StreamMarks::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_before_ + (relay_ ? relay_->lost() : 0);
}

}  // namespace lowgear::client
