/// How many small changes a second the server's store acknowledges, each on the disk, when so many writers each wait
/// for one before they give the next; against one flush of the disk after the other. `store_write_study [FOLDER]`; the
/// folder is the current one when it is not given.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "control/server/store/sqlite_store.h"
#include "measurement.h"

namespace lowgear::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 5;

/// What one rank reports of one iteration.
constexpr std::string_view kReport =
    R"({"rank":1023,"reports":[{"iteration":100000,"plan_version":3,"time_s":2.4213,"compute_s":1.9342,"energy_j":1302.7,)"
    R"("energy_error_j":4.1,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":312.0,"sm_clock_mhz":1215,)"
    R"("temperature_c":61}})";

/// The server's thread: runs what is posted to it.
class Loop {
 public:
  std::function<void(std::function<void()>)> post() {
    return [this](std::function<void()> function) {
      const std::scoped_lock lock(mutex_);
      functions_.push_back(std::move(function));
      posted_.notify_one();
    };
  }
  void run_once() {
    std::vector<std::function<void()>> functions;
    {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [this] { return !functions_.empty(); });
      functions.swap(functions_);
    }
    for (const auto& function : functions) function();
  }

 private:
  std::mutex mutex_;
  std::condition_variable posted_;
  std::vector<std::function<void()>> functions_;
};

struct Figures {
  double changes_per_s = 0;
  double changes_of_a_commit = 0;
  double median_ms = 0;
  double p99_ms = 0;
};

class Writers {
 public:
  Writers(const fs::path& folder, int writers) : store_(folder, loop_.post()), next_iteration_(writers, 0) {}

  Figures run() {
    const auto begin = Clock::now();
    end_ = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kSeconds));
    for (int rank = 0; rank < static_cast<int>(next_iteration_.size()); ++rank) write(rank);
    while (waiting_ > 0) loop_.run_once();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const server::StoreStatistics statistics = store_.statistics();
    std::ranges::sort(times_ms_);
    const auto at = [&](double share) {
      return times_ms_[static_cast<std::size_t>(share * static_cast<double>(times_ms_.size() - 1))];
    };
    return {static_cast<double>(statistics.changes) / seconds,
            static_cast<double>(statistics.changes) / static_cast<double>(statistics.commits), at(0.5), at(0.99)};
  }

 private:
  void write(int rank) {
    server::StoreChange change;
    const std::int64_t iteration = next_iteration_[static_cast<std::size_t>(rank)]++;
    change.reports = {{"j-7f3a", rank, iteration, iteration, std::string(kReport)}};
    ++waiting_;
    store_.write(std::move(change), [this, rank, given = Clock::now()](server::StoreOutcome outcome) {
      if (outcome != server::StoreOutcome::committed) throw std::runtime_error("a change was not committed");
      const Clock::time_point now = Clock::now();
      times_ms_.push_back(std::chrono::duration<double, std::milli>(now - given).count());
      --waiting_;
      if (now < end_) write(rank);
    });
  }

  Loop loop_;
  server::SqliteStore store_;
  std::vector<std::int64_t> next_iteration_;
  Clock::time_point end_;
  std::vector<double> times_ms_;
  int waiting_ = 0;
};

/// Flushes a second of 4 KiB each, appended one after the other.
double flushes_per_s(const fs::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const std::string block(4096, 'x');
  int flushes = 0;
  bool good = file >= 0;
  const double seconds = seconds_of([&] {
    const auto end = Clock::now() + std::chrono::seconds(2);
    for (; good && Clock::now() < end; ++flushes) {
      good = ::write(file, block.data(), block.size()) == static_cast<ssize_t>(block.size()) && ::fdatasync(file) == 0;
    }
  });
  if (file >= 0) ::close(file);
  fs::remove(path);
  if (!good) throw std::runtime_error(fmt::format("{}: cannot be written", path.string()));
  return flushes / seconds;
}

void study(const fs::path& parent) {
  const fs::path folder = parent / fmt::format("store_write_study-{}", ::getpid());
  fs::create_directory(folder);
  fs::permissions(folder, fs::perms::owner_all);
  fmt::print("flushes of 4 KiB: {:.0f} a second\n", flushes_per_s(folder / "flushed"));
  fmt::print("| writers | changes/s | changes of a commit | median ms | p99 ms |\n|---:|---:|---:|---:|---:|\n");
  for (const int writers : {1, 100, 1'000, 10'000}) {
    const Figures figures = Writers(folder / std::to_string(writers), writers).run();
    fmt::print("| {} | {:.0f} | {:.1f} | {:.2f} | {:.2f} |\n", writers, figures.changes_per_s,
               figures.changes_of_a_commit, figures.median_ms, figures.p99_ms);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace lowgear::bench

int main(int argc, char** argv) {
  try {
    lowgear::bench::study(argc > 1 ? argv[1] : ".");
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
