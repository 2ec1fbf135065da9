#include "app/cli/arguments/profile_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <system_error>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/numbers/quantity.h"
#include "base/core/units.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "planning/profile/recorded_activations.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/torch_csv.h"

namespace lowgear::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kScheduleFile = "schedule.csv";  ///< of an attached job, next to its ranks' folders

/// Entries of a folder whose names hold a number, that of a rank as a rule, by that number.
std::map<int, fs::path> entries_by_number(const fs::path& folder, std::string_view before, std::string_view after) {
  std::map<int, fs::path> found;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  if (error)
    throw_input_error({folder.string(), 0, 0}, fmt::format("cannot be read: {}", error.message()),
                      "name a folder of recordings");
  for (; entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const std::optional<int> rank = profile::rank_in_name(name, before, after);
    if (!rank) continue;
    if (!found.emplace(*rank, entry->path()).second) {
      throw_input_error({entry->path().string(), 0, 0}, fmt::format("number {} occurs twice", *rank));
    }
  }
  return found;
}

profile::Recording load_recording(const fs::path& folder, int part) {
  const std::string json = read_file(folder / "recording.json");
  const std::string units = read_file(folder / "units.csv", kMaxFileBytes);
  const std::string energy = read_file(folder / "energy.csv", kMaxFileBytes);
  const fs::path iterations_csv = folder / "iterations.csv";
  const std::string iterations = fs::exists(iterations_csv) ? read_file(iterations_csv, kMaxFileBytes) : "";
  profile::Recording recording = profile::read_recording({folder.string(), json, units, energy, iterations});
  recording.part = part;
  if (const auto limit = estimator::power_limit_of(recording.gpu_name)) recording.power_limit_w = limit->limit_w;
  const fs::path activations = folder / profile::kActivationsFile;
  if (fs::exists(activations)) {
    recording.activations = profile::read_recorded_activations(read_file(activations), activations.string());
  }
  return recording;
}

void load_ranks(const fs::path& folder, int part, std::vector<profile::Recording>& recordings) {
  for (const auto& [rank, of_rank] : entries_by_number(folder, "rank-", "")) {
    recordings.push_back(load_recording(of_rank, part));
  }
}

void refuse_invalid(const std::vector<profile::Recording>& recordings) {
  const auto marked = std::ranges::find_if(recordings, [](const auto& each) { return !each.invalid.empty(); });
  if (marked == recordings.end()) return;
  throw_input_error({marked->source, 0, 0},
                    fmt::format("the recording is marked invalid: {}; its times and energies mean nothing",
                                printable(marked->invalid)),
                    "record again; only lowgear profile takes it all the same, with --accept-invalid");
}

int clock_of(const std::string& text, const std::string& whole) {
  const std::optional<double> clock_mhz = parse_quantity(text, Unit::megahertz);
  if (!clock_mhz || !(*clock_mhz >= 1) || *clock_mhz > kMaxClockMhz || std::rint(*clock_mhz) != *clock_mhz) {
    throw InputError(fmt::format("clocks {}: {} is not a clock from 1 to {} MHz; give 1410,1395,... or 1410-855/15",
                                 quote(whole), quote(text), kMaxClockMhz));
  }
  return static_cast<int>(*clock_mhz);
}

std::vector<int> clocks_of_range(const std::string& text, std::size_t dash, std::size_t slash) {
  const int first_mhz = clock_of(text.substr(0, dash), text);
  const int last_mhz = clock_of(text.substr(dash + 1, slash - dash - 1), text);
  const int step_mhz = clock_of(text.substr(slash + 1), text);
  std::vector<int> clocks_mhz;
  const int sign = last_mhz < first_mhz ? -1 : 1;
  for (int i = 0; i * step_mhz <= std::abs(last_mhz - first_mhz); ++i) {
    clocks_mhz.push_back(first_mhz + sign * i * step_mhz);
  }
  return clocks_mhz;
}

}  // namespace

bool is_recording(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "recording.json", error)) return true;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("rank-") || name.starts_with("part-")) return true;
  }
  return false;
}

