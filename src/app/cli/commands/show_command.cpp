#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/arguments/profile_input.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/plan/plan_folder.h"
#include "app/cli/terminal/table.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/memory_files.h"
#include "base/core/numbers/figure_text.h"
#include "planning/profile/example_profile.h"
#include "planning/profile/summary.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/torch_csv.h"

namespace lowgear::cli {
namespace {

struct ShowArguments {
  std::string profile;  ///< file to show, or a schedule's profile
  ScheduleArguments schedule;
  std::string blocking_power;
  std::string gpu_name;
  std::string out;  ///< file to write the schedule to
  bool json = false;
};

/// Of a schedule: what is shown is one where any of them is given.
constexpr auto kScheduleOptions = std::to_array<const char*>(
    {"--schedule", "--stages", "--microbatches", "--virtual-stages", "--extra-activations", "--p2p", "--out"});

/// `1005 990 975 and 3 more`
std::string clocks_text(const std::vector<int>& clocks_mhz, std::size_t count) {
  constexpr std::size_t kShown = 4;
  if (count == 0) return "none";
  const std::size_t shown = std::min({kShown, clocks_mhz.size(), count});
  std::string text;
  for (const int clock_mhz : std::span(clocks_mhz).first(shown)) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", clock_mhz);
  }
  if (count > shown) text += fmt::format(" and {} more", count - shown);
  return text;
}

std::string summary_table(const std::vector<profile::OpProfileSummary>& rows) {
  Table table({{"stage"},
               {"instruction", Table::Align::left},
               {"clocks"},
               {"MHz"},
               {"step"},
               {"options"},
               {"hull"},
               {"fastest s"},
               {"slowest option s"},
               {"missing MHz", Table::Align::left},
               {"not faster MHz", Table::Align::left}});
  for (const profile::OpProfileSummary& row : rows) {
    table.add_row({fmt::to_string(row.stage), std::string(name(row.kind)), fmt::to_string(row.count),
                   fmt::format("{}-{}", row.min_clock_mhz, row.max_clock_mhz),
                   row.clock_step_mhz == 0 ? "-" : fmt::to_string(row.clock_step_mhz), fmt::to_string(row.pareto_count),
                   fmt::to_string(row.hull_count), fmt::format("{:.6g}", row.fastest_time_s),
                   fmt::format("{:.6g}", row.slowest_time_s),
                   clocks_text(row.missing_clocks_mhz, static_cast<std::size_t>(row.missing_count)),
                   clocks_text(row.not_faster_clocks_mhz, row.not_faster_clocks_mhz.size())});
  }
  const auto is_not_faster = [](const auto& row) { return !row.not_faster_clocks_mhz.empty(); };
  return table.text() + (std::ranges::any_of(rows, is_not_faster)
                             ? "not faster: than the next lower clock, at a power limit or by noise\n"
                             : "");
}

Json summary_json(const profile::OpProfileSummary& row) {
  return {{"stage", row.stage},
          {"instruction", name(row.kind)},
          {"count", row.count},
          {"min_clock_mhz", row.min_clock_mhz},
          {"max_clock_mhz", row.max_clock_mhz},
          {"clock_step_mhz", row.clock_step_mhz},
          {"missing_count", row.missing_count},
          {"missing_clocks_mhz", row.missing_clocks_mhz},
          {"not_faster_clocks_mhz", row.not_faster_clocks_mhz},
          {"pareto_count", row.pareto_count},
          {"hull_count", row.hull_count},
          {"fastest_time_s", row.fastest_time_s},
          {"slowest_time_s", row.slowest_time_s}};
}

ExitCode show_profile(const ShowArguments& arguments, Console& console) {
  const profile::ProfileFile file = load_profile(arguments.profile);
  const profile::StageProfile& profile = file.profile;
  PipelineArguments pipeline;
  pipeline.blocking_power = arguments.blocking_power;
  pipeline.gpu_name = arguments.gpu_name;
  const BlockingPower blocking = blocking_power_of(pipeline, file, profile.stages());
  const std::vector<double>& power_w = blocking.by_rank_w;
  const std::vector<profile::OpProfileSummary> rows = summarise(profile, power_w);
  const std::vector<std::string> doubts = doubts_of(file, blocking, arguments.gpu_name);
  for (const std::string& doubt : doubts) console.warn(doubt);
  const bool modelled = is_example_profile(profile);
  if (arguments.json) {
    Json operations = Json::array();
    for (const profile::OpProfileSummary& row : rows) operations.push_back(summary_json(row));
    console.print_json({{"profile", arguments.profile},
                        {"stages", profile.stages()},
                        {"modelled", modelled},
                        {"blocking_power_w", power_w},
                        {"operations", operations},
                        {"warnings", doubts}});
    return ExitCode::ok;
  }
  if (modelled) console.note(profile::kExampleProfileNotice);
  console.print(summary_table(rows) + simulated_text(file.simulated) +
                fmt::format("Next: lowgear plan {} --microbatches M\n", shell_word(arguments.profile)));
  return ExitCode::ok;
}

/// Throws InputError where a named schedule lacks what it needs, naming all of it.
void require_given(const ScheduleArguments& named, bool has_profile) {
  if (!is_schedule_name(named.schedule)) return;
  const bool needs_profile = named.schedule == "envpipe" && !has_profile;
  std::vector<std::string_view> missing;
  if (needs_profile) missing.emplace_back("--profile");
  // Without --stages, those of the profile or the message on chunks.
  if (!named.stages && !has_profile && !needs_profile) missing.emplace_back("--stages");
  if (!named.microbatches) missing.emplace_back("--microbatches");
  if (missing.empty()) return;
  throw InputError(fmt::format("missing: {}; for example: lowgear show {}{} --microbatches {}",
                               fmt::join(missing, " and "), named.schedule,
                               needs_profile ? " --profile profile.csv"
                               : has_profile ? ""
                                             : fmt::format(" --stages {}", named.stages.value_or(4)),
                               named.microbatches.value_or(8)));
}

/// With messages, and proven not to hang.
schedule::Schedule runnable_schedule(const ShowArguments& arguments, Console& console) {
  require_given(arguments.schedule, !arguments.profile.empty());
  std::optional<profile::StageProfile> profile;
  std::vector<double> power_w;
  if (!arguments.profile.empty()) {
    const profile::ProfileFile file = load_profile(arguments.profile);
    profile = file.profile;
    if (!arguments.blocking_power.empty()) {
      power_w = blocking_power_from_argument(arguments.blocking_power, profile->stages());
    }
    for (const std::string& doubt : doubts_of(file, {.by_rank_w = power_w}, arguments.gpu_name)) console.warn(doubt);
  }
  ScheduleArguments named = arguments.schedule;
  if (profile && !named.stages && named.chunks.value_or(1) == 1 && is_schedule_name(named.schedule)) {
    named.stages = profile->stages();
  }
  schedule::Schedule schedule = with_communication(load_schedule(named, profile ? &*profile : nullptr, power_w));
  if (const auto note = frozen_stages_note(named, schedule)) console.warn(*note);
  (void)build_dag(schedule);  // refuses an order that contradicts the data
  require_runnable(schedule, arguments.schedule.grouping);
  return schedule;
}

std::string verdict(const schedule::Schedule& schedule, schedule::P2pGrouping grouping) {
  if (!has_communication(schedule)) return "cannot deadlock: nothing is sent between ranks";
  return fmt::format("cannot deadlock: every send meets its receive, with sends and receives issued {} and no tags",
                     grouping == schedule::P2pGrouping::none ? "one at a time" : "together with their neighbours");
}

std::string peaks_table(const std::vector<schedule::HeldPeaks>& peaks, bool with_inputs) {
  std::vector<Table::Column> columns{{"rank"}, {"peak in-flight activations"}};
  if (with_inputs) columns.push_back({"peak inputs to recompute from"});
  Table table(std::move(columns));
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    std::vector<std::string> row{fmt::to_string(rank), fmt::to_string(peaks[rank].activations)};
    if (with_inputs) row.push_back(fmt::to_string(peaks[rank].inputs));
    table.add_row(row);
  }
  return table.text();
}

