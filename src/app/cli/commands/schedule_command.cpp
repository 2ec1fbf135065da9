#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/table.h"
#include "base/core/files/file.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/torch_csv.h"

namespace lowgear::cli {
namespace {

struct ScheduleCommandArguments {
  ScheduleArguments schedule;
  std::string profile;
  std::string blocking_power;
  std::string out;
  bool json = false;
};

/// With messages, and proven not to hang.
schedule::Schedule runnable_schedule(const ScheduleCommandArguments& arguments, Console& console) {
  std::optional<profile::StageProfile> profile;
  std::vector<double> power_w;
  if (!arguments.profile.empty()) {
    const profile::ProfileFile file = load_profile(arguments.profile);
    profile = file.profile;
    if (!arguments.blocking_power.empty()) {
      power_w = blocking_power_from_argument(arguments.blocking_power, profile->stages());
    }
    for (const std::string& doubt : doubts_of(file, power_w, "")) console.warn(doubt);
  }
  schedule::Schedule schedule =
      with_communication(load_schedule(arguments.schedule, profile ? &*profile : nullptr, power_w));
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

ExitCode run_schedule(const ScheduleCommandArguments& arguments, Console& console) {
  const schedule::Schedule schedule = runnable_schedule(arguments, console);
  const std::vector<schedule::HeldPeaks> peaks = held_peaks(schedule);
  const bool with_inputs = recomputes(schedule);
  if (!arguments.out.empty()) write_file_atomically(arguments.out, write_torch_csv(schedule));
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
  console.print(fmt::format("{}: {} ranks, {} virtual stages, {} microbatches; {}\n{}", schedule.name,
                            schedule.rank_count(), schedule.stages, schedule.microbatches, safe,
                            peaks_table(peaks, with_inputs)));
  if (!arguments.out.empty()) {
    console.print(fmt::format("Next: lowgear plan PROFILE --schedule {}\n", shell_word(arguments.out)));
  }
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_schedule(CLI::App& app) {
  auto arguments = std::make_shared<ScheduleCommandArguments>();
  add_schedule_options(app, arguments->schedule);
  add_profile_option(app, arguments->profile)
      ->description("Stage profile, which envpipe needs: its order depends on the times of the stages");
  add_blocking_power_option(app, arguments->blocking_power);
  app.add_option("--out", arguments->out, "File to write the schedule to, as PyTorch's CSV with sends and receives")
      ->type_name("FILE");
  add_json_flag(app, arguments->json);
  return [arguments](Console& console) { return run_schedule(*arguments, console); };
}

}  // namespace lowgear::cli
