#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/arguments/joint_arguments.h"
#include "app/cli/arguments/options.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/arguments/planner_arguments.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/plan/plan_folder.h"
#include "app/cli/plan/plan_run.h"
#include "app/cli/plan/plan_steps.h"
#include "app/cli/terminal/help.h"
#include "app/cli/terminal/progress.h"
#include "app/cli/text/plan_text.h"
#include "base/core/error.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/numbers/number.h"
#include "planning/plan/plan.h"
#include "planning/profile/group_check.h"

namespace lowgear::cli {
namespace {

constexpr auto kDialectWords = std::to_array<std::string_view>({"artifact", "zeus"});

struct PlanCommandArguments {
  PlanArguments plan;
  StepsArguments steps;
  bool json = false;
  bool quiet = false;
};

double max_gap_pct(const api::PlanResult& result) {
  double largest = 0;
  for (const api::PlanFigures& plan : result.plans) {
    largest = std::max(largest, plan::gap_pct(plan.energy_j, plan.lower_bound_j).value_or(0));
  }
  return largest;
}

const api::PlanFigures& shown_plan(const api::PlanResult& result) {
  return result.plans.at(static_cast<std::size_t>(result.shown_plan));
}

/// Whether full clocks take longer than the plan, by more than rounding.
bool can_be_slower(const api::PlanFigures& shown, const simulator::PipelineFigures& full_clocks) {
  constexpr double kRounding = 1e-4;
  return shown.time_s < (1 - kRounding) * full_clocks.time_s;
}

std::string summary_text(const PlanArguments& arguments, const PlanSummary& summary) {
  const api::PlanResult& result = summary.result;
  const api::PlanFigures& shown = shown_plan(result);
  const simulator::PipelineFigures& fastest = result.frontier.vertices.front();
  const simulator::PipelineFigures& slowest = result.frontier.vertices.back();
  const schedule::Schedule& order = result.pipeline.schedule;
  std::string text = fmt::format("pipeline  {} on {}, {}, {}\n", counted(order.stages, "stage", "stages"),
                                 counted(order.rank_count(), "rank", "ranks"),
                                 counted(order.microbatches, "microbatch", "microbatches"), order.name);
  const profile::DrawnPower drawn = profile::drawn_power(result.pipeline.profile);
  text += fmt::format("profile   ops draw {:.4g} W (median), {:.4g} to {:.4g} W\n", drawn.median_w, drawn.lowest_w,
                      drawn.highest_w);
  text += fmt::format("frontier  {}, {}: {:.6g} s, {:.6g} J (T_min) to {:.6g} s, {:.6g} J (T*)\n",
                      counted(result.frontier.vertices.size(), "vertex", "vertices"), name(result.frontier.method),
                      fastest.time_s, fastest.energy_j, slowest.time_s, slowest.energy_j);
  text += fmt::format("plans     {}, {}proven within {:.3g} % of the least possible energy", result.plans.size(),
                      result.plans.size() == 1 ? "" : "each ", max_gap_pct(result));
  if (result.plans.size() == 1 && !api::misses_deadline(result)) {
    const double deadline_s = result.plans.front().deadline_s;
    text += fmt::format("; its deadline {:.6g} s is {} against T_min, which is planned, not measured", deadline_s,
                        percent_text(change_pct(fastest.time_s, deadline_s)));
  }
  text += '\n';
  text += fmt::format(
      "plan {:05}: {:.6g} s, {:.6g} J planned; against all clocks at their highest ({:.6g} s, {:.6g} J): "
      "{} energy, {} time\n",
      shown.number, shown.time_s, shown.energy_j, result.baseline.time_s, result.baseline.energy_j,
      percent_text(change_pct(result.baseline.energy_j, shown.energy_j)),
      percent_text(change_pct(result.baseline.time_s, shown.time_s)));
  if (!result.asked_deadline_s && can_be_slower(shown, result.baseline)) {
    text += fmt::format("          in the time of full clocks, it would save more: --deadline {:.6g}\n",
                        result.baseline.time_s);
  }
  if (api::misses_deadline(result)) {
    text += fmt::format("deadline  {:.6g} s was asked for, and the plan MISSES it by {:.3g} s ({:+.2f} %)\n",
                        *result.asked_deadline_s, shown.time_s - *result.asked_deadline_s,
                        change_pct(*result.asked_deadline_s, shown.time_s));
  }
  text += latency_text(arguments.planner.switch_latency, result.shown, result.late);
  text += simulated_text(result.pipeline.simulated);
  const std::filesystem::path out = arguments.out;
  text += fmt::format("report    {}\n", (out / output_file::kReport).string());
  text += verified_text(arguments.out, summary.verified.has_value());
  text += "next      look at the report";
  // Lowgear's own trainer runs neither settings nor recomputations as ops of their own.
  if (!result.pipeline.profile.has_settings() && !recomputes(result.pipeline.schedule)) {
    text += "; " + training_text(arguments.out, shown.number, {});
  }
  return text + '\n';
}

/// Whether the one plan keeps the deadline that was asked for; null where none was.
Json kept_json(const api::PlanResult& result) {
  if (!result.asked_deadline_s) return nullptr;
  return !api::misses_deadline(result);
}

Json summary_json(const PlanArguments& arguments, const PlanSummary& summary) {
  const api::PlanResult& result = summary.result;
  Json plans = Json::array();
  for (const api::PlanFigures& plan : result.plans) plans.push_back(plan_figures_json(plan));
  return {{"out", arguments.out},
          {"figures", "planned"},
          {"policy", arguments.request.policy},
          {"frontier",
           {{"method", name(result.frontier.method)},
            {"vertices", result.frontier.vertices.size()},
            {"epsilon", result.frontier.epsilon},
            {"fastest_s", result.frontier.vertices.front().time_s},
            {"slowest_s", result.frontier.vertices.back().time_s}}},
          {"baseline",
           {{"description", "every op at its highest profiled clock"},
            {"time_s", result.baseline.time_s},
            {"energy_j", result.baseline.energy_j}}},
          {"switch_latency", latency_json(arguments.planner.switch_latency, result.late)},
          {"asked_deadline_s", or_null(result.asked_deadline_s)},
          {"asked_deadline_kept", kept_json(result)},
          {"verified", summary.verified.has_value()},
          {"shown_plan", result.shown_plan},
          {"plans", plans},
          {"warnings", result.warnings}};
}

/// Before planning, which may take long.
void say_doubts(const std::vector<std::string>& doubts, const PlanCommandArguments& arguments, Console& console) {
  if (arguments.quiet) return;
  for (const std::string& doubt : doubts) console.warn(doubt);
}

/// With a free order.
ExitCode run_joint_plan(const PlanCommandArguments& arguments, Console& console) {
  JointInput input = load_joint_input(arguments.plan.pipeline, arguments.plan.memory_limit, arguments.plan.layers);
  const std::vector<std::string> doubts = input.doubts;
  say_doubts(doubts, arguments, console);
  StagedDirectory folder(arguments.plan.out, std::string(output_file::kRun));
  std::optional<ProgressBar> progress(std::in_place);
  PlanArguments plan = arguments.plan;
  plan.planner.switch_latency.complete_for_plan(input.switch_latency_s);
  const JointPlanSummary summary = make_joint_plans(plan, std::move(input), folder, *progress);
  progress.reset();
  commit_over(plan.out, folder, console);
  if (!arguments.quiet) say_warnings(summary.result.warnings, summary.result.findings, doubts, console);
  if (arguments.json) {
    console.print_json(joint_plan_json(plan, summary));
  } else if (!arguments.quiet) {
    console.print(joint_plan_text(plan, summary));
  }
  return ExitCode::ok;
}

ExitCode run_plan(const PlanCommandArguments& arguments, Console& console) {
  if (arguments.quiet) console.mute_notes();
  if (arguments.plan.pipeline.schedule.schedule == kFreeOrder) return run_joint_plan(arguments, console);
  if (arguments.plan.memory_limit && arguments.plan.request.policy != "envpipe") {
    throw InputError(
        "--memory-limit: only the search of orders and the policy envpipe have one: give --schedule auto or --policy "
        "envpipe");
  }
  if (arguments.plan.layers) {
    throw InputError(
        "--layers: layers move only together with the order: give --schedule auto, or see lowgear plan --change");
  }
  PipelineInput input = load_pipeline(arguments.plan.pipeline);
  const std::vector<std::string> doubts = input.pipeline.doubts;
  say_doubts(doubts, arguments, console);
  StagedDirectory folder(arguments.plan.out, std::string(output_file::kRun));
  std::optional<ProgressBar> progress(std::in_place);
  PlanArguments plan = arguments.plan;
  plan.planner.switch_latency.complete_for_plan(input.file.switch_latency_s);
  const PlanSummary summary = make_plans(plan, std::move(input), folder, *progress);
  progress.reset();
  commit_over(plan.out, folder, console);
  if (!arguments.quiet) say_warnings(summary.result.warnings, summary.result.findings, doubts, console);
  if (arguments.json) {
    console.print_json(summary_json(plan, summary));
  } else if (!arguments.quiet) {
    console.print(summary_text(plan, summary));
  }
  return ExitCode::ok;
}

/// Clocks for every step's own lengths.
ExitCode run_steps(const PlanCommandArguments& arguments, const CLI::App& app, Console& console) {
  if (arguments.quiet) console.mute_notes();
  StepsPlan plan;
  {
    ProgressBar progress;
    plan = plan_of_steps({.pipeline = arguments.plan.pipeline,
                          .switch_latency = arguments.plan.planner.switch_latency,
                          .steps = arguments.steps,
                          .out = arguments.plan.out,
                          .command = command_line(app)},
                         progress, console);
  }
  if (!arguments.quiet) {
    for (const std::string& warning : plan.warnings) console.warn(warning);
  }
  if (arguments.json) {
    console.print_json(steps_json(plan));
  } else if (!arguments.quiet) {
    console.print(steps_text(plan));
  }
  return ExitCode::ok;
}

/// `--perseus-format` alone is for the artifact.
void add_perseus_format_option(CLI::App& app, std::optional<formats::PerseusDialect>& dialect) {
  add_choice(
      app, "--perseus-format", kDialectWords,
      [&dialect](std::size_t place) {
        dialect = place == 0 ? formats::PerseusDialect::artifact : formats::PerseusDialect::zeus;
      },
      "Also write freqs_pipeline_NNNNN.py files, of which 00000 is the slowest plan: clocks for Perseus' server "
      "(artifact, the default), or tuples for Zeus' server and PipelineFrequencyOptimizer (zeus)")
      ->expected(0, 1)
      ->default_str("artifact");
}

}  // namespace

VerbAction declare_plan(CLI::App& app) {
  auto arguments = std::make_shared<PlanCommandArguments>();
  PlanArguments& plan = arguments->plan;
  add_pipeline_options(app, plan.pipeline);
  CLI::Option* schedule = app.get_option("--schedule");
  const std::string names = schedule->get_description();
  schedule->description("Schedule by name (default 1f1b), auto to search the order with the clocks, or a CSV. " +
                        names.substr(names.find("Names:")));
  app.add_option(
         "--out", plan.out,
         "Folder to write (default plan). The output of an earlier run is replaced; a folder with other files is "
         "refused")
      ->type_name("DIR");
  add_deadline_options(app, plan.deadlines);
  take_names_of_any_case(
      app.add_option("--policy", plan.request.policy,
                     "Policy that chooses the clocks (default lowgear); lowgear compare --help-all names all")
          ->type_name("NAME"));
  add_request_options(app, plan.request);
  add_gpu_name_option(app, plan.pipeline.gpu_name, "agents refuse the plans on other models");
  add_planner_options(app, plan.planner);
  add_memory_limit_option(app, plan.memory_limit);
  CLI::Option* layers = add_layers_option(app, plan.layers.emplace());
  layers->description("With --schedule auto: move layers between the stages, too. " + layers->get_description());
  add_ask_ahead_option(app, plan.planner.switch_latency);
  add_perseus_options(app, plan.perseus);
  add_envpipe_options(app, plan.envpipe);
  app.add_option("--envpipe-steps", plan.envpipe_steps,
                 "envpipe: also write each step of its reconfiguration to this file, as EnvPipe prints it")
      ->type_name("FILE");
  add_perseus_format_option(app, plan.perseus_format);
  add_plan_sampling_option(
      app, "--perseus-plans", plan.perseus_plans,
      "perseus: write freqs_pipeline_NNNNN.py for points of its own frontier, one for each "
      "--perseus-unit of time, slowest first: all, a number of them (20), or every 50th (every:50)");
  add_plan_sampling_option(app, "--perseus-plots", plan.perseus_plots,
                           "perseus: also write perseus.html: the fit of every stage and instruction over the "
                           "profile's options, the frontier, and pictures of the pipeline at points of it: every:100 "
                           "(lowtime's --plot-interval 100), or a number of them (20)");
  add_steps_options(app, arguments->steps);
  add_json_flag(app, arguments->json);
  app.add_flag("--quiet", arguments->quiet, "Print errors only");
  group_options(app, "Search of orders", {"--memory-limit", "--layers"});
  group_options(app, "Deadlines and conditions", {"--straggler", "--slow-rank", "--power-cap", "--ask-ahead"});
  group_options(app, "Policies of others",
                {"--envpipe-steps", "--perseus-format", "--perseus-plans", "--perseus-plots"});
  group_options(app, std::string(kFurtherOptions), {"--quiet"});
  return [arguments, layers, &app](Console& console) {
    if (plans_steps(app)) return run_steps(*arguments, app, console);
    if (layers->empty()) arguments->plan.layers.reset();
    arguments->plan.command = command_line(app);
    refuse_unused_perseus_options(app, arguments->plan.request.policy == "perseus");
    return run_plan(*arguments, console);
  };
}

}  // namespace lowgear::cli