ExitCode show_schedule(const ShowArguments& arguments, Console& console) {
  const schedule::Schedule schedule = runnable_schedule(arguments, console);
  const std::vector<schedule::HeldPeaks> peaks = held_peaks(schedule);
  const bool with_inputs = recomputes(schedule);
  if (!arguments.out.empty()) write_named_file(arguments.out, write_torch_csv(schedule), console);
  const std::string safe = verdict(schedule, arguments.schedule.grouping);
  if (arguments.json) {
    Json json = {{"schedule", schedule.name},
                 {"ranks", schedule.rank_count()},
                 {"virtual_stages", schedule.stages},
                 {"microbatches", schedule.microbatches},
                 {"actions", action_count(schedule)},
                 {"peak_in_flight_activations", peak_in_flight_activations(schedule)},
                 {"deadlock", safe}};
    if (with_inputs) {
      Json& inputs = json["peak_inputs"] = Json::array();
      for (const schedule::HeldPeaks& rank : peaks) inputs.push_back(rank.inputs);
    }
    if (!arguments.out.empty()) json["out"] = arguments.out;
    console.print_json(json);
    return ExitCode::ok;
  }
  console.print(fmt::format("{}: {}, {}, {}; {}\n{}", schedule.name, counted(schedule.rank_count(), "rank", "ranks"),
                            counted(schedule.stages, "virtual stage", "virtual stages"),
                            counted(schedule.microbatches, "microbatch", "microbatches"), safe,
                            peaks_table(peaks, with_inputs)));
  if (!arguments.out.empty()) {
    console.print(fmt::format("Next: lowgear plan PROFILE --schedule {}\n", shell_word(arguments.out)));
  }
  return ExitCode::ok;
}

