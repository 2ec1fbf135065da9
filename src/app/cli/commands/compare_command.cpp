#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/arguments/envpipe_arguments.h"
#include "app/cli/arguments/joint_arguments.h"
#include "app/cli/arguments/options.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/arguments/planner_arguments.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/progress.h"
#include "app/cli/terminal/table.h"
#include "app/cli/text/plan_text.h"
#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/version.h"
#include "planning/api/comparison.h"
#include "planning/api/plan_replays.h"
#include "planning/api/run_folder.h"
#include "planning/plan/plan.h"
#include "planning/profile/example_profile.h"
#include "report/report/html_report.h"
#include "report/report/run_report.h"
#include "rivals/policies/published_policies.h"

namespace lowgear::cli {
namespace {

constexpr const char* kNone = "-";

std::string fixed(std::optional<double> value, int digits) { return value ? fixed_text(*value, digits) : kNone; }

/// Savings by row, as the evaluation of Perseus counts them.
using PublishedSavings = std::vector<std::optional<double>>;

Json row_json(const api::ComparisonRow& row, const api::ComparisonRow& baseline,
              std::optional<double> published_saving_pct) {
  Json json = {{"policy", row.policy},
               {"aim", row.aim},
               {"time_s", row.time_s},
               {"energy_j", row.energy_j},
               {"saving_pct", saving_pct(row, baseline)},
               {"slowdown_pct", slowdown_pct(row, baseline)}};
  set_if(json, "lower_bound_j", row.lower_bound_j);
  set_if(json, "gap_pct", plan::gap_pct(row.energy_j, row.lower_bound_j));
  json["switches"] = row.switches;
  json["own_order"] = row.own_order;
  set_if(json, "peak_activations", row.peak_activations);
  set_if(json, "plan_time_s", row.plan_time_s);
  set_if(json, "late_time_s", row.late_time_s);
  set_if(json, "late_energy_j", row.late_energy_j);
  set_if(json, "own_time_s", row.own_time_s);
  set_if(json, "own_energy_j", row.own_energy_j);
  set_if(json, "published_saving_pct", published_saving_pct);
  json["note"] = row.note;
  return json;
}

/// In per cent, with the time that goes with it: `13.70 (+0.00 %)`.
std::string saving_text(double saving_pct, double slowdown_pct) {
  return fmt::format("{} ({} %)", fixed_text(saving_pct, 2), signed_text(slowdown_pct, 2));
}

double late_saving_pct(const api::ComparisonRow& row, const api::ComparisonRow& baseline) {
  return 100 * (1 - *row.late_energy_j / *baseline.late_energy_j);
}

double late_slowdown_pct(const api::ComparisonRow& row, const api::ComparisonRow& baseline) {
  return 100 * (*row.late_time_s / *baseline.late_time_s - 1);
}

/// Time and saving of each row, also with late clocks where they were replayed.
std::string comparison_table(const api::PolicyComparison& comparison) {
  const api::ComparisonRow& baseline = comparison.baseline;
  std::vector<Table::Column> columns{{"policy", Table::Align::left}, {"time s"}, {"saving % (time)"}};
  if (baseline.late_time_s) columns.push_back({"with late clocks"});
  Table table(std::move(columns));
  for (const api::ComparisonRow& row : comparison.rows) {
    std::vector<std::string> cells{row.label(), fmt::format("{:.4f}", row.time_s),
                                   saving_text(saving_pct(row, baseline), slowdown_pct(row, baseline))};
    if (baseline.late_time_s) {
      cells.push_back(saving_text(late_saving_pct(row, baseline), late_slowdown_pct(row, baseline)));
    }
    table.add_row(cells);
  }
  return table.text();
}

/// All figures of each row.
std::string wide_table(const api::PolicyComparison& comparison, const PublishedSavings& published_pct) {
  constexpr int kTimeDigits = 4;
  constexpr int kEnergyDigits = 1;
  constexpr int kPercentDigits = 3;
  Table table({{"policy", Table::Align::left},
               {"planned for", Table::Align::left},
               {"time s"},
               {"energy J"},
               {"saving %"},
               {"slowdown %"},
               {"gap %"},
               {"switches"},
               {"order", Table::Align::left},
               {"activations"},
               {"plan time"},
               {"published way %"}});
  for (std::size_t i = 0; i < comparison.rows.size(); ++i) {
    const api::ComparisonRow& row = comparison.rows[i];
    table.add_row({row.policy, row.aim.empty() ? kNone : row.aim, fixed(row.time_s, kTimeDigits),
                   fixed(row.energy_j, kEnergyDigits), fixed(saving_pct(row, comparison.baseline), kPercentDigits),
                   fixed(slowdown_pct(row, comparison.baseline), kPercentDigits),
                   fixed(plan::gap_pct(row.energy_j, row.lower_bound_j), kPercentDigits), fmt::to_string(row.switches),
                   row.own_order ? "own" : "given",
                   row.peak_activations ? fmt::to_string(*row.peak_activations) : kNone,
                   row.plan_time_s ? duration_text(*row.plan_time_s) : kNone, fixed(published_pct[i], kPercentDigits)});
  }
  return table.text();
}

/// The rows as clocks that change late leave them, in per cent of the baseline's; empty where that was not replayed.
std::string late_table(const api::PolicyComparison& comparison) {
  const api::ComparisonRow& baseline = comparison.baseline;
  if (!baseline.late_time_s) return "";
  Table table({{"policy", Table::Align::left}, {"planned for", Table::Align::left}, {"saving %"}, {"slowdown %"}});
  for (const api::ComparisonRow& row : comparison.rows) {
    if (row.switches == 0) continue;  // nothing is late
    table.add_row({row.policy, row.aim.empty() ? kNone : row.aim, fixed_text(late_saving_pct(row, baseline), 3),
                   fixed_text(late_slowdown_pct(row, baseline), 3)});
  }
  return table.text();
}

Json comparison_json(const api::PolicyComparison& comparison, const PublishedSavings& published_pct) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < comparison.rows.size(); ++i) {
    rows.push_back(row_json(comparison.rows[i], comparison.baseline, published_pct[i]));
  }
  return {{"figures", "replayed"},
          {"baseline",
           {{"policy", comparison.baseline.policy},
            {"time_s", comparison.baseline.time_s},
            {"energy_j", comparison.baseline.energy_j}}},
          {"rows", rows},
          {"skipped", comparison.skipped}};
}

