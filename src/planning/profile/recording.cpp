#include "planning/profile/recording.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/number.h"
#include "base/core/text.h"
#include "base/core/units.h"
#include "planning/profile/recorded_rows.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {
namespace {

constexpr double kMaxSampledPowerW = 1e6;
/// A century.
constexpr double kMaxUptimeS = 3.2e9;

/// The file without its last line where that has no end: a full disk, or the end of the process, cut it off.
std::string_view whole_lines(std::string_view text, const std::string& source, std::vector<std::string>& warnings) {
  const std::size_t last_end = text.rfind('\n');
  if (last_end == std::string_view::npos || last_end + 1 == text.size()) return text;
  warnings.push_back(source + ": the recording ends within its last line, which is left out");
  return text.substr(0, last_end + 1);
}

void add_units(const CsvTable& table, std::vector<RecordedUnit>& units) {
  const CellReader cells(table);
  const std::size_t iteration = table.column("iteration");
  const std::size_t stage = table.column("stage");
  const std::size_t instruction = table.column("instruction");
  const std::size_t microbatch = table.column("microbatch");
  const std::size_t start = table.column("start_s");
  const std::size_t end = table.column("end_s");
  const std::size_t frequency = table.column("frequency");
  const auto settling = table.has_column("settling") ? std::optional(table.column("settling")) : std::nullopt;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string& name = table.text(row, instruction);
    if (is_other_instruction(name)) continue;
    const std::optional<OpKind> kind = op_kind_from_name(name);
    if (name == lowgear::name(OpKind::forward_backward)) {
      cells.fail(row, instruction, "a forward and a backward in one unit cannot be profiled separately",
                 "record a schedule that runs them one after the other");
    }
    if (!kind) {
      cells.fail(row, instruction, fmt::format("unknown instruction {}", quote(name)),
                 "use forward, backward, input_gradient or weight_gradient");
    }
    RecordedUnit unit;
    unit.iteration = cells.integer(row, iteration, 0, kMaxIteration);
    unit.stage = cells.integer(row, stage, 0, kMaxStages - 1);
    unit.kind = *kind;
    unit.microbatch = cells.integer(row, microbatch, 0, kMaxIteration);
    unit.start_s = cells.number(row, start, 0, kMaxRecordingS);
    unit.end_s = cells.number(row, end, 0, kMaxRecordingS);
    if (unit.end_s < unit.start_s) cells.fail(row, end, fmt::format("it ends before it starts, at {}", unit.start_s));
    unit.clock_mhz = cells.integer(row, frequency, 0, kMaxClockMhz);
    unit.settling = settling && cells.integer(row, *settling, 0, 1) == 1;
    units.push_back(unit);
  }
}

std::vector<RecordedUnit> read_units(std::string_view text, const std::string& source) {
  std::vector<RecordedUnit> units;
  CsvBlocks blocks(text, source);
  while (const std::optional<CsvTable> table = blocks.next()) add_units(*table, units);
  sort_by_time(units);
  return units;
}

void add_iterations(const CsvTable& table, std::vector<RecordedIteration>& iterations) {
  const CellReader cells(table);
  const std::size_t number = table.column("iteration");
  const std::size_t start = table.column("start_s");
  const std::size_t end = table.column("end_s");
  for (std::size_t row = 0; row < table.rows(); ++row) {
    RecordedIteration iteration;
    iteration.number = cells.integer(row, number, 0, kMaxIteration);
    if (!iterations.empty() && iteration.number <= iterations.back().number) {
      cells.fail(row, number, fmt::format("{} does not follow {}", iteration.number, iterations.back().number));
    }
    iteration.start_s = cells.number(row, start, 0, kMaxRecordingS);
    iteration.end_s = cells.number(row, end, 0, kMaxRecordingS);
    if (iteration.end_s < iteration.start_s) {
      cells.fail(row, end, fmt::format("it ends before it starts, at {}", iteration.start_s));
    }
    iterations.push_back(iteration);
  }
}

std::vector<RecordedIteration> read_iterations(std::string_view text, const std::string& source) {
  std::vector<RecordedIteration> iterations;
  if (text.empty()) return iterations;
  CsvBlocks blocks(text, source);
  while (const std::optional<CsvTable> table = blocks.next()) add_iterations(*table, iterations);
  return iterations;
}

/// Columns that a GPU need not report: the whole column may be absent, and each cell empty.
class OptionalColumn {
 public:
  OptionalColumn(const CsvTable& table, std::string_view name)
      : cells_(table), column_(table.has_column(name) ? std::optional(table.column(name)) : std::nullopt) {}

  [[nodiscard]] std::optional<double> number(std::size_t row, double low, double high) const {
    if (!column_ || cells_.is_empty(row, *column_)) return std::nullopt;
    return cells_.number(row, *column_, low, high);
  }
  [[nodiscard]] std::optional<int> integer(std::size_t row, int low, int high) const {
    if (!column_ || cells_.is_empty(row, *column_)) return std::nullopt;
    return cells_.integer(row, *column_, low, high);
  }

 private:
  CellReader cells_;
  std::optional<std::size_t> column_;
};

