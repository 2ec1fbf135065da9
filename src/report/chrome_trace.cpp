#include "report/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "core/units.h"

namespace lowgear {

namespace {

constexpr double kNsPerSecond = 1e9;
/// Two roundings of one instant, come by through different sums, are at most this far apart.
constexpr std::int64_t kRoundingNs = 1;
constexpr double kMaxEnergyJ = 1e18;
constexpr double kMaxPowerW = 1e12;

/// Viewers keep whole nanoseconds. Rounding begins and ends alike keeps ops that touch from overlapping, which rounding
/// begins and durations would not: a viewer would then take one for part of the other.
std::int64_t ns_from_s(double time_s) { return std::llround(time_s * kNsPerSecond); }

/// The format's unit: microseconds.
std::string microseconds(std::int64_t time_ns) { return fmt::format("{}.{:03}", time_ns / 1000, time_ns % 1000); }

std::string json_string(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_figure(double value, double limit) { return value >= 0 && value <= limit; }

/// Writes the events of one rank. Processes are numbered from 1: viewers take process 0 for the idle task.
class RankWriter {
 public:
  RankWriter(std::string& out, std::size_t rank, double blocking_power_w)
      : out_(out), rank_(rank), blocking_power_w_(blocking_power_w) {
    if (!is_figure(blocking_power_w, kMaxPowerW)) {
      fail("its blocking power is out of range");
    }
  }

  void write(const ReportTimeline& timeline, std::string_view title) {
    write_metadata("process_name", fmt::format(R"("name":{})", json_string(fmt::format("rank {}: {}", rank_, title))));
    write_metadata("process_sort_index", fmt::format(R"("sort_index":{})", rank_));
    write_metadata("thread_name", R"("name":"ops")");
    const std::int64_t end_ns = ns_from_s(timeline.time_s);
    for (const ReportOp& op : timeline.ranks[rank_]) {
      write_op(op, end_ns);
    }
    block_until(end_ns);
  }

 private:
  void write_metadata(std::string_view name, std::string_view arguments) {
    write_event(fmt::format(R"("ph":"M","name":"{}","args":{{{}}})", name, arguments));
  }

  void write_op(const ReportOp& op, std::int64_t iteration_end_ns) {
    if (!is_figure(op.start_s, kMaxTimeS) || !is_figure(op.duration_s, kMaxTimeS) ||
        !is_figure(op.energy_j, kMaxEnergyJ)) {
      fail(fmt::format("op {} has a time or an energy that is out of range", op_index_));
    }
    const std::int64_t rounded_start_ns = ns_from_s(op.start_s);
    const std::int64_t rounded_end_ns = ns_from_s(op.start_s + op.duration_s);
    if (rounded_start_ns < last_end_ns_ - kRoundingNs || rounded_end_ns > iteration_end_ns + kRoundingNs) {
      fail(fmt::format("op {} overlaps the one before or reaches beyond the iteration", op_index_));
    }
    const std::int64_t start_ns = std::max(rounded_start_ns, last_end_ns_);
    const std::int64_t end_ns = std::clamp(rounded_end_ns, start_ns, std::max(start_ns, iteration_end_ns));
    block_until(start_ns);
    write_event(fmt::format(R"("ph":"X","name":"{}{}","cat":"{}","ts":{},"dur":{},"args":{{"kind":"{}","stage":{},)"
                            R"("microbatch":{},"clock_mhz":{},"energy_j":{}}})",
                            letter(op.kind), op.microbatch, name(op.kind), microseconds(start_ns),
                            microseconds(end_ns - start_ns), name(op.kind), op.stage, op.microbatch, op.clock_mhz,
                            op.energy_j));
    if (end_ns > start_ns) {
      write_power(start_ns, op.energy_j / (static_cast<double>(end_ns - start_ns) / kNsPerSecond));
    }
    last_end_ns_ = end_ns;
    ++op_index_;
  }

  void block_until(std::int64_t time_ns) {
    if (time_ns > last_end_ns_) {
      write_power(last_end_ns_, blocking_power_w_);
    }
  }

  void write_power(std::int64_t time_ns, double power_w) {
    write_event(fmt::format(R"("ph":"C","name":"power","ts":{},"args":{{"W":{}}})", microseconds(time_ns), power_w));
  }

  void write_event(std::string_view members) {
    fmt::format_to(std::back_inserter(out_), "{}\n{{\"pid\":{},\"tid\":{},{}}}", out_.back() == '[' ? "" : ",",
                   rank_ + 1, rank_ + 1, members);
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw InputError(fmt::format("trace: rank {}: {}; replay the plan to get times that fit", rank_, what));
  }

  std::string& out_;
  std::size_t rank_;
  double blocking_power_w_;
  std::size_t op_index_ = 0;
  std::int64_t last_end_ns_ = 0;
};

}  // namespace

std::string write_chrome_trace(const ReportTimeline& timeline, std::span<const double> blocking_power_w,
                               TraceFigures figures) {
  assert(blocking_power_w.size() == timeline.ranks.size());
  if (!is_figure(timeline.time_s, kMaxTimeS) || !is_figure(timeline.energy_j, kMaxEnergyJ)) {
    throw InputError("trace: the iteration's time or energy is out of range");
  }
  const std::string_view origin = figures == TraceFigures::planned ? "planned" : "replayed";
  const std::string title = fmt::format("{} ({})", timeline.label, origin);
  std::string out = fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\n\"otherData\":{{\"title\":{},\"figures\":\"{}\",\"time_s\":{},\"energy_j\":{}}},"
      "\n"
      "\"traceEvents\":[",
      json_string(title), origin, timeline.time_s, timeline.energy_j);
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    RankWriter(out, rank, blocking_power_w[rank]).write(timeline, title);
  }
  out += "\n]}\n";
  return out;
}

}  // namespace lowgear
