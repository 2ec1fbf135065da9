#include "server/perseus/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/probability.h"
#include "base/core/units.h"
#include "planning/profile/few_clock_fit.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::server::perseus {
namespace {

constexpr int kMaxWindowIterations = 1'000'000;
constexpr double kMaxPowerW = 1e5;
constexpr std::size_t kMaxSolutions = 100'000;
/// All plans of a folder together.
constexpr std::size_t kMaxSolutionClocks = std::size_t{1} << 26;

struct SchedulerKind {
  std::string_view name;
  std::optional<Mode> mode;  ///< none: either, as configured
  std::vector<std::string_view> arguments;
  std::vector<std::string_view> required;
};

const std::vector<SchedulerKind>& scheduler_kinds() {
  using enum Mode;
  static const std::vector<SchedulerKind> kinds = {
      {"AllMaxFrequency", frequency, {"num_iters"}, {}},
      {"AllMaxPowerLimit", power_limit, {"num_iters"}, {}},
      {"AllMaxPowerLimit3D", power_limit, {"num_iters"}, {}},
      {"InstructionProfiler", std::nullopt, {"warmup_step_ratio", "minimum_power_state", "blocking_power_w"}, {}},
      {"Lowgear",
       frequency,
       {"warmup_step_ratio", "minimum_power_state", "warmup_iters", "clocks", "slowdown_pct", "blocking_power_w"},
       {"blocking_power_w"}},
      {"PointSolution", std::nullopt, {"warmup_iters", "solution_path", "reverse"}, {"solution_path"}},
      {"PointSolution3D", std::nullopt, {"warmup_iters", "solution_path", "reverse"}, {"solution_path"}},
      {"TwoFrequencies", frequency, {"forward_freq", "backward_freq"}, {"forward_freq", "backward_freq"}},
      {"ZeusGlobalPowerLimit", power_limit, {"eta_knob", "warmup_step_ratio"}, {}},
      {"ZeusLocalPowerState", std::nullopt, {"eta_knob", "balanced_phase", "warmup_step_ratio"}, {}},
      {"ZeusLocalPowerState3D", std::nullopt, {"eta_knob", "balanced_phase", "warmup_step_ratio"}, {}},
  };
  return kinds;
}

const SchedulerKind& find_kind(std::string_view name) {
  const auto& kinds = scheduler_kinds();
  const auto found = std::ranges::find(kinds, name, &SchedulerKind::name);
  if (found != kinds.end()) return *found;
  throw InputError(
      fmt::format("no scheduler {}; schedulers are {}", quote(name), fmt::join(perseus_scheduler_names(), ", ")));
}

Mode read_mode(const SchedulerKind& kind, std::string_view text) {
  if (text == "unspecified" || text.empty()) {
    if (kind.mode) return *kind.mode;
    throw InputError(
        fmt::format("{} works with clocks or power limits; set the mode to frequency or power limit", kind.name));
  }
  for (const Mode mode : {Mode::frequency, Mode::power_limit}) {
    if (text != name(mode)) continue;
    if (kind.mode && *kind.mode != mode) {
      throw InputError(fmt::format("{} sets {} states; leave the mode out", kind.name, name(*kind.mode)));
    }
    return mode;
  }
  throw InputError(fmt::format("no mode {}; modes are frequency and power limit", quote(text)));
}

Instruction read_phase(const JsonView& view) {
  const std::string text = view.text();
  const auto phase = perseus_instruction_from_name(text);
  if (!phase || !is_computation(*phase)) view.fail("unknown phase " + quote(text), "forward or backward");
  return *phase;
}

std::vector<double> read_blocking_power(const JsonView& view) {
  if (view.json().is_number()) return {number_in(view, 0, kMaxPowerW)};
  std::vector<double> powers;
  for (std::size_t i = 0; i < view.size(); ++i) powers.push_back(number_in(view.at(i), 0, kMaxPowerW));
  if (powers.empty()) view.fail("no power", "give one number, or one for each stage");
  return powers;
}

Arguments read_arguments(const JsonView& view) {
  Arguments arguments;
  const auto whole = [&view](std::string_view member, int low, int high, int& into) {
    if (view.has(member)) into = view.at(member).integer_in(low, high);
  };
  const auto number = [&view](std::string_view member, double low, double high, double& into) {
    if (view.has(member)) into = number_in(view.at(member), low, high);
  };
  number("warmup_step_ratio", 0, 1, arguments.warmup_step_ratio);
  number("eta_knob", 0, 1, arguments.eta_knob);
  number("slowdown_pct", 0, 1000, arguments.slowdown_pct);
  whole("minimum_power_state", 0, kMaxClockMhz, arguments.minimum_power_state);
  whole("warmup_iters", 0, kMaxWindowIterations, arguments.warmup_iters);
  whole("num_iters", 1, kMaxWindowIterations, arguments.num_iters);
  whole("forward_freq", 1, kMaxClockMhz, arguments.forward_freq);
  whole("backward_freq", 1, kMaxClockMhz, arguments.backward_freq);
  whole("clocks", profile::kMinMeasuredClocks, 1000, arguments.clocks);
  if (view.has("balanced_phase")) arguments.balanced_phase = read_phase(view.at("balanced_phase"));
  if (view.has("blocking_power_w")) arguments.blocking_power_w = read_blocking_power(view.at("blocking_power_w"));
  return arguments;
}

void check_names(const SchedulerKind& kind, const JsonView& view) {
  if (!view.json().is_object()) view.fail("no object", "give the arguments by name, such as {\"num_iters\": 2}");
  for (const auto& [key, unused] : view.json().items()) {
    if (std::ranges::find(kind.arguments, key) != kind.arguments.end()) continue;
    view.at(key).fail(fmt::format("{} has no such argument", kind.name),
                      fmt::format("it takes {}", fmt::join(kind.arguments, ", ")));
  }
  for (const std::string_view required : kind.required) static_cast<void>(view.at(required));
}

/// The plan files of a path, in the order in which they run.
std::vector<std::filesystem::path> solution_files(const std::filesystem::path& path, bool reverse) {
  if (!std::filesystem::is_directory(path)) {
    if (path.extension() == ".py") return {path};
    throw InputError(fmt::format(
        "{}: no folder and no .py file; give the plan files that lowtime or lowgear plan wrote", quote(path.string())));
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() == ".py") files.push_back(entry.path());
    if (files.size() > kMaxSolutions) throw InputError(fmt::format("{}: too many plan files", quote(path.string())));
  }
  if (files.empty()) throw InputError(fmt::format("{}: no .py files in it", quote(path.string())));
  std::ranges::sort(files);
  if (reverse) std::ranges::reverse(files);
  return files;
}