/// `before` has the time of the last sample and the last value of the counter.
void add_samples(const CsvTable& table, EnergySample& before, std::vector<EnergySample>& samples) {
  const CellReader cells(table);
  const std::size_t time = table.column("time_s");
  const std::size_t energy = table.column("energy_j");
  const OptionalColumn counter(table, "energy_j");
  const OptionalColumn power(table, "power_w");
  const OptionalColumn sm(table, "sm_mhz");
  const OptionalColumn temperature(table, "temperature_c");
  const OptionalColumn reasons(table, "throttle_reasons");
  for (std::size_t row = 0; row < table.rows(); ++row) {
    EnergySample sample;
    sample.time_s = cells.number(row, time, 0, kMaxRecordingS);
    sample.energy_j = counter.number(row, 0, kMaxCounterJ);
    sample.power_w = power.number(row, 0, kMaxSampledPowerW);
    sample.sm_mhz = sm.integer(row, 0, kMaxClockMhz);
    sample.temperature_c = temperature.integer(row, -273, 1000);
    if (const auto bits = reasons.number(row, 0, 0x1p53)) {
      sample.throttle_reasons = static_cast<std::uint64_t>(*bits);
    }
    check_order(table, row, time, energy, before, sample);
    samples.push_back(sample);
    before.time_s = sample.time_s;
    if (sample.energy_j) before.energy_j = sample.energy_j;
  }
}

std::vector<EnergySample> read_samples(std::string_view text, const std::string& source) {
  std::vector<EnergySample> samples;
  EnergySample before = no_sample();
  CsvBlocks blocks(text, source);
  while (const std::optional<CsvTable> table = blocks.next()) add_samples(*table, before, samples);
  return samples;
}

Recording read_recording_json(std::string_view text, const std::string& source) {
  const Json document = parse_json(text, source);
  const JsonView view(document, source);
  require_format(view, "lowgear.recording/1");
  Recording recording;
  recording.world_size = view.at("world_size").integer_in(1, kMaxRanks);
  recording.rank = view.at("rank").integer_in(0, recording.world_size - 1);
  recording.simulated = view.at("simulated").boolean();
  if (document.contains("invalid")) recording.invalid = view.at("invalid").text();
  const std::string failure = document.contains("failure") ? view.at("failure").text() : "";
  if (!failure.empty()) {
    recording.warnings.push_back(fmt::format("{}: rank {} {}: its recording ends there", source, recording.rank,
                                             text_of_failure(printable(failure))));
  } else if (document.contains("ended") && !view.at("ended").boolean()) {
    recording.warnings.push_back(
        fmt::format("{}: rank {} has not ended its recording: it still runs, was killed, or its disk is full", source,
                    recording.rank));
  }
  recording.lost_units = view.at("lost_units").integer();
  if (recording.lost_units < 0) view.at("lost_units").fail("is below 0");
  if (document.contains("clock_lead_s")) {
    recording.clock_lead_s = number_in(view.at("clock_lead_s"), 0, kMaxRecordingS);
  }
  if (document.contains("job")) recording.job = view.at("job").text();
  const JsonView gpu = view.at("gpu");
  recording.gpu_uuid = normal_gpu_uuid(gpu.at("uuid").text());
  recording.gpu_name = gpu.at("name").text();
  if (document.contains("start_unix_s")) {
    recording.start_unix_s = view.at("start_unix_s").number();
    if (!(*recording.start_unix_s >= 0 && *recording.start_unix_s <= kMaxUnixS)) {
      view.at("start_unix_s").fail("is not a time since 1970");
    }
  }
  if (document.contains("boot_id")) {
    recording.clock = {view.at("boot_id").text(), view.at("start_monotonic_s").number()};
    if (!(recording.clock->start_s >= 0 && recording.clock->start_s <= kMaxUptimeS)) {
      view.at("start_monotonic_s").fail("is not a time since a machine was started");
    }
  }
  return recording;
}

}  // namespace

bool Recording::is_set_aside(double begin_s, double end_s) const {
  const auto span = std::ranges::upper_bound(set_aside, begin_s, {}, &TimeSpan::end_s);
  return span != set_aside.end() && span->begin_s < end_s;
}

Recording read_recording(const RecordingText& text) {
  Recording recording = read_recording_json(text.recording_json, text.folder + "/recording.json");
  recording.source = text.folder;
  const auto whole = [&recording](std::string_view csv, const std::string& source) {
    return whole_lines(csv, source, recording.warnings);
  };
  const std::string units = text.folder + "/units.csv";
  const std::string energy = text.folder + "/energy.csv";
  const std::string iterations = text.folder + "/iterations.csv";
  recording.units = read_units(whole(text.units_csv, units), units);
  recording.samples = read_samples(whole(text.energy_csv, energy), energy);
  recording.iterations = read_iterations(whole(text.iterations_csv, iterations), iterations);
  return recording;
}

std::optional<int> rank_in_name(std::string_view name, std::string_view before, std::string_view after) {
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after)) {
    return std::nullopt;
  }
  const std::string_view digits = name.substr(before.size(), name.size() - before.size() - after.size());
  if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  const std::optional<long long> number = parse_integer(digits);
  if (!number || *number >= kMaxRanks) return std::nullopt;
  return static_cast<int>(*number);
}

}  // namespace lowgear::profile
