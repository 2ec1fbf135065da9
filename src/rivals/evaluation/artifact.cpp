#include "rivals/evaluation/artifact.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/number.h"
#include "planning/profile/profile_file.h"

namespace lowgear::evaluation {

namespace {

constexpr std::string_view kProfileEnd = ".prof.json";

void require_ranks(const JsonView& ranks) {
  if (ranks.size() == 0) ranks.fail("no rank has reported");
  std::set<long long> seen;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const JsonView rank = ranks.at(i).at("rank");
    if (!seen.insert(rank.integer()).second) rank.fail(fmt::format("rank {} occurs twice", rank.integer()));
  }
}

/// The mean over iterations of what `combine` makes of all ranks.
template <typename Combine>
double mean_of_iterations(const JsonView& ranks, std::string_view member, const Combine& combine) {
  const std::size_t iterations = ranks.at(std::size_t{0}).at(member).size();
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const JsonView values = ranks.at(rank).at(member);
    if (values.size() == iterations) continue;
    values.fail(fmt::format("{} iterations, where the first rank has {}", values.size(), iterations));
  }
  if (iterations <= kWarmUpIterations) {
    ranks.at(std::size_t{0})
        .at(member)
        .fail(fmt::format("{} iterations, of which the first {} are warm-up", iterations, kWarmUpIterations),
              "measure more iterations in a window");
  }
  double sum = 0;
  for (std::size_t iteration = kWarmUpIterations; iteration < iterations; ++iteration) {
    double value = 0;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const JsonView measured = ranks.at(rank).at(member).at(iteration);
      if (measured.number() < 0) measured.fail(fmt::format("{} is negative", measured.number()));
      value = combine(value, measured.number());
    }
    sum += value;
  }
  return sum / static_cast<double>(iterations - kWarmUpIterations);
}

/// Of windows 0 and 1, as far as they are there.
void set_baseline(Dump& dump) {
  PipelineFigures sum;
  std::vector<const Window*> parts;
  for (const Window& window : dump.windows) {
    if (window.number >= kWarmUpWindows) continue;
    sum.time_s += window.figures.time_s;
    sum.energy_j += window.figures.energy_j;
    parts.push_back(&window);
  }
  if (parts.empty()) {
    dump.note = "windows 0 and 1, the baseline of the others, are missing";
    return;
  }
  const auto count = static_cast<double>(parts.size());
  dump.baseline = {sum.time_s / count, sum.energy_j / count};
  if (parts.size() < kWarmUpWindows) {
    dump.note = fmt::format("window {} is missing: the baseline is window {} alone", 1 - parts.front()->number,
                            parts.front()->number);
    return;
  }
  int highest = 0;
  for (const Window& window : dump.windows) {
    if (window.states) highest = std::max(highest, window.states->second);
  }
  const bool lower = std::ranges::any_of(
      parts, [highest](const Window* window) { return window->states && window->states->first < highest; });
  if (lower) {
    dump.note = fmt::format(
        "windows 0 and 1 did not run at {} alone, the highest power state of the job: they are not "
        "a baseline at full clocks (warmup_iters of the scheduler)",
        highest);
  }
}

}  // namespace

std::optional<int> profile_number(std::string_view file_name) {
  constexpr std::size_t kMostDigits = 6;
  if (!file_name.ends_with(kProfileEnd)) return std::nullopt;
  file_name.remove_suffix(kProfileEnd.size());
  if (file_name.empty() || file_name.size() > kMostDigits) return std::nullopt;
  int number = 0;
  for (const char digit : file_name) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = 10 * number + (digit - '0');
  }
  return number;
}

PipelineFigures window_figures(std::string_view profile_json, const std::string& source) {
  const Json document = parse_json(profile_json, source);
  const JsonView ranks(document, source);
  require_ranks(ranks);
  return {mean_of_iterations(ranks, "iter_time", [](double a, double b) { return std::max(a, b); }),
          mean_of_iterations(ranks, "iter_energy", [](double a, double b) { return a + b; })};
}

std::pair<int, int> window_states(std::string_view states_json, const std::string& source) {
  const Json document = parse_json(states_json, source);
  const JsonView ranks(document, source);
  require_ranks(ranks);
  std::optional<std::pair<int, int>> range;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const JsonView states = ranks.at(rank).at("power_states");
    for (std::size_t i = 0; i < states.size(); ++i) {
      constexpr long long kHighest = 100'000;
      const long long value = states.at(i).integer();
      if (value < 1 || value > kHighest) states.at(i).fail(fmt::format("{} is not a power state", value));
      const int state = static_cast<int>(value);
      if (!range) range = {state, state};
      range = {std::min(range->first, state), std::max(range->second, state)};
    }
  }
  if (!range) ranks.fail("no rank has a power state");
  return *range;
}

