#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/table.h"
#include "base/core/files/file.h"
#include "planning/profile/example_profile.h"
#include "planning/profile/summary.h"

namespace lowgear::cli {
namespace {

struct InspectArguments {
  std::string profile;
  std::string blocking_power;
  std::string gpu_name;
  bool json = false;
};

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
               {"slowest s"},
               {"missing MHz", Table::Align::left},
               {"noisy MHz", Table::Align::left}});
  for (const profile::OpProfileSummary& row : rows) {
    table.add_row({fmt::to_string(row.stage), std::string(name(row.kind)), fmt::to_string(row.count),
                   fmt::format("{}-{}", row.min_clock_mhz, row.max_clock_mhz), fmt::to_string(row.clock_step_mhz),
                   fmt::to_string(row.pareto_count), fmt::to_string(row.hull_count),
                   fmt::format("{:.6g}", row.fastest_time_s), fmt::format("{:.6g}", row.slowest_time_s),
                   clocks_text(row.missing_clocks_mhz, static_cast<std::size_t>(row.missing_count)),
                   clocks_text(row.noisy_clocks_mhz, row.noisy_clocks_mhz.size())});
  }
  return table.text();
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
          {"noisy_clocks_mhz", row.noisy_clocks_mhz},
          {"pareto_count", row.pareto_count},
          {"hull_count", row.hull_count},
          {"fastest_time_s", row.fastest_time_s},
          {"slowest_time_s", row.slowest_time_s}};
}

ExitCode run_inspect(const InspectArguments& arguments, Console& console) {
  const profile::ProfileFile file = load_profile(arguments.profile);
  const profile::StageProfile& profile = file.profile;
  const std::vector<double> power_w =
      blocking_power_from_argument(arguments.blocking_power.empty() ? "0" : arguments.blocking_power, profile.stages());
  const std::vector<profile::OpProfileSummary> rows = summarise(profile, power_w);
  const std::vector<std::string> doubts = doubts_of(file, power_w, arguments.gpu_name);
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
  if (arguments.blocking_power.empty()) {
    console.note("without --blocking-power, options are chosen by energy, as if waiting used none");
  }
  if (modelled) console.note(profile::kExampleProfileNotice);
  console.print(summary_table(rows) +
                fmt::format("Next: lowgear plan {} --microbatches M\n", shell_word(arguments.profile)));
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_inspect(CLI::App& app) {
  auto arguments = std::make_shared<InspectArguments>();
  add_profile_option(app, arguments->profile)->required();
  add_blocking_power_option(app, arguments->blocking_power);
  add_gpu_name_option(app, arguments->gpu_name, "the profile's powers are checked against its limit");
  add_json_flag(app, arguments->json);
  return [arguments](Console& console) { return run_inspect(*arguments, console); };
}

}  // namespace lowgear::cli