/// Whether a file has a schedule in PyTorch's notation, whose first cell is an action or empty; the first line of a
/// profile names columns.
bool is_schedule_file(const std::string& path) {
  if (!std::filesystem::is_regular_file(path) && !file_exists(path)) return false;
  const std::string text = read_file(path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && std::string_view("0123456789,").find(text[first]) != std::string_view::npos;
}

ExitCode run_show(ShowArguments arguments, bool has_schedule_options, Console& console) {
  std::string& file = arguments.profile;
  if (is_schedule_name(file) || is_schedule_file(file)) {
    arguments.schedule.schedule = is_schedule_name(file) ? lower_case(file) : file;
    file.clear();
    has_schedule_options = true;
  }
  if (has_schedule_options) return show_schedule(arguments, console);
  if (file_exists(std::filesystem::path(file) / output_file::kRun)) {
    throw_input_error({file, 0, 0}, "is a folder of lowgear plan",
                      fmt::format("show its {} or {}, or check it: lowgear verify {}", output_file::kProfile,
                                  output_file::kSchedule, shell_word(file)));
  }
  if (!file.empty() && is_recording(file)) {
    throw_input_error(
        {file, 0, 0}, "is a recording of a run",
        fmt::format("make its profile, and show that: lowgear profile {} --out profile.csv", shell_word(file)));
  }
  if (file.empty()) throw InputError("missing: the file to show; for example: lowgear show profile.csv");
  return show_profile(arguments, console);
}

}  // namespace

VerbAction declare_show(CLI::App& app) {
  auto arguments = std::make_shared<ShowArguments>();
  add_profile_option(app, arguments->profile)
      ->description(
          "File to show: a stage profile, or a schedule in PyTorch's notation; or a schedule's name. With --schedule: "
          "the profile that envpipe needs, since its order depends on the times of the stages")
      ->type_name("FILE|NAME");
  add_schedule_options(app, arguments->schedule);
  add_blocking_power_option(app, arguments->blocking_power);
  add_gpu_name_option(app, arguments->gpu_name, "the profile's powers are checked against its limit");
  app.add_option("--out", arguments->out, "File to write the schedule to, as PyTorch's CSV with sends and receives")
      ->type_name("FILE");
  add_json_flag(app, arguments->json);
  return [arguments, &app](Console& console) {
    const bool has_schedule_options =
        std::ranges::any_of(kScheduleOptions, [&](const char* name) { return app.get_option(name)->count() > 0; });
    return run_show(*arguments, has_schedule_options, console);
  };
}

}  // namespace lowgear::cli