struct CompareArguments {
  PipelineArguments pipeline;
  PlannerArguments planner;
  std::vector<std::string> policies;
  std::string baseline = "max";
  PerseusArguments perseus;
  EnvPipeArguments envpipe;
  std::optional<std::string> memory_limit;
  std::string html;
  std::string command;  ///< the command line, for the page
  bool wide = false;
  bool json = false;
};

api::ComparisonOptions comparison_options(const CompareArguments& arguments) {
  api::ComparisonOptions options;
  options.table = policies::published_policies({.perseus = perseus_options(arguments.perseus)});
  options.policies = arguments.policies.empty() ? options.table.names() : arguments.policies;
  options.baseline = arguments.baseline;
  for (const std::string& name : options.policies) (void)options.table.make(name);  // names those that exist
  if (options.baseline == planner::kLowgearPolicy)
    throw InputError("--baseline: compare with a policy other than lowgear");
  return options;
}

std::string render_page(const CompareArguments& arguments, const PipelineInput& input,
                        planner::PipelinePlanner& planner, const api::PolicyComparison& comparison) {
  report::Data data =
      report::comparison_report(comparison, input.pipeline, planner, arguments.planner.switch_latency.late_by_s());
  data.clock_lead_s = arguments.planner.switch_latency.lead_s;
  data.lowgear_version = version();
  data.command = arguments.command;
  data.profile_name = std::filesystem::path(input.file.source).filename().string();
  return render_html_report(data);
}

