#include "app/cli/terminal/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "app/cli/terminal/process.h"

namespace lowgear::cli {
namespace {

constexpr std::chrono::seconds kQuietAtFirst{2};
constexpr std::chrono::milliseconds kBetweenDrawings{100};
constexpr std::string_view kEraseLine = "\r\x1b[K";
constexpr int kBarCells = 24;

int terminal_width() {
  winsize size = {};
  constexpr int kUsual = 80;
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

/// A drawing that fails is no reason to stop the work.
void draw(std::string_view text) {
  [[maybe_unused]] const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

std::string progress_line(std::string_view activity, double fraction, int width) {
  std::string line(activity);
  if (fraction >= 0) {
    const double share = std::min(fraction, 1.0);
    const auto filled = static_cast<std::size_t>(share * kBarCells);
    line += fmt::format("  [{}{}] {:3.0f} %", std::string(filled, '#'), std::string(kBarCells - filled, '.'),
                        std::floor(share * 100));
  } else {
    line += " ...";
  }
  if (line.size() > static_cast<std::size_t>(width)) line.resize(static_cast<std::size_t>(width));
  return line;
}

ProgressBar::ProgressBar()
    : terminal_(!CallWithinProcess::is_running() && ::isatty(STDERR_FILENO) == 1),
      next_(Clock::now() + kQuietAtFirst) {}

ProgressBar::~ProgressBar() {
  if (drawn_) draw(kEraseLine);
}

void ProgressBar::update(std::string_view activity, double fraction) {
  throw_if_interrupted();
  if (!terminal_) return;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + kBetweenDrawings;
  drawn_ = true;
  draw(fmt::format("{}{}", kEraseLine, progress_line(activity, fraction, terminal_width() - 1)));
}

namespace {

constexpr std::chrono::milliseconds kProgressPeriod{50};

/// Never reported: it ends a task whose result is no longer needed.
struct Stopped {};

class StoppableTask final : public Progress {
 public:
  explicit StoppableTask(std::stop_token stop) : stop_(std::move(stop)) {}
  void update(std::string_view /*activity*/, double /*fraction*/) override {
    if (stop_.stop_requested()) throw Stopped{};
  }

 private:
  std::stop_token stop_;
};

class TaskThreads {
 public:
  TaskThreads(std::size_t count, std::size_t threads, const std::function<void(const ParallelTask&)>& work)
      : count_(count), work_(work), running_(std::clamp<std::size_t>(count, 1, std::max<std::size_t>(1, threads))) {
    const std::size_t started = running_;
    for (std::size_t thread = 0; thread < started; ++thread) {
      threads_.emplace_back([this, thread](const std::stop_token& stop) { run(thread, stop); });
    }
  }

  TaskThreads(const TaskThreads&) = delete;
  TaskThreads& operator=(const TaskThreads&) = delete;
  ~TaskThreads() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }

  void finish(std::string_view activity, Progress& progress) {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, kProgressPeriod, [this] { return running_ == 0; })) {
      lock.unlock();
      progress.update(activity, static_cast<double>(done_) / static_cast<double>(count_));
      lock.lock();
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void run(std::size_t thread, const std::stop_token& stop) {
    try {
      StoppableTask progress(stop);
      for (std::size_t index = next_++; index < count_ && !stop.stop_requested(); index = next_++) {
        work_({index, thread, progress});
        ++done_;
      }
    } catch (const Stopped&) {
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      next_ = count_;
    }
    const std::scoped_lock lock(mutex_);
    --running_;
    ended_.notify_one();
  }

  const std::size_t count_;
  const std::function<void(const ParallelTask&)>& work_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::size_t> done_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t running_;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;  ///< last: they use the rest
};

class ThreadTask final : public StartedTask {
 public:
  explicit ThreadTask(std::function<void(Progress&)> work)
      : work_([work = std::move(work)](const ParallelTask& task) { work(task.progress); }), threads_(1, 1, work_) {}

  void finish(std::string_view activity, Progress& progress) override { threads_.finish(activity, progress); }

 private:
  std::function<void(const ParallelTask&)> work_;
  TaskThreads threads_;  ///< last: it uses the rest
};

}  // namespace

std::unique_ptr<StartedTask> start_task(std::function<void(Progress& progress)> work) {
  return std::make_unique<ThreadTask>(std::move(work));
}

void run_parallel(std::size_t count, std::size_t threads, std::string_view activity, Progress& progress,
                  const std::function<void(const ParallelTask&)>& work) {
  if (count > 0) TaskThreads(count, threads, work).finish(activity, progress);
}

}  // namespace lowgear::cli
