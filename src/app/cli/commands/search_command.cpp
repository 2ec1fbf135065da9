#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "app/cli/arguments/estimate_input.h"
#include "app/cli/arguments/options.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/process.h"
#include "app/cli/terminal/progress.h"
#include "app/cli/terminal/table.h"
#include "app/cli/text/estimate_text.h"
#include "app/cli/text/job_facts.h"
#include "app/cli/text/power_search_text.h"
#include "app/cli/text/search_page.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/units.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/search/power_search.h"
#include "estimating/estimator/search/search_run.h"
#include "planning/simulator/cluster.h"

namespace lowgear::cli {
namespace {

/// Differences below this share of the iteration explain nothing.
constexpr double kTellingShare = 0.002;
constexpr std::size_t kMaxReasons = 5;

double utilization(const estimator::SearchRequest& request, const estimator::SearchResult& result) {
  return result.model_flops_per_gpu_s / data_sheet_flops(request.job.gpu, request.job.dtype);
}

std::string head_text(const estimator::SearchRequest& request, const estimator::SearchReportData& found) {
  return fmt::format(
      "{} on {} {}, global batch {} x {} tokens, stack {}: best by {}\n"
      "power by clock {}\n"
      "{} layouts divide evenly: {} fit into memory and are estimated, {} do not fit\n"
      "planned: {}. Searched in {:.2f} s, planning included\n\n",
      request.job.model.name, request.limits.gpus, describe(request.job.gpu), request.job.batch.global,
      request.job.batch.sequence_length, describe(request.job.stack), name(request.objective),
      request.job.gpu.power_source, found.layouts, found.results.size(), found.too_large,
      planned_count_text(request, found), found.search_s);
}

std::string memory_text(const estimator::SearchResult& result) {
  return fmt::format("{:.1f}{}", result.memory_bytes / kGiB, result.near_limit ? ", near the limit" : "");
}

std::string best_text(const estimator::SearchRequest& request, const PriceArguments& prices,
                      const estimator::SearchReportData& found) {
  std::vector<Table::Column> columns{{"#"},           {"layout", Table::Align::left},
                                     {"time s"},      {"+- s"},
                                     {"MFU %"},       {"GiB"},
                                     {"full clocks"}, {"planned"},
                                     {"saved %"}};
  if (prices.any_cost()) columns.push_back({"cost $"});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    const estimator::PlannedLayout& layout = found.best[i];
    std::vector<std::string> cells{
        fmt::to_string(i + 1),
        describe(layout.result.layout),
        seconds_text(layout.result.time_s),
        seconds_text(layout.result.error_s),
        fmt::format("{:.1f}", 100 * utilization(request, layout.result)),
        memory_text(layout.result),
        energy_text(layout.full_clocks.energy_j),
        energy_text(layout.no_later.energy_j),
        fmt::format("{:.2f}", simulator::saving_pct(layout.full_clocks.energy_j, layout.no_later.energy_j))};
    if (prices.any_cost()) {
      cells.push_back(fmt::format(
          "{:.4g}", prices.prices().cost_usd(layout.no_later.time_s, layout.no_later.energy_j, request.limits.gpus)));
    }
    table.add_row(std::move(cells));
  }
  return table.text();
}

std::string reasons_text(const estimator::SearchReportData& found) {
  if (found.rival == 0) return "";
  const estimator::SearchResult& winner = found.results.front();
  const estimator::SearchResult& rival = found.results[found.rival];
  const bool is_planned = found.rival < found.best.size();
  const double more_j = is_planned ? found.best.front().no_later.energy_j - found.best[found.rival].no_later.energy_j
                                   : winner.planned_energy_j - rival.planned_energy_j;
  std::string text = fmt::format(
      "\nwhy it is best: compared with the best layout of another tp or pp, number {}{} ({}),\n{} s in time and "
      "{} {} with clocks that cost no time{}\n",
      found.rival + 1, is_planned ? "" : ", which a larger --top shows", describe(rival.layout),
      signed_text(winner.time_s - rival.time_s, 3), energy_text(std::abs(more_j)), more_j > 0 ? "more" : "less",
      is_planned ? ", as planned" : ", both by a quick estimate");
  std::size_t reasons = 0;
  for (const estimator::TimeDifference& part : found.why) {
    const double change_s = part.winner_s - part.rival_s;
    if (std::abs(change_s) < kTellingShare * winner.time_s || reasons++ == kMaxReasons) break;
    text += fmt::format("  {:<24} {:+.3f} s ({:.3f} s against {:.3f} s)\n", part.part, change_s, part.winner_s,
                        part.rival_s);
  }
  return text;
}

std::string front_text(const estimator::SearchReportData& found) {
  if (found.pareto.size() < 2) return "\none layout is best in both time and energy, by a quick estimate of energies\n";
  const estimator::SearchResult& fastest = found.results[found.pareto.front()];
  const estimator::SearchResult& leanest = found.results[found.pareto.back()];
  return fmt::format(
      "\n{} layouts are not beaten in both time and energy, from {:.3f} s and {} by a quick estimate ({})\n"
      "to {:.3f} s and {} by a quick estimate ({})\n",
      found.pareto.size(), fastest.time_s, energy_text(fastest.planned_energy_j), describe(fastest.layout),
      leanest.time_s, energy_text(leanest.planned_energy_j), describe(leanest.layout));
}

/// A schedule is asked for where the layout needs another than the job has.
std::string command_for(const estimator::SearchRequest& request, const estimator::SearchLayout& layout,
                        const std::string& estimate_command) {
  estimator::TrainingJob job = request.job;
  apply(layout, job);
  return fmt::format("{} {}{}", estimate_command, options_of(layout),
                     job.schedule == request.job.schedule ? "" : " --schedule " + job.schedule);
}

/// One stage has no clocks to plan.
std::string next_text(const estimator::SearchRequest& request, const estimator::SearchLayout& layout,
                      const std::string& estimate_command) {
  const std::string command = command_for(request, layout, estimate_command);
  if (layout.parallel.pp > 1)
    return fmt::format("\nNext: estimate the first and plan its clocks: {} --plan\n", command);
  return fmt::format(
      "\nPlans save nothing in the same time where no stage waits for another (pp 1): --objective energy finds layouts "
      "that use less;\nlowgear run --search slowdown=2% finds one lower clock.\nNext: estimate the first: {}\n",
      command);
}

Json result_json(const estimator::SearchRequest& request, const estimator::SearchResult& result) {
  return {{"layout", search_layout_json(result.layout)},
          {"options", options_of(result.layout)},
          {"time_s", result.time_s},
          {"error_s", result.error_s},
          {"mfu", utilization(request, result)},
          {"memory_bytes", result.memory_bytes},
          {"near_limit", result.near_limit},
          {"energy_j", result.energy_j},
          {"quick_planned_energy_j", result.planned_energy_j}};
}

Json figures_json(const estimator::JobFigures& figures) {
  return {{"time_s", figures.time_s}, {"energy_j", figures.energy_j}};
}

/// The best layouts as a table, their number, and why the first is the best.
std::string search_text(const estimator::SearchRequest& request, const PriceArguments& prices,
                        const estimator::SearchReportData& found, const std::string& estimate_command) {
  return head_text(request, found) + best_text(request, prices, found) + reasons_text(found) + front_text(found) +
         notes_text(estimator::search_notes(request.job)) +
         next_text(request, found.results.front().layout, estimate_command);
}

Json search_json(const estimator::SearchRequest& request, const PriceArguments& prices,
                 const estimator::SearchReportData& found) {
  Json best = Json::array();
  for (const estimator::PlannedLayout& layout : found.best) {
    Json row = result_json(request, layout.result);
    row["full_clocks"] = figures_json(layout.full_clocks);
    row["no_later"] = figures_json(layout.no_later);
    row["least_energy"] = figures_json(layout.least_energy);
    if (prices.any_cost()) {
      row["cost_usd"] = prices.prices().cost_usd(layout.no_later.time_s, layout.no_later.energy_j, request.limits.gpus);
    }
    if (prices.co2_g_per_kwh) row["co2_g"] = prices.prices().co2_g(layout.no_later.energy_j);
    best.push_back(std::move(row));
  }
  Json pareto = Json::array();
  for (const std::size_t index : found.pareto) pareto.push_back(result_json(request, found.results[index]));
  Json why = Json::array();
  for (const estimator::TimeDifference& part : found.why) {
    why.push_back({{"part", part.part}, {"winner_s", part.winner_s}, {"rival_s", part.rival_s}});
  }
  return {{"format", "lowgear.search/1"},
          {"figures", "estimated; full_clocks, no_later and least_energy planned on estimated values"},
          {"objective", name(request.objective)},
          {"gpus", request.limits.gpus},
          {"stack", request.job.stack.name},
          {"layouts", found.layouts},
          {"invalid", found.invalid},
          {"too_large", found.too_large},
          {"estimated", found.results.size()},
          {"planned", found.planned},
          {"open_rivals", found.open_rivals},
          {"search_s", found.search_s},
          {"rival", found.rival > 0 ? result_json(request, found.results[found.rival]) : Json(nullptr)},
          {"best", std::move(best)},
          {"pareto", std::move(pareto)},
          {"why", std::move(why)},
          {"notes", estimator::search_notes(request.job)}};
}

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
  std::optional<int> shard_size;
  estimator::FacilityPower facility;  ///< without a limit: a search for one number of GPUs
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
  add("--microbatch,--micro-batch", {1, kMaxMicroBatch}, fixed.micro_batch, "sequences per microbatch");
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

/// Those that are said, else those of the job file. Within a power they are an upper limit that is said or none.
int gpus_of(const SearchArguments& arguments, const estimator::TrainingJob& job) {
  if (arguments.facility.limit_w > 0) return arguments.gpus.value_or(estimator::kMaxJobGpus);
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
  request.job =
      load_job(arguments.job, {arguments.report}, arguments.gpus || arguments.facility.limit_w > 0 ? "" : "--gpus");
  if (arguments.shard_size) request.job.shard_size = *arguments.shard_size;
  request.limits = arguments.limits;
  request.limits.gpus = gpus_of(arguments, request.job);
  request.samples = load_samples(arguments.samples);
  request.objective = arguments.objective;
  request.prices = arguments.prices.prices();
  request.top = arguments.top;
  request.threads = arguments.threads.value_or(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  return request;
}

estimator::SearchTools search_tools() {
  return {.run = run_parallel, .now_s = wall_clock(), .available_bytes = available_memory_bytes};
}

/// Estimates the best layout within a power, and plans its clocks for the time that was found.
std::string next_within_power(const SearchArguments& arguments, const PowerSearchResult& result) {
  constexpr double kDigits = 1e4;
  const estimator::PoweredLayout& best = result.found.best;
  const std::string command =
      command_for(result.request, best.layout, estimate_command(arguments, best.layout.parallel.gpus()));
  const estimator::ClockSpread& clocks = best.clocks;
  if (clocks.lowest_mhz == clocks.highest_mhz && clocks.highest_mhz < result.request.job.gpu.clocks.max_mhz) {
    return fmt::format("\nNext: estimate the best, and lock the clock of its GPUs at {} MHz when it runs: {}\n",
                       clocks.highest_mhz, command);
  }
  return fmt::format("\nNext: estimate the best and plan its clocks: {} --plan --deadline {}\n", command,
                     std::ceil(best.figures.time_s * kDigits) / kDigits);
}

ExitCode run_power_search_command(const SearchArguments& arguments, Console& console) {
  const estimator::SearchRequest request = request_of(arguments);
  if (!arguments.report.empty()) check_writable(arguments.report);
  std::optional<ProgressBar> progress(std::in_place);
  const estimator::PowerSearchData found = run_power_search(request, arguments.facility, search_tools(), *progress);
  progress.reset();
  const PowerSearchResult result{request, arguments.facility, found};
  if (!arguments.report.empty()) {
    write_named_file(arguments.report, render_html_page(power_search_page(result, arguments.command)), console);
  }
  if (arguments.json) {
    console.print_json(power_search_json(result));
  } else {
    console.print(power_search_text(result) + notes_text(estimator::search_notes(request.job)) +
                  next_within_power(arguments, result));
  }
  return ExitCode::ok;
}

ExitCode run_search_command(const SearchArguments& arguments, Console& console) {
  const estimator::SearchRequest request = request_of(arguments);
  if (!arguments.report.empty()) check_writable(arguments.report);
  std::optional<ProgressBar> progress(std::in_place);
  const estimator::SearchTools tools = search_tools();
  const estimator::SearchReportData found = run_search(request, tools, *progress);
  progress.reset();
  if (!arguments.report.empty()) {
    const report::Page page = search_page(request, arguments.prices, found, arguments.command);
    write_named_file(arguments.report, render_html_page(page), console);
  }
  if (arguments.json) {
    console.print_json(search_json(request, arguments.prices, found));
  } else {
    console.print(search_text(request, arguments.prices, found, estimate_command(arguments, request.limits.gpus)));
  }
  return ExitCode::ok;
}

/// Numbers of GPUs are chosen within a power. Prices and other objectives go with one number of GPUs.
void add_power_options(CLI::App& app, estimator::FacilityPower& facility) {
  constexpr NumberRange<double> kPower{1, 1e12};
  constexpr NumberRange<double> kOverhead{0, 1e9};
  CLI::Option* const power =
      add_quantity(app, "--power", Unit::watt, kPower, into(facility.limit_w),
                   "Power of a facility (1MW): find the number of GPUs, layout and clocks with most tokens a second "
                   "within it. --gpus is then the largest number to try, --top of layouts to plan");
  const auto add = [&](const char* option, double& overhead_w, const char* help) {
    add_quantity(app, option, Unit::watt, kOverhead, into(overhead_w), help)->needs(power);
  };
  add("--gpu-overhead", facility.gpu_overhead_w, "Power that each GPU takes besides its own (default 0)");
  add("--node-overhead", facility.node_overhead_w, "Power that each node takes besides (default 0)");
  for (const char* const other : {"--objective", "--gpu-hour", "--kwh", "--co2"})
    power->excludes(app.get_option(other));
}

}  // namespace

VerbAction declare_search(CLI::App& app) {
  auto arguments = std::make_shared<SearchArguments>();
  add_job_options(app, arguments->job);
  for (const char* option : layout_options()) app.remove_option(app.get_option(option));
  add_whole_number(app, "--gpus", {1, estimator::kMaxJobGpus}, into(arguments->gpus),
                   "GPUs to divide the job among (default: those of the job file)");
  add_fixed_options(app, arguments->limits.fixed);
  add_whole_number(app, "--shard-size", {1, estimator::kMaxJobGpus}, into(arguments->shard_size),
                   "Only layouts in which ZeRO divides states among so many ranks of dp x cp (hybrid sharding)");
  add_choice(
      app, "--objective", kObjectives,
      [arguments](std::size_t place) { arguments->objective = static_cast<estimator::SearchObjective>(place); },
      "Quantity to minimise: time, energy of a plan that takes no longer, or its cost (default time)");
  add_whole_number(app, "--top", {1, kMaxTop}, into(arguments->top), "Layouts to plan and show (default 10)");
  app.add_option("--operators", arguments->samples,
                 "Folder of sampling files that lowgear sample has written; measured times replace estimated ones "
                 "if it has any")
      ->type_name("DIR");
  add_price_options(app, arguments->prices);
  add_power_options(app, arguments->facility);
  app.add_flag("--tp-across-nodes", arguments->limits.tensor_across_nodes, "Also try tensor parallelism across nodes");
  add_whole_number(app, "--max-virtual-stages", {1, kMaxVirtualStages}, into(arguments->limits.max_virtual_stages),
                   "Largest number of virtual stages per rank to try (default 8)");
  add_whole_number(app, "--max-cp", {1, estimator::kMaxJobGpus}, into(arguments->limits.max_context_parallel),
                   "Largest number of context parallel ranks to try (default 8)");
  add_whole_number(app, "--max-microbatch,--max-micro-batch", {1, kMaxMicroBatch},
                   into(arguments->limits.max_micro_batch),
                   "Largest number of sequences per microbatch to try (default 16)");
  add_whole_number(app, "--threads", {1, kMaxThreads}, into(arguments->threads),
                   "Threads that estimate layouts (default: one per core)");
  app.add_option("--html,--report", arguments->report,
                 "Write an HTML page to this file: the layouts by time and energy, and why the first is best")
      ->type_name("FILE");
  add_json_flag(app, arguments->json);
  group_job_options(app);
  group_options(app, "Layouts to try",
                {"--tp", "--pp", "--dp", "--virtual-stages", "--ep", "--cp", "--microbatch", "--zero", "--shard-size",
                 "--recompute", "--tp-across-nodes", "--max-virtual-stages", "--max-cp", "--max-microbatch"});
  return [arguments, &app](Console& console) {
    arguments->command = command_line(app);
    return arguments->facility.limit_w > 0 ? run_power_search_command(*arguments, console)
                                           : run_search_command(*arguments, console);
  };
}

}  // namespace lowgear::cli
