#include "agent/writing/clock_log.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

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

}  // namespace lowgear::agent
