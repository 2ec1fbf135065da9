#include "rivals/formats/merak_recording.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/op_kind.h"
#include "planning/profile/recorded_rows.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::formats {

using profile::CellReader;
using profile::EnergySample;
using profile::RecordedUnit;
using profile::Recording;

namespace {

std::optional<OpKind> merak_kind(std::string_view instruction) {
  if (instruction == "forward_microstep") return OpKind::forward;
  if (instruction == "backward_microstep") return OpKind::backward;
  return std::nullopt;
}

std::vector<RecordedUnit> read_merak_units(std::string_view text, const std::string& source, OpKind kind) {
  const CsvTable table(text, source);
  const CellReader cells(table);
  const std::size_t instruction = table.column("instruction");
  const std::size_t start = table.column("start");
  const std::size_t end = table.column("end");
  std::vector<RecordedUnit> units;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string& name = table.text(row, instruction);
    const std::optional<OpKind> found = merak_kind(name);
    if (!found && !profile::is_other_instruction(name)) {
      cells.fail(row, instruction, fmt::format("unknown instruction {}", quote(name)),
                 "Merak writes batch_input, forward_microstep and backward_microstep");
    }
    if (found != kind) continue;
    RecordedUnit unit;
    unit.kind = kind;
    unit.start_s = cells.number(row, start, 0, profile::kMaxUnixS);
    unit.end_s = cells.number(row, end, 0, profile::kMaxUnixS);
    if (unit.end_s < unit.start_s) cells.fail(row, end, fmt::format("it ends before it starts, at {}", unit.start_s));
    units.push_back(unit);
  }
  sort_by_time(units);
  return units;
}

/// What would fit so many units of a kind instead of what was named.
std::string what_fits(std::size_t units, const MerakRun& run) {
  const std::size_t windows = run.clocks_mhz.size() + kMerakWarmUpWindows;
  const std::size_t window_units = units / windows;
  const auto microbatches = static_cast<std::size_t>(run.microbatches);
  const auto iterations = static_cast<std::size_t>(run.iterations);
  std::vector<std::string> fits;
  if (units % windows == 0 && window_units % microbatches == 0) {
    fits.push_back(fmt::format("{} iterations", window_units / microbatches));
  }
  if (units % windows == 0 && window_units % iterations == 0) {
    fits.push_back(fmt::format("{} microbatches", window_units / iterations));
  }
  if (units % (microbatches * iterations) == 0 && units / (microbatches * iterations) > kMerakWarmUpWindows) {
    fits.push_back(fmt::format("{} clocks", units / (microbatches * iterations) - kMerakWarmUpWindows));
  }
  if (fits.empty()) return "no similar numbers fit: the run was cut short, or several of these numbers differ";
  return fmt::format("{} would fit", fmt::join(fits, ", or "));
}

/// Iterations, microbatches and clocks of the units of one kind, in the order of time.
void label_merak_units(std::vector<RecordedUnit>& units, const std::string& source, const MerakRun& run) {
  const auto window_units = static_cast<std::size_t>(run.microbatches) * static_cast<std::size_t>(run.iterations);
  const std::size_t windows = run.clocks_mhz.size() + kMerakWarmUpWindows;
  if (units.size() != windows * window_units) {
    throw_input_error(
        {source, 0, 0},
        fmt::format("holds {} {}s, but {} clocks and {} warm-up windows of {} iterations x {} microbatches have {}",
                    units.size(), name(units.front().kind), run.clocks_mhz.size(), kMerakWarmUpWindows, run.iterations,
                    run.microbatches, windows * window_units),
        what_fits(units.size(), run));
  }
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::size_t window = i / window_units;
    const bool warm_up = window < kMerakWarmUpWindows;
    units[i].clock_mhz = warm_up ? *std::ranges::max_element(run.clocks_mhz)
                                 : run.clocks_mhz[window - static_cast<std::size_t>(kMerakWarmUpWindows)];
    units[i].microbatch = static_cast<int>(i % static_cast<std::size_t>(run.microbatches));
    units[i].iteration =
        static_cast<int>(i / static_cast<std::size_t>(run.microbatches)) - kMerakWarmUpWindows * run.iterations;
  }
}

void check_merak_run(const MerakRun& run) {
  if (run.stages < 1 || run.stages > profile::kMaxStages || run.microbatches < 1 || run.iterations < 1 ||
      run.clocks_mhz.empty() ||
      static_cast<long long>(run.microbatches) * run.iterations > static_cast<long long>(kMaxCsvCells)) {
    throw InputError("a Merak run needs its numbers of stages, microbatches and iterations, and its clocks");
  }
}

std::vector<EnergySample> read_merak_samples(std::string_view text, const std::string& source) {
  const CsvTable table(text, source);
  const CellReader cells(table);
  const std::size_t time = table.column("time");
  const std::size_t energy = table.column("energy");
  std::vector<EnergySample> samples;
  EnergySample before = profile::no_sample();
  for (std::size_t row = 0; row < table.rows(); ++row) {
    EnergySample sample;
    sample.time_s = cells.number(row, time, 0, profile::kMaxUnixS);
    sample.energy_j = cells.number(row, energy, 0, profile::kMaxCounterJ);
    check_order(table, row, time, energy, before, sample);
    samples.push_back(sample);
    before = sample;
  }
  return samples;
}

}  // namespace

Recording read_merak(const MerakText& text, const MerakRun& run) {
  check_merak_run(run);
  if (text.rank < 0 || text.rank >= profile::kMaxRanks) {
    throw InputError(fmt::format("rank {} is not in 0 to {}", text.rank, profile::kMaxRanks - 1));
  }
  Recording recording;
  recording.source = text.instructions_name;
  recording.rank = text.rank;
  recording.world_size = text.rank + 1;
  recording.sampling = profile::CounterSampling::on_change;
  for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
    std::vector<RecordedUnit> units = read_merak_units(text.instructions_csv, text.instructions_name, kind);
    if (units.empty()) continue;
    label_merak_units(units, text.instructions_name, run);
    for (RecordedUnit& unit : units) unit.stage = text.rank % run.stages;
    recording.units.insert(recording.units.end(), units.begin(), units.end());
  }
  recording.samples = read_merak_samples(text.energy_csv, text.energy_name);
  // Seconds since the start, where a double has digits to spare.
  double begin_s = recording.samples.empty() ? 0 : recording.samples.front().time_s;
  for (const RecordedUnit& unit : recording.units) begin_s = std::min(begin_s, unit.start_s);
  for (RecordedUnit& unit : recording.units) {
    unit.start_s -= begin_s;
    unit.end_s -= begin_s;
  }
  for (EnergySample& sample : recording.samples) sample.time_s -= begin_s;
  sort_by_time(recording.units);
  return recording;
}

}  // namespace lowgear::formats
