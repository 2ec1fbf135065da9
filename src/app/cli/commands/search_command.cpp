#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "app/cli/arguments/command_line.h"
#include "app/cli/arguments/job_input.h"
#include "app/cli/arguments/options.h"
#include "app/cli/arguments/price_arguments.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/runs/sample_folder.h"
#include "app/cli/terminal/memory.h"
#include "app/cli/terminal/parallel_tasks.h"
#include "app/cli/terminal/progress_bar.h"
#include "app/cli/text/search_page.h"
#include "app/cli/text/search_text.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/stopwatch.h"
#include "estimating/estimator/search/search_run.h"

namespace lowgear::cli {
namespace {

constexpr auto kObjectives = std::to_array<std::string_view>({"time", "energy", "cost"});
constexpr int kMaxTop = 1000;
constexpr int kMaxThreads = 1024;
constexpr int kMaxVirtualStages = 1024;
constexpr int kMaxMicroBatch = 1 << 20;

struct SearchArguments {
  JobArguments job;
  std::string samples;  ///< a folder, or empty
  PriceArguments prices;
  std::optional<int> gpus;
  estimator::SearchLimits limits;
  estimator::SearchObjective objective = estimator::SearchObjective::time;
  int top = 10;
  std::optional<int> threads;
  std::string report;   ///< page to write, or empty
  std::string command;  ///< the command line, for the page
  bool json = false;
};

constexpr auto kRecomputes =
    std::to_array({estimator::Recompute::none, estimator::Recompute::selective, estimator::Recompute::full});

/// What layouts are to have in common.
void add_fixed_options(CLI::App& app, estimator::FixedLayout& fixed) {
  const auto add = [&app](const char* option, NumberRange<int> range, std::optional<int>& count, const char* what) {
    add_whole_number(app, option, range, into(count), fmt::format("Only layouts with this number of {}", what));
  };
  constexpr NumberRange<int> kRanks{1, estimator::kMaxJobGpus};
  add("--tp", kRanks, fixed.tp, "tensor parallel ranks");
  add("--pp", kRanks, fixed.pp, "pipeline ranks");
  add("--dp", kRanks, fixed.dp, "data parallel replicas");
  add("--virtual-stages", kRanks, fixed.virtual_stages, "virtual stages per pipeline rank");
  add("--ep", kRanks, fixed.ep, "expert parallel ranks");
  add("--cp", kRanks, fixed.cp, "context parallel ranks");
  add("--micro-batch", {1, kMaxMicroBatch}, fixed.micro_batch, "sequences per microbatch");
  add_whole_number(app, "--zero", {0, 3}, into(fixed.zero), "Only layouts with this ZeRO stage");
  static constexpr std::array<std::string_view, kRecomputes.size()> kNames{"none", "selective", "full"};
  add_choice(
      app, "--recompute", kNames, [&fixed](std::size_t place) { fixed.recompute = kRecomputes[place]; },
      "Only layouts that recompute these activations: none, selective or full");
}

void require_prices(const SearchArguments& arguments) {
  if (arguments.objective != estimator::SearchObjective::cost || arguments.prices.any_cost()) return;
  throw InputError("--objective cost: give the price of a GPU hour (--gpu-hour) or of a kWh (--kwh)");
}

/// Those that are said, else those of the job file.
int gpus_of(const SearchArguments& arguments, const estimator::TrainingJob& job) {
  const int gpus = arguments.gpus.value_or(job.parallel.gpus());
  if (!arguments.gpus && gpus == 1) throw InputError("--gpus is missing: give the number of GPUs");
  return gpus;
}

/// Options that make the job again; those of a layout come after them.
std::string estimate_command(const SearchArguments& arguments, int gpus) {
  std::string command = "lowgear estimate" + words_without_layout(arguments.job);
  if (!arguments.samples.empty()) command += " --operators " + shell_word(arguments.samples);
  return command + fmt::format(" --gpus {}", gpus);
}

estimator::SearchRequest request_of(const SearchArguments& arguments) {
  require_prices(arguments);
  estimator::SearchRequest request;
  request.job = load_job(arguments.job);
  request.limits = arguments.limits;
  request.limits.gpus = gpus_of(arguments, request.job);
  request.samples = load_samples(arguments.samples);
  request.objective = arguments.objective;
  request.prices = arguments.prices.prices();
  request.top = arguments.top;
  request.threads = arguments.threads.value_or(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  return request;
}

ExitCode run_search_command(const SearchArguments& arguments, Console& console) {
  const estimator::SearchRequest request = request_of(arguments);
  std::optional<ProgressBar> progress(std::in_place);
  const estimator::SearchTools tools{
      .run = run_parallel, .now_s = wall_clock(), .available_bytes = available_memory_bytes};
  const estimator::SearchReportData found = run_search(request, tools, *progress);
  progress.reset();
  if (!arguments.report.empty()) {
    const report::EstimateReport page = search_page(request, arguments.prices, found, arguments.command);
    write_file_atomically(arguments.report, render_estimate_report(page));
  }
  if (arguments.json) {
    console.print_json(search_json(request, arguments.prices, found));
  } else {
    console.print(search_text(request, arguments.prices, found, estimate_command(arguments, request.limits.gpus)));
  }
  return ExitCode::ok;
}

}  // namespace

VerbAction declare_search(CLI::App& app) {
  auto arguments = std::make_shared<SearchArguments>();
  add_job_options(app, arguments->job);
  for (const char* option : layout_options()) app.remove_option(app.get_option(option));
  add_whole_number(app, "--gpus", {1, estimator::kMaxJobGpus}, into(arguments->gpus),
                   "GPUs to divide the job among (default: those of the job file)");
  add_fixed_options(app, arguments->limits.fixed);
  add_choice(
      app, "--objective", kObjectives,
      [arguments](std::size_t place) { arguments->objective = static_cast<estimator::SearchObjective>(place); },
      "What to minimise: time, energy of a plan that takes no longer, or its cost (default time)");
  add_whole_number(app, "--top", {1, kMaxTop}, into(arguments->top), "Layouts to plan and show (default 10)");
  app.add_option("--operators", arguments->samples,
                 "Folder of sampling files that lowgear sample has written; measured times replace estimated ones "
                 "where there are any")
      ->type_name("DIR");
  add_price_options(app, arguments->prices);
  app.add_flag("--tp-across-nodes", arguments->limits.tensor_across_nodes, "Also try tensor parallelism across nodes");
  add_whole_number(app, "--max-virtual-stages", {1, kMaxVirtualStages}, into(arguments->limits.max_virtual_stages),
                   "Largest number of virtual stages per rank to try (default 8)");
  add_whole_number(app, "--max-cp", {1, estimator::kMaxJobGpus}, into(arguments->limits.max_context_parallel),
                   "Largest number of context parallel ranks to try (default 8)");
  add_whole_number(app, "--max-micro-batch", {1, kMaxMicroBatch}, into(arguments->limits.max_micro_batch),
                   "Largest number of sequences per microbatch to try (default 16)");
  add_whole_number(app, "--threads", {1, kMaxThreads}, into(arguments->threads),
                   "Threads that estimate layouts (default: one per core)");
  app.add_option("--report", arguments->report,
                 "Write an HTML page to this file: the layouts by time and energy, and why the first is best")
      ->type_name("FILE");
  add_json_flag(app, arguments->json);
  return [arguments, &app](Console& console) {
    arguments->command = command_line(app);
    return run_search_command(*arguments, console);
  };
}

}  // namespace lowgear::cli