/// Time step of the policies that have one: a coarse one costs them energy.
std::string step_text(const api::PolicyComparison& comparison, double unit_s) {
  const auto has_step = [](const api::ComparisonRow& row) {
    return row.policy == "perseus" || row.policy == "envpipe-offline";
  };
  if (std::ranges::none_of(comparison.rows, has_step)) return "";
  return fmt::format(
      "perseus and envpipe-offline plan in time steps of {} (--perseus-unit; Perseus' authors took 0.1 ms for A40).\n",
      duration_text(unit_s));
}

/// The page that was written, further figures and the next step.
std::string ending(const CompareArguments& arguments, bool simulated) {
  constexpr const char* kNext = "Next: write the plans with lowgear plan, the same options and --out DIR.\n";
  const std::string origin = simulated_text(simulated);
  if (!arguments.html.empty()) return fmt::format("{}page {}\n{}", origin, arguments.html, kNext);
  return fmt::format("{}{}{}", origin, arguments.wide ? "" : "More figures: --wide, --html FILE. ", kNext);
}

std::string clocks_text(const SwitchLatencyArgument& latency) {
  return fmt::format("Clocks: {}{}.\n", clock_changes_text(latency.lead_s, latency.late_by_s()),
                     latency.lead_s > 0
                         ? "; late clocks are requested when units begin\n(--no-ask-ahead plans for that; lowgear "
                           "profile measures the latency)"
                         : "");
}

std::string explanation(const api::PolicyComparison& comparison, const SwitchLatencyArgument& latency, double unit_s) {
  const std::string text =
      fmt::format("Savings of energy against {} ({:.4f} s, {:.1f} J), replayed on the profile; in brackets the time.\n",
                  comparison.baseline.policy, comparison.baseline.time_s, comparison.baseline.energy_j);
  return text + clocks_text(latency) + step_text(comparison, unit_s);
}

std::string wide_explanation(const api::PolicyComparison& comparison, double unit_s) {
  return fmt::format(
             "All figures are replayed on the profile, for one GPU per rank. Savings and slowdowns are against {} "
             "({:.4f} s, "
             "{:.1f} J).\nOrder: of the given schedule, or of the policy's own; activations: the largest number on a "
             "rank.\nGap: energy above the proven least energy of any plan that takes no longer. Published way: the "
             "saving as the\nevaluation of Perseus (SOSP'24, table 6) counts it, with each method's own figures.\n",
             comparison.baseline.policy, comparison.baseline.time_s, comparison.baseline.energy_j) +
         step_text(comparison, unit_s);
}

void print_notes(const api::PolicyComparison& comparison, const PipelineInput& input, Console& console) {
  for (const api::ComparisonRow& row : comparison.rows) {
    if (row.note.empty()) continue;
    console.note(fmt::format("{}: {}", row.label(), row.note));
  }
  for (const std::string& line : comparison.skipped) console.warn(line);
  if (is_example_profile(input.pipeline.profile)) console.note(profile::kExampleProfileNotice);
}

std::string late_changes(const api::PolicyComparison& comparison, const SwitchLatencyArgument& latency) {
  const std::string table = late_table(comparison);
  return table.empty() ? "" : fmt::format("\n{}The same with late clocks:\n{}", clocks_text(latency), table);
}

