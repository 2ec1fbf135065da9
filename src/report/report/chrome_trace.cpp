#include "report/report/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/units.h"

namespace lowgear::report {

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

/// Writes the events of one process of the trace. Processes are numbered from 1: viewers take process 0 for the idle
/// task.
class ProcessWriter {
 public:
  ProcessWriter(std::string& out, std::size_t number) : out_(&out), number_(number) {}

  /// `place` orders processes.
  void write_metadata(std::string_view title, std::size_t place) {
    write_event(fmt::format(R"("ph":"M","name":"process_name","args":{{"name":{}}})", json_string(std::string(title))));
    write_event(fmt::format(R"("ph":"M","name":"process_sort_index","args":{{"sort_index":{}}})", place));
    write_event(R"("ph":"M","name":"thread_name","args":{"name":"ops"})");
  }

  /// `arguments` are what comes after kind, stage, microbatch and clock.
  template <typename Op>
  void write_slice(const Op& op, std::int64_t start_ns, std::int64_t end_ns, std::string_view arguments = {}) {
    write_event(fmt::format(R"("ph":"X","name":"{}{}","cat":"{}","ts":{},"dur":{},"args":{{"kind":"{}","stage":{},)"
                            R"("microbatch":{},"clock_mhz":{}{}}})",
                            letter(op.kind), op.microbatch, name(op.kind), microseconds(start_ns),
                            microseconds(end_ns - start_ns), name(op.kind), op.stage, op.microbatch, op.clock_mhz,
                            arguments));
  }

  void write_counter(std::string_view counter, std::string_view unit, std::int64_t time_ns, double value) {
    write_event(
        fmt::format(R"("ph":"C","name":"{}","ts":{},"args":{{"{}":{}}})", counter, microseconds(time_ns), unit, value));
  }

 private:
  void write_event(std::string_view members) {
    fmt::format_to(std::back_inserter(*out_), "{}\n{{\"pid\":{},\"tid\":{},{}}}", out_->back() == '[' ? "" : ",",
                   number_, number_, members);
  }

  std::string* out_;
  std::size_t number_;
};

/// Writes one rank of a timeline whose ops have energies.
class RankWriter {
 public:
  RankWriter(ProcessWriter process, std::size_t rank, double blocking_power_w)
      : process_(process), rank_(rank), blocking_power_w_(blocking_power_w) {
    if (!is_figure(blocking_power_w, kMaxPowerW)) {
      fail("its blocking power is out of range");
    }
  }

  void write(const Timeline& timeline, std::string_view title, std::size_t place) {
    process_.write_metadata(fmt::format("rank {}: {}", rank_, title), place);
    const std::int64_t end_ns = ns_from_s(timeline.time_s);
    for (const Op& op : timeline.ranks[rank_]) {
      write_op(op, end_ns);
    }
    block_until(end_ns);
  }