std::shared_ptr<const std::vector<formats::PerseusPlan>> read_solutions(const JsonView& view) {
  const bool reverse = view.has("reverse") && view.at("reverse").boolean();
  std::vector<formats::PerseusPlan> plans;
  std::size_t clocks = 0;
  for (const std::filesystem::path& file : solution_files(view.at("solution_path").text(), reverse)) {
    plans.push_back(formats::read_perseus_plan(read_file(file, formats::kMaxPerseusPlanBytes), file.string()));
    for (const auto& stage : plans.back().stages) clocks += stage.size();
    if (clocks > kMaxSolutionClocks) throw InputError("the plan files hold too many clocks; give fewer of them");
  }
  return std::make_shared<const std::vector<formats::PerseusPlan>>(std::move(plans));
}

}  // namespace

std::string Settings::fingerprint() const {
  std::uint64_t hash = 0;
  const auto mix = [&hash](std::uint64_t value) { hash = random_bits(hash ^ value); };
  for (const std::string& text : {scheduler, scheduler_args.dump(), std::string(name(mode))}) {
    for (const char byte : text) mix(static_cast<unsigned char>(byte));
    mix(text.size());
  }
  if (!solutions) return fmt::format("{:016x}", hash);
  for (const formats::PerseusPlan& plan : *solutions) {
    for (const auto& stage : plan.stages) {
      mix(stage.size());
      for (const formats::PerseusPlan::Entry& entry : stage) mix(static_cast<std::uint64_t>(entry.clock_mhz));
    }
  }
  return fmt::format("{:016x}", hash);
}

std::vector<std::string_view> perseus_scheduler_names() {
  std::vector<std::string_view> names;
  for (const SchedulerKind& kind : scheduler_kinds()) names.push_back(kind.name);
  return names;
}

std::string_view default_perseus_mode(std::string_view scheduler) {
  return name(find_kind(scheduler).mode.value_or(Mode::frequency));
}

Settings read_perseus_settings(std::string_view scheduler, std::string_view args, std::string_view mode) {
  const SchedulerKind& kind = find_kind(scheduler);
  Settings settings;
  settings.scheduler = kind.name;
  settings.mode = read_mode(kind, mode);
  if (!args.empty()) settings.scheduler_args = parse_json(args, "scheduler arguments");
  const JsonView view(settings.scheduler_args, "scheduler arguments");
  check_names(kind, view);
  settings.arguments = read_arguments(view);
  if (view.has("solution_path")) settings.solutions = read_solutions(view);
  return settings;
}

std::string read_perseus_log_level(std::string_view text) {
  static constexpr auto kLevels =
      std::to_array<std::string_view>({kPerseusDebug, kPerseusLogLevel, "WARNING", "ERROR", "CRITICAL"});
  if (text.empty()) return std::string(kPerseusLogLevel);
  std::string level(text);
  for (char& letter : level) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  if (std::ranges::find(kLevels, level) != kLevels.end()) return level;
  throw InputError(fmt::format("no log level {}; levels are {}", quote(text), fmt::join(kLevels, ", ")));
}

Json perseus_server_info(const Settings& settings) {
  return {{"scheduler", settings.scheduler},         {"scheduler_args", settings.scheduler_args},
          {"log_level", settings.log_level},         {"mode", std::string(name(settings.mode))},
          {"dump_data", !settings.dump_dir.empty()}, {"dump_dir", settings.dump_dir}};
}

}  // namespace lowgear::server::perseus