Dump compare_windows(std::string folder, std::vector<Window> windows) {
  Dump dump{.folder = std::move(folder), .windows = std::move(windows), .baseline = std::nullopt};
  std::ranges::sort(dump.windows, {}, &Window::number);
  set_baseline(dump);
  if (!dump.baseline || dump.baseline->time_s <= 0 || dump.baseline->energy_j <= 0) return dump;
  for (Window& window : dump.windows) {
    if (window.number < kWarmUpWindows) continue;
    window.saving_pct = simulator::saving_pct(dump.baseline->energy_j, window.figures.energy_j);
    window.slowdown_pct = -simulator::saving_pct(dump.baseline->time_s, window.figures.time_s);
  }
  return dump;
}

namespace {

/// Published energies of EnvPipe's emulation are real ones of eight GPUs a rank; times are real ones.
constexpr double kTimeScale = 10;
constexpr double kEnergyScale = 80;

constexpr std::string_view kTableEnd = ".csv";

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool has_part(std::span<const std::string_view> parts, std::string_view part) {
  return std::ranges::find(parts, part) != parts.end();
}

/// The GPU of measured workloads: a folder of its name, or a word in the name of the run's folder.
std::optional<std::string> gpu_of(std::span<const std::string_view> folders) {
  for (const std::string_view folder : folders | std::views::reverse) {
    for (const std::string_view word : split(folder, '_')) {
      if (word == "A100" || word == "A40") return std::string(word);
    }
  }
  return std::nullopt;
}

/// `merak+MODEL+...` with or without a date before it, or `MODEL_GPU_...`.
std::string model_of_run(std::string_view folder) {
  const std::vector<std::string_view> fields = split(folder, '+');
  const auto framework = std::ranges::find(fields, "merak");
  if (framework != fields.end() && framework + 1 != fields.end()) return std::string(framework[1]);
  for (const std::string_view mark : {"_A100", "_A40"}) {
    if (const std::size_t end = folder.find(mark); end != std::string_view::npos) {
      return std::string(folder.substr(0, end));
    }
  }
  return std::string(folder);
}

/// Kind and parameters of a file, from its path.
struct ArtifactPath {
  enum class Kind : unsigned char { none, profile, frontier, envpipe_table, zeus_global, zeus_local, run };
  Kind kind = Kind::none;
  std::string model = {};
  std::string device = {};  ///< of the emulation, or kind of GPU
  int number = 0;           ///< microbatches, or number of the plan
  Method method = Method::perseus;
};

std::optional<int> whole_number(std::string_view text) {
  if (text.empty() || text.size() > 6 || !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  int number = 0;
  for (const char digit : text) number = 10 * number + (digit - '0');
  return number;
}

ArtifactPath run_path(std::span<const std::string_view> folders, std::string_view file) {
  const auto number = profile_number(file);
  if (!number || folders.empty() || has_part(folders, "zeus_local") || has_part(folders, "zeus_global")) return {};
  const auto gpu = gpu_of(folders);
  if (!gpu) return {};
  return {.kind = ArtifactPath::Kind::run,
          .model = model_of_run(folders.back()),
          .device = *gpu,
          .number = *number,
          .method = has_part(folders, "envpipe") ? Method::envpipe : Method::perseus};
}

ArtifactPath table_path(std::span<const std::string_view> folders, std::string_view stem) {
  using Kind = ArtifactPath::Kind;
  if (stem == "envpipe_result") return {.kind = Kind::envpipe_table};
  if (stem == "zeus_global" || stem == "zeus_local") {
    const auto gpu = gpu_of(folders);
    if (!gpu) return {};
    return {.kind = stem == "zeus_global" ? Kind::zeus_global : Kind::zeus_local, .device = *gpu};
  }
  const std::size_t precision = stem.rfind("_bf16");
  if (precision == std::string_view::npos) return {};
  const std::string_view before = stem.substr(0, precision);
  const std::string_view after = stem.substr(precision + std::string_view("_bf16").size());
  if (const std::size_t plus = before.find('+'); plus != std::string_view::npos && after.empty()) {
    return {.kind = Kind::profile,
            .model = std::string(before.substr(0, plus)),
            .device = std::string(before.substr(plus + 1))};
  }
  if (!after.starts_with("_mb") || folders.empty()) return {};
  const auto microbatches = whole_number(after.substr(std::string_view("_mb").size()));
  if (!microbatches) return {};
  return {.kind = Kind::frontier,
          .model = std::string(before),
          .device = std::string(folders.back()),
          .number = *microbatches};
}

ArtifactPath parse_path(std::string_view path) {
  std::vector<std::string_view> parts = split(path, '/');
  const std::string_view file = parts.back();
  parts.pop_back();
  if (profile_number(file)) return run_path(parts, file);
  if (file.ends_with(kTableEnd)) return table_path(parts, file.substr(0, file.size() - kTableEnd.size()));
  return {};
}

std::vector<PipelineFigures> read_frontier(std::string_view text, const std::string& source) {
  const CsvTable table(text, source);
  const std::size_t time = table.column("time");
  const std::size_t energy = table.column("energy");
  std::vector<PipelineFigures> rows;
  rows.reserve(table.rows());
  for (std::size_t row = 0; row < table.rows(); ++row) {
    rows.push_back({table.number(row, time), table.number(row, energy)});
  }
  if (rows.empty()) throw InputError(fmt::format("{}: the frontier has no rows", source));
  return rows;
}

void add_envpipe_table(Artifact& artifact, std::string_view text, const std::string& source) {
  const CsvTable table(text, source);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const EmulatedRun run{{table.text(row, table.column("model")), table.text(row, table.column("device"))},
                          static_cast<int>(table.integer(row, table.column("num_microbatches")))};
    artifact.envpipe[run] = {table.number(row, table.column("iteration_time")) / kTimeScale,
                             table.number(row, table.column("energy")) / kEnergyScale};
  }
}

void add_zeus_table(Artifact& artifact, const ArtifactPath& path, std::string_view text, const std::string& source) {
  const CsvTable table(text, source);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    ZeusRows& workload = artifact.zeus[{path.device, table.text(row, table.column("model_name"))}];
    workload.gpus = 1;
    for (const std::string_view degree : {"dp", "tp", "pp"}) {
      workload.gpus *= static_cast<int>(table.integer(row, table.column(degree)));
    }
    auto& rows = path.kind == ArtifactPath::Kind::zeus_global ? workload.global : workload.per_stage;
    rows.push_back({table.number(row, table.column("time")), table.number(row, table.column("energy"))});
  }
}