ExitCode run_compare(CompareArguments arguments, Console& console) {
  api::ComparisonOptions options = comparison_options(arguments);
  const PipelineInput input = load_pipeline(arguments.pipeline);
  const api::ProfiledPipeline& pipeline = input.pipeline;
  const policies::EnvPipeOptions envpipe =
      envpipe_options(arguments.envpipe, arguments.memory_limit, arguments.pipeline.schedule.extra_activations, input);
  require_valid(envpipe);
  options.table = policies::published_policies({.perseus = perseus_options(arguments.perseus), .envpipe = envpipe});
  for (const std::string& doubt : pipeline.doubts) console.warn(doubt);
  SwitchLatencyArgument& latency = arguments.planner.switch_latency;
  latency.complete_for_plan(input.file.switch_latency_s);
  options.planner = planner_options(arguments.planner);
  options.late_s = latency.requests_at_begin_s();
  options.now_s = wall_clock();
  std::optional<ProgressBar> progress(std::in_place);
  api::PolicyAnswers answers;
  const auto others = start_task([&](Progress& stop) { answers = answers_of_policies(pipeline, options, &stop); });
  const Stopwatch stopwatch;
  planner::PipelinePlanner planner(pipeline.schedule, pipeline.profile, pipeline.blocking_power_w, options.planner, {},
                                   &*progress);
  const double frontier_time_s = stopwatch.elapsed_s();
  api::require_lead_within(latency.lead_s, planner.fastest_s());
  others->finish("planning with other policies", *progress);
  options.frontier_time_s = frontier_time_s;
  const api::PolicyComparison comparison = compare_policies(pipeline, planner, options, std::move(answers), &*progress);
  const PublishedSavings published_pct = policies::published_savings_pct(comparison.rows, pipeline.problem());
  std::optional<std::string> page;
  if (!arguments.html.empty()) page = render_page(arguments, input, planner, comparison);
  // The planner does not plan any more.
  progress.reset();
  if (page) write_named_file(arguments.html, *page, console);
  for (const std::string& finding : comparison.findings) console.warn(finding);
  if (arguments.json) {
    Json json = comparison_json(comparison, published_pct);
    json["warnings"] = pipeline.doubts;
    for (const std::string& finding : comparison.findings) json["warnings"].push_back(finding);
    json["modelled"] = is_example_profile(pipeline.profile);
    json["switch_latency"] = {
        {"source", name(latency.source)}, {"planned_with_s", latency.late_by_s()}, {"asked_ahead_s", latency.lead_s}};
    if (options.late_s) json["switch_latency"]["late_s"] = *options.late_s;
    json["frontier"] = {{"method", name(planner.method())},
                        {"fastest_s", planner.fastest_s()},
                        {"slowest_s", planner.slowest_s()},
                        {"vertices", planner.frontier().vertices().size()}};
    console.print_json(json);
  } else {
    console.print(arguments.wide ? wide_table(comparison, published_pct) + '\n' +
                                       wide_explanation(comparison, arguments.perseus.unit_s) +
                                       ending(arguments, pipeline.simulated) + late_changes(comparison, latency)
                                 : comparison_table(comparison) + '\n' +
                                       explanation(comparison, latency, arguments.perseus.unit_s) +
                                       ending(arguments, pipeline.simulated));
    print_notes(comparison, input, console);
  }
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_compare(CLI::App& app) {
  auto arguments = std::make_shared<CompareArguments>();
  add_pipeline_options(app, arguments->pipeline);
  add_gpu_name_option(app, arguments->pipeline.gpu_name, "the profile's powers are checked against its limit");
  take_names_of_any_case(app.add_option("--policies", arguments->policies,
                                        fmt::format("Policies to compare, of {} (default all)",
                                                    fmt::join(policies::published_policies().names(), ", ")))
                             ->type_name("A,B")
                             ->delimiter(','));
  take_names_of_any_case(app.add_option("--baseline", arguments->baseline,
                                        "Policy that savings and slowdowns are relative to (default max)")
                             ->type_name("POLICY"));
  add_perseus_options(app, arguments->perseus);
  add_envpipe_options(app, arguments->envpipe);
  add_memory_limit_option(app, arguments->memory_limit);
  add_planner_options(app, arguments->planner);
  add_ask_ahead_option(app, arguments->planner.switch_latency);
  app.add_option("--html", arguments->html, "Also write the comparison to this file, as an HTML page")
      ->type_name("FILE");
  app.add_flag("--wide", arguments->wide, "Also show energy, gap, switches, order, activations and planning time");
  add_json_flag(app, arguments->json);
  group_options(app, "Policies of others", {"--memory-limit"});
  group_options(app, "Frontier", {"--ask-ahead"});
  return [arguments, &app](Console& console) {
    arguments->command = command_line(app);
    refuse_unused_perseus_options(app,
                                  arguments->policies.empty() || arguments->baseline == "perseus" ||
                                      std::ranges::find(arguments->policies, "perseus") != arguments->policies.end());
    return run_compare(*arguments, console);
  };
}

}  // namespace lowgear::cli
