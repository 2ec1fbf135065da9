#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "app/cli/arguments/estimate_input.h"
#include "app/cli/arguments/options.h"
#include "app/cli/arguments/planner_arguments.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/process.h"
#include "app/cli/terminal/progress.h"
#include "app/cli/terminal/table.h"
#include "app/cli/text/estimate_pages.h"
#include "app/cli/text/estimate_text.h"
#include "base/core/error.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "planning/profile/profile_file.h"
#include "rivals/policies/published_policies.h"
#include "rivals/published_estimator/published_examples.h"

namespace lowgear::cli {
namespace {

/// Options of `lowgear estimate --plan`.
struct EstimatePlanArguments {
  estimator::EstimatePlanOptions options;
  PriceArguments prices;
};

/// `--deadline`, `--slowdown`, `--straggler`, `--policy`, `--gpu-hour`, `--kwh`, `--co2`; all go with `--plan`.
void add_estimate_plan_options(CLI::App& app, EstimatePlanArguments& arguments, CLI::Option* plan) {
  add_single_deadline_options(app, arguments.options.deadline);
  app.add_option("--policy", arguments.options.policy,
                 "Policy that chooses the clocks (default lowgear); lowgear compare --help names all")
      ->type_name("NAME");
  add_price_options(app, arguments.prices);
  for (const char* option : {"--deadline", "--slowdown", "--straggler", "--policy", "--gpu-hour", "--kwh", "--co2"}) {
    app.get_option(option)->needs(plan);
  }
}

struct EstimateArguments {
  JobArguments job;
  std::string samples;  ///< a folder
  bool peer_formula = false;
  bool list_examples = false;
  std::string shown_example;  ///< its name, or empty
  std::string example;        ///< the same, to estimate
  bool plan = false;
  EstimatePlanArguments planning;
  std::string profile;  ///< to write, or empty
  std::string report;   ///< page to write, or empty
  std::string command;  ///< the command line, for the page
  bool json = false;
};

void print_published_estimate(const EstimateArguments& arguments,
                              const published_estimator::PublishedEstimate& estimate, const std::string& next,
                              Console& console) {
  if (arguments.json) {
    console.print_json(published_estimate_json(estimate));
  } else {
    console.print(published_estimate_text(estimate) + "\nNext: " + next + "\n");
  }
}

ExitCode list_examples(const EstimateArguments& arguments, Console& console) {
  Table table(
      {{"example", Table::Align::left}, {"in estimate-train-time", Table::Align::left}, {"", Table::Align::left}});
  Json json{{"format", "lowgear.published_examples/1"}, {"examples", Json::array()}};
  for (const published_estimator::PublishedExample& example : published_estimator::published_examples()) {
    table.add_row({std::string(example.name), std::string(example.published_name), std::string(example.summary)});
    json["examples"].push_back(
        {{"name", example.name}, {"published_name", example.published_name}, {"summary", example.summary}});
  }
  if (arguments.json) {
    console.print_json(json);
  } else {
    console.print(table.text() + "\nNext: lowgear estimate --example " +
                  std::string(published_estimator::published_examples().front().name) + "\n");
  }
  return ExitCode::ok;
}

ExitCode show_example(const EstimateArguments& arguments, Console& console) {
  const std::string_view job = example_job(published_estimator::published_example(arguments.shown_example));
  if (arguments.json) {
    console.print_json({{"format", "lowgear.published_example/1"}, {"job", job}});
  } else {
    console.print(std::string(job));
  }
  return ExitCode::ok;
}

ExitCode run_example_estimate(const EstimateArguments& arguments, Console& console) {
  if (!arguments.job.settings.empty()) {
    throw InputError(
        "--example is estimated as it is; write it to a file with --show-example, change it there, and "
        "leave " +
        arguments.job.settings.front().origin + " out");
  }
  const published_estimator::PublishedExample& example = published_estimator::published_example(arguments.example);
  const published_estimator::SampledJob job =
      published_estimator::parse_sampled_job(example_job(example), std::string(example.name));
  print_published_estimate(arguments, estimate_as_published(job, {}, arguments.samples),
                           fmt::format("change it: lowgear estimate --show-example {} > job.yml", example.name),
                           console);
  return ExitCode::ok;
}

ExitCode run_peer_estimate(const EstimateArguments& arguments, Console& console) {
  if (!arguments.job.settings.empty()) {
    throw InputError("--peer-formula uses the job in the file of --job unchanged; leave " +
                     arguments.job.settings.front().origin + " out");
  }
  const published_estimator::PublishedEstimate estimate = estimate_as_published(arguments.job.file, arguments.samples);
  print_published_estimate(
      arguments, estimate,
      fmt::format("estimate it with Lowgear's own model: lowgear estimate --job {}", shell_word(arguments.job.file)),
      console);
  return ExitCode::ok;
}

void emit_profile(const EstimateArguments& arguments, const estimator::JobEstimate& estimate, Console& console) {
  if (arguments.profile.empty()) return;
  write_named_file(arguments.profile, profile::write_profile_file(emitted_file(estimate)), console);
  console.note(fmt::format("{} contains estimated, not measured figures of one GPU", arguments.profile));
}

std::optional<estimator::PlannedEstimate> plan_if_asked(const EstimateArguments& arguments,
                                                        const estimator::JobEstimate& estimate) {
  if (!arguments.plan && arguments.report.empty()) return std::nullopt;
  ProgressBar progress;
  estimator::EstimatePlanOptions options = arguments.planning.options;
  options.policies = policies::published_policies();
  return plan_estimate(estimate, options, available_memory_bytes(), progress);
}

std::string search_command(const EstimateArguments& arguments, int gpus) {
  std::string command = "lowgear search" + words_without_layout(arguments.job);
  if (!arguments.samples.empty()) command += " --operators " + shell_word(arguments.samples);
  return command + fmt::format(" --gpus {}", gpus);
}

/// GPUs to search a layout for that fits. One alone has no other layout: then as many as its bytes fill.
int gpus_to_search(const estimator::JobEstimate& estimate) {
  const int gpus = estimate.job.parallel.gpus();
  if (gpus > 1) return gpus;
  const double filled = estimate.memory.ranks[estimate.overflow->rank].total() / estimate.memory.capacity;
  return static_cast<int>(
      std::bit_ceil(static_cast<unsigned>(std::clamp(std::ceil(filled), 2.0, double{estimator::kMaxJobGpus}))));
}

std::string next_text(const EstimateArguments& arguments, const estimator::JobEstimate& estimate) {
  if (estimate.memory.fit() == estimator::MemoryFit::exceeds) {
    return fmt::format("\nNext: find a layout that fits: {}\n", search_command(arguments, gpus_to_search(estimate)));
  }
  if (!arguments.profile.empty()) return fmt::format("\nNext: {}\n", plan_command(estimate.job, arguments.profile));
  if (arguments.plan || !arguments.report.empty()) {
    return fmt::format("\nNext: compare it with other layouts: {}\n",
                       search_command(arguments, estimate.job.parallel.gpus()));
  }
  return fmt::format("\nNext: plan its clocks: {} --plan\n", arguments.command);
}

/// `--examples` and `--show-example` print what is built in: any option but `--json` would have no effect.
void refuse_with(const CLI::App& app, const std::string& printing) {
  if (app.get_option(printing)->count() == 0) return;
  for (const CLI::Option* const option : app.get_options([](const CLI::Option* given) { return given->count() > 0; })) {
    const std::string name = option->get_name();
    if (name != printing && name != "--json") {
      throw InputError(fmt::format("{}: it prints examples as they are; leave {} out", printing, name));
    }
  }
}

/// That a job does not fit is a result, not a failure: it is printed first, and the exit code is 0.
ExitCode run_estimate(const EstimateArguments& arguments, Console& console) {
  if (arguments.list_examples) return list_examples(arguments, console);
  if (!arguments.shown_example.empty()) return show_example(arguments, console);
  if (!arguments.example.empty()) return run_example_estimate(arguments, console);
  if (arguments.peer_formula) return run_peer_estimate(arguments, console);
  estimator::TrainingJob job = load_job(arguments.job, {arguments.profile, arguments.report});
  const estimator::JobEstimate result = estimate_job(std::move(job), load_samples(arguments.samples));
  const std::optional<estimator::PlannedEstimate> planned = plan_if_asked(arguments, result);
  emit_profile(arguments, result, console);
  if (!arguments.report.empty()) {
    const report::Page page = estimate_page(result, *planned, arguments.planning.prices, arguments.command);
    write_named_file(arguments.report, render_html_page(page), console);
  }
  const int gpus = result.job.parallel.gpus();
  if (arguments.json) {
    Json json = estimate_json(result);
    if (planned) json["plan"] = planned_json(*planned, gpus, arguments.planning.prices);
    console.print_json(json);
  } else {
    console.print(estimate_text(result) + (planned ? planned_text(*planned, gpus, arguments.planning.prices) : "") +
                  next_text(arguments, result));
  }
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_estimate(CLI::App& app) {
  auto arguments = std::make_shared<EstimateArguments>();
  add_job_options(app, arguments->job);
  app.add_option("--operators", arguments->samples,
                 "Folder of sampling files that lowgear sample has written; measured times replace estimated ones "
                 "if it has any")
      ->type_name("DIR");
  CLI::Option* peer = app.add_flag("--peer-formula", arguments->peer_formula,
                                   "Estimate as the published estimator (estimate-train-time) does, with its formula "
                                   "and regressors; --job names a file of its format");
  CLI::Option* list = app.add_flag("--examples", arguments->list_examples, "List the published estimator's examples");
  CLI::Option* show = app.add_option("--show-example", arguments->shown_example,
                                     "Print an example's job, to be changed and read with --peer-formula --job")
                          ->type_name("NAME")
                          ->excludes(list);
  CLI::Option* example = app.add_option("--example", arguments->example,
                                        "Estimate an example with the published formula, from fits to its samples "
                                        "that Lowgear has, or from --operators")
                             ->type_name("NAME")
                             ->excludes(list)
                             ->excludes(show)
                             ->excludes("--job");
  CLI::Option* plan =
      app.add_flag("--plan", arguments->plan,
                   "Also plan clocks: time and energy of the job at the highest clocks and on its frontier");
  add_estimate_plan_options(app, arguments->planning, plan);
  app.add_option("--emit-profile", arguments->profile,
                 "Write an estimated stage profile of all clocks of the GPU to this file, for lowgear plan")
      ->type_name("FILE")
      ->excludes(peer)
      ->excludes(example);
  app.add_option("--html,--report", arguments->report,
                 "Write an HTML page to this file: the parts of time, energy and memory, and the frontier of a plan")
      ->type_name("FILE")
      ->excludes(peer)
      ->excludes(example);
  plan->excludes(peer);
  plan->excludes(example);
  add_json_flag(app, arguments->json);
  group_job_options(app);
  group_options(app, "Layout",
                {"--nodes", "--virtual-stages", "--ep", "--cp", "--recompute", "--zero", "--shard-size", "--offload",
                 "--schedule", "--sequence-parallel", "--no-sequence-parallel"});
  group_options(app, "Plan and costs", {"--straggler", "--policy", "--gpu-hour", "--kwh", "--co2"});
  group_options(app, "Published estimator", {"--peer-formula", "--examples", "--show-example", "--example"});
  return [arguments, &app](Console& console) {
    arguments->command = command_line(app);
    for (const char* printing : {"--examples", "--show-example"}) refuse_with(app, printing);
    return run_estimate(*arguments, console);
  };
}

}  // namespace lowgear::cli