template <typename Map>
void add_once(Map& map, typename Map::key_type key, typename Map::mapped_type value, const std::string& source) {
  if (!map.emplace(std::move(key), std::move(value)).second) {
    throw InputError(fmt::format("{}: there is another file for the same pipeline; give one of them", source));
  }
}

void add_plan(Artifact& artifact, const ArtifactPath& path, std::string_view text, const std::string& source) {
  if (path.number < kWarmUpWindows) return;
  std::vector<MeasuredPlan>& plans = artifact.runs[{{path.device, path.model}, path.method}];
  const auto place = std::ranges::lower_bound(plans, path.number, {}, &MeasuredPlan::number);
  if (place != plans.end() && place->number == path.number) {
    throw InputError(
        fmt::format("{}: there is another plan {} for the same workload; give one of them", source, path.number));
  }
  plans.insert(place, {path.number, window_figures(text, source)});
}

void add_profile(Artifact& artifact, const ArtifactPath& parsed, std::string_view text, const std::string& path) {
  profile::ProfileFile file = profile::read_profile_file(text, path);
  std::ranges::move(profile_doubts(file, {}), std::back_inserter(artifact.doubts));
  add_once(artifact.profiles, {parsed.model, parsed.device}, std::move(file.profile), path);
}

}  // namespace

std::string_view name(Method method) { return method == Method::perseus ? "Perseus" : "EnvPipe"; }

bool is_artifact_file(std::string_view path) { return parse_path(path).kind != ArtifactPath::Kind::none; }

bool is_artifact_table(std::string_view path) {
  return is_artifact_file(path) && parse_path(path).kind != ArtifactPath::Kind::run;
}

void add_file(Artifact& artifact, const std::string& path, std::string_view text) {
  const ArtifactPath parsed = parse_path(path);
  switch (parsed.kind) {
    case ArtifactPath::Kind::none:
      throw InputError(fmt::format("{}: is not a file of an artifact", path));
    case ArtifactPath::Kind::profile:
      add_profile(artifact, parsed, text, path);
      break;
    case ArtifactPath::Kind::frontier:
      add_once(artifact.frontiers, {{parsed.model, parsed.device}, parsed.number}, read_frontier(text, path), path);
      break;
    case ArtifactPath::Kind::envpipe_table:
      add_envpipe_table(artifact, text, path);
      break;
    case ArtifactPath::Kind::zeus_global:
    case ArtifactPath::Kind::zeus_local:
      add_zeus_table(artifact, parsed, text, path);
      break;
    case ArtifactPath::Kind::run:
      add_plan(artifact, parsed, text, path);
      break;
  }
  ++artifact.files;
}

}  // namespace lowgear::evaluation