 private:
  void write_op(const Op& op, std::int64_t iteration_end_ns) {
    if (!is_figure(op.start_s, kMaxTimeS) || !is_figure(op.duration_s, kMaxTimeS) ||
        !is_figure(op.energy_j, kMaxEnergyJ)) {
      fail(fmt::format("op {} has a time or an energy that is out of range", op_index_));
    }
    const std::int64_t rounded_start_ns = ns_from_s(op.start_s);
    const std::int64_t rounded_end_ns = ns_from_s(op.start_s + op.duration_s);
    if (rounded_start_ns < last_end_ns_ - kRoundingNs || rounded_end_ns > iteration_end_ns + kRoundingNs) {
      fail(fmt::format("op {} overlaps the op before it or ends after the iteration", op_index_));
    }
    const std::int64_t start_ns = std::max(rounded_start_ns, last_end_ns_);
    const std::int64_t end_ns = std::clamp(rounded_end_ns, start_ns, std::max(start_ns, iteration_end_ns));
    block_until(start_ns);
    // A setting has no character that JSON escapes.
    const std::string setting = op.setting.empty() ? "" : fmt::format(R"(,"setting":"{}")", op.setting);
    process_.write_slice(op, start_ns, end_ns, fmt::format(R"(,"energy_j":{}{})", op.energy_j, setting));
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

  void write_power(std::int64_t time_ns, double power_w) { process_.write_counter("power", "W", time_ns, power_w); }

  [[noreturn]] void fail(std::string_view what) const {
    throw InputError(fmt::format("trace: rank {}: {}; replay the plan to get times that fit", rank_, what));
  }

  ProcessWriter process_;
  std::size_t rank_;
  double blocking_power_w_;
  std::size_t op_index_ = 0;
  std::int64_t last_end_ns_ = 0;
};

void write_measured_rank(const MeasuredRank& rank, std::string_view title, ProcessWriter process, std::size_t place) {
  process.write_metadata(title, place);
  std::int64_t last_end_ns = 0;
  for (const MeasuredOp& op : rank.ops) {
    const std::int64_t start_ns = std::max(ns_from_s(op.start_s), last_end_ns);
    last_end_ns = std::max(ns_from_s(op.end_s), start_ns);
    process.write_slice(op, start_ns, last_end_ns);
  }
  for (const MeasuredPower& power : rank.power)
    process.write_counter("power", "W", ns_from_s(power.start_s), power.power_w);
  for (const MeasuredClock& clock : rank.clocks) {
    process.write_counter("SM clock", "MHz", ns_from_s(clock.time_s), clock.clock_mhz);
  }
}

std::string_view name(TraceFigures figures) { return figures == TraceFigures::planned ? "planned" : "replayed"; }

/// The trace without its end.
std::string begin_trace(const Timeline& timeline, std::string_view title, std::string_view figures,
                        std::string_view others) {
  if (!is_figure(timeline.time_s, kMaxTimeS) || !is_figure(timeline.energy_j, kMaxEnergyJ)) {
    throw InputError("trace: the iteration's time or energy is out of range");
  }
  return fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\n\"otherData\":{{\"title\":{},\"figures\":\"{}\",\"time_s\":{},\"energy_j\":{}{}}}"
      ","
      "\n"
      "\"traceEvents\":[",
      json_string(std::string(title)), figures, timeline.time_s, timeline.energy_j, others);
}

std::string title_of(const Timeline& timeline, TraceFigures figures) {
  return fmt::format("{} ({})", timeline.label, name(figures));
}

std::string measured_json(const MeasuredTimeline& measured) {
  return fmt::format(R"(,"measured":{{"figures":"{}","iteration":{},"time_s":{},"time_axis":"{}"}})",
                     figures_of(measured), measured.iteration, measured.time_s, text_of(measured.axis));
}

}  // namespace

std::string_view figures_of(const MeasuredTimeline& measured) { return measured.simulated ? "simulated" : "measured"; }

std::string_view text_of(TimeAxis axis) {
  return axis == TimeAxis::one_clock ? "one clock" : "iteration begin on each machine";
}

std::string write_chrome_trace(const Timeline& timeline, std::span<const double> blocking_power_w,
                               TraceFigures figures) {
  assert(blocking_power_w.size() == timeline.ranks.size());
  const std::string title = title_of(timeline, figures);
  std::string out = begin_trace(timeline, title, name(figures), "");
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    RankWriter({out, rank + 1}, rank, blocking_power_w[rank]).write(timeline, title, rank);
  }
  return out + "\n]}\n";
}

std::string write_chrome_trace(const Timeline& timeline, std::span<const double> blocking_power_w, TraceFigures figures,
                               const MeasuredTimeline& measured) {
  assert(blocking_power_w.size() == timeline.ranks.size());
  const std::string title = title_of(timeline, figures);
  std::string out = begin_trace(timeline, title, name(figures), measured_json(measured));
  std::size_t process = 0;
  auto next = measured.ranks.begin();
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    ++process;
    RankWriter({out, process}, rank, blocking_power_w[rank]).write(timeline, title, process - 1);
    for (; next != measured.ranks.end() && next->pipeline_rank == static_cast<int>(rank); ++next) {
      ++process;
      write_measured_rank(
          *next, fmt::format("rank {}: iteration {} ({})", next->rank, measured.iteration, figures_of(measured)),
          {out, process}, process - 1);
    }
  }
  return out + "\n]}\n";
}

}  // namespace lowgear::report