std::vector<profile::Recording> load_recordings(const std::vector<std::string>& paths, MarkedInvalid marked) {
  std::vector<profile::Recording> recordings;
  for (const std::string& path : paths) {
    if (fs::exists(fs::path(path) / "recording.json")) {
      recordings.push_back(load_recording(path, 0));
      continue;
    }
    const std::size_t before = recordings.size();
    load_ranks(path, 0, recordings);
    for (const auto& [part, folder] : entries_by_number(path, "part-", "")) load_ranks(folder, part, recordings);
    if (recordings.size() == before) {
      throw_input_error({path, 0, 0}, "holds no recording",
                        "name a folder with recording.json, or one with folders rank-00000, rank-00001, ...");
    }
  }
  if (marked == MarkedInvalid::refused) refuse_invalid(recordings);
  return recordings;
}

std::optional<RecordedSchedule> recorded_schedule(const std::vector<std::string>& paths) {
  std::optional<RecordedSchedule> recorded;
  for (const std::string& text : paths) {
    const fs::path path(text);
    const bool is_rank = fs::exists(path / "recording.json");
    const fs::path file = (is_rank ? fs::absolute(path).lexically_normal().parent_path() : path) / kScheduleFile;
    if (!fs::exists(file)) continue;
    const schedule::Schedule schedule = schedule::read_torch_csv(read_file(file), file.string());
    const RecordedSchedule found{schedule.stages, schedule.microbatches, file.string()};
    if (recorded && (recorded->stages != found.stages || recorded->microbatches != found.microbatches)) {
      throw_input_error({file.string(), 0, 0},
                        fmt::format("has {} stages and {} microbatches, and that of another recording {} and {}",
                                    found.stages, found.microbatches, recorded->stages, recorded->microbatches),
                        "give the recordings of one job");
    }
    recorded = found;
  }
  return recorded;
}

std::optional<steps::Lengths> recorded_lengths(const std::vector<std::string>& paths) {
  std::optional<steps::Lengths> lengths;
  for (const std::string& path : paths) {
    const fs::path file = fs::path(path) / steps::kLengthsFile;
    if (!fs::exists(file)) continue;
    if (lengths) {
      throw_input_error({file.string(), 0, 0}, "another recording has lengths, too", "give one job's recordings");
    }
    lengths = steps::read_lengths(read_file(file, kMaxFileBytes), file.string());
  }
  return lengths;
}

std::vector<profile::Recording> load_merak(const fs::path& folder, const formats::MerakRun& run) {
  const std::map<int, fs::path> instructions = entries_by_number(folder, "instructions-", ".csv");
  const std::map<int, fs::path> energies = entries_by_number(folder, "time-energy-", ".csv");
  if (instructions.empty()) {
    throw_input_error({folder.string(), 0, 0}, "holds no instructions-0.csv, instructions-1.csv, ...",
                      "name the folder that Merak's profiling run wrote");
  }
  std::vector<profile::Recording> recordings;
  for (const auto& [rank, path] : instructions) {
    const auto energy = energies.find(rank);
    if (energy == energies.end()) {
      throw_input_error({path.string(), 0, 0}, fmt::format("there is no time-energy-{}.csv next to it", rank));
    }
    const std::string instructions_csv = read_file(path, kMaxFileBytes);
    const std::string energy_csv = read_file(energy->second, kMaxFileBytes);
    recordings.push_back(read_merak({rank, path.string(), energy->second.string(), instructions_csv, energy_csv}, run));
  }
  return recordings;
}

std::vector<int> parse_clocks(const std::string& text) {
  std::vector<int> clocks_mhz;
  const std::size_t slash = text.find('/');
  const std::size_t dash = text.find('-', 1);
  if (slash != std::string::npos && dash < slash) {
    clocks_mhz = clocks_of_range(text, dash, slash);
  } else {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      clocks_mhz.push_back(clock_of(text.substr(begin, end - begin), text));
      begin = end + 1;
    }
  }
  if (std::set<int>(clocks_mhz.begin(), clocks_mhz.end()).size() != clocks_mhz.size()) {
    throw InputError(fmt::format("clocks {}: a clock is named twice", quote(text)));
  }
  return clocks_mhz;
}

void refuse_to_overwrite(const fs::path& output, const std::vector<std::string>& inputs) {
  const fs::path target = fs::weakly_canonical(output);
  for (const std::string& input : inputs) {
    const fs::path source = fs::weakly_canonical(input);
    const auto [in_source, in_target] = std::ranges::mismatch(source, target);
    if (in_source != source.end()) continue;
    throw_input_error({output.string(), 0, 0}, fmt::format("is, or is inside, the input {}", quote(input)),
                      "write somewhere else");
  }
}

}  // namespace lowgear::cli
