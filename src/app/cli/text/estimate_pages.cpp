#include "app/cli/text/estimate_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "app/cli/terminal/table.h"
#include "app/cli/text/job_facts.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/units.h"
#include "base/core/version.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/iteration/job_energy.h"
#include "estimating/estimator/memory/memory_estimate.h"
#include "estimating/estimator/search/search.h"
#include "planning/simulator/cluster.h"

namespace lowgear::cli {
namespace {

/// More rows than a reader compares.
constexpr std::size_t kMaxRows = 24;

/// All of some ranks, or that many of them, the first and the last included.
std::vector<std::size_t> shown(std::size_t ranks) {
  std::vector<std::size_t> some;
  const std::size_t count = std::min(ranks, kMaxRows);
  for (std::size_t i = 0; i < count; ++i) some.push_back(count > 1 ? i * (ranks - 1) / (count - 1) : 0);
  return some;
}

std::string rank_name(std::size_t rank) { return fmt::format("rank {}", rank); }

std::string some_ranks_text(std::size_t ranks) {
  return ranks > kMaxRows ? fmt::format(" {} of the {} ranks are shown.", kMaxRows, ranks) : "";
}

/// Index of a part, added where it is new.
std::size_t place_of(std::vector<std::string>& parts, std::string_view name) {
  const auto found = std::ranges::find(parts, name);
  if (found != parts.end()) return static_cast<std::size_t>(found - parts.begin());
  parts.emplace_back(name);
  return parts.size() - 1;
}

std::string_view fit_text(estimator::MemoryFit fit) {
  if (fit == estimator::MemoryFit::exceeds) return "it does not fit";
  return fit == estimator::MemoryFit::near_limit ? "near the limit, it may run" : "it fits";
}

/// One stage waits for no other, so that slower clocks would make it later.
report::Card saving_card(int pp, const estimator::JobFigures& full, const estimator::JobFigures& no_later) {
  const double saved_pct = simulator::saving_pct(full.energy_j, no_later.energy_j);
  const bool nothing = fixed_text(saved_pct, 2) == "0.00";
  return {"Energy without finishing later, planned",
          nothing ? "0.00 %" : fmt::format("{} %", signed_text(-saved_pct, 2)),
          nothing && pp == 1 ? "nothing to save with pp 1: no stage waits for another"
                             : fmt::format("{} \u2192 {}", energy_text(full.energy_j), energy_text(no_later.energy_j))};
}

std::vector<report::Card> cards_of(const estimator::JobEstimate& estimate, const estimator::PlannedEstimate& planned) {
  const estimator::TrainingJob& job = estimate.job;
  const estimator::IterationEstimate& iteration = estimate.iteration;
  const estimator::JobFigures& full = planned.rows[0].figures;
  const estimator::JobFigures& no_later = planned.rows[1].figures;
  const estimator::MemoryEstimate& memory = estimate.memory;
  const double mfu = iteration.model_flops_per_gpu_s / data_sheet_flops(job.gpu, job.dtype);
  return {
      {"Iteration time, estimated", fmt::format("{:.4g} s", iteration.time_s),
       fmt::format("\u00b1 {:.2g} s (90 %), {:.0f} tokens a second", iteration.error_s, iteration.tokens_per_s(job))},
      {"Model FLOPs per GPU, estimated", fmt::format("{:.4g} TFLOP/s", iteration.model_flops_per_gpu_s / kTera),
       fmt::format("{:.1f} % of the peak; {:.1f} % of the pipeline waits", 100 * mfu, 100 * iteration.bubble_share)},
      {"Memory of the fullest GPU, estimated",
       fmt::format("{:.1f} GiB", memory.ranks[memory.fullest_rank()].total() / kGiB),
       fmt::format("of {:.1f} GiB: {}", memory.capacity / kGiB, fit_text(memory.fit()))},
      {"Energy at full clocks, estimated", energy_text(full.energy_j),
       fmt::format("{} per GPU on average", power_text(full.mean_power_w() / job.parallel.gpus()))},
      saving_card(job.parallel.pp, full, no_later)};
}

report::Plot plot_of(const estimator::PlannedEstimate& planned) {
  report::Plot plot{.title = "Time and energy of one iteration",
                    .caption =
                        "All GPUs, planned on estimated values. The energy axis does not start at zero. Drag to "
                        "move; click the plot, then scroll to zoom (or Ctrl + scroll).",
                    .curve_name = "frontier: least energy of any clocks",
                    .curve = {},
                    .marks = {},
                    .mark_names = {}};
  for (const estimator::JobFigures& point : planned.frontier) plot.curve.push_back({point.time_s, point.energy_j});
  for (std::size_t i = 0; i < planned.rows.size(); ++i) {
    const estimator::ClockedJob& row = planned.rows[i];
    const double saved_pct = 100 * (1 - row.figures.energy_j / planned.rows[0].figures.energy_j);
    plot.marks.push_back({.kind = i == 0 ? report::Mark::Kind::baseline : report::Mark::Kind::plan,
                          .name = row.name,
                          .basis = row.basis,
                          .label = i == 0 ? row.name : fmt::format("{}: {:.2f} % saved", row.name, saved_pct),
                          .chosen = i == 1,
                          .point = {row.figures.time_s, row.figures.energy_j}});
  }
  return plot;
}

report::Table planned_table(const estimator::PlannedEstimate& planned, const PriceArguments& prices, int gpus) {
  report::Table table{.title = "Plans compared",
                      .basis = "planned on estimated values",
                      .columns = {"One iteration", "Basis", "Time", "Energy", "Saved", "Mean power"},
                      .rows = {},
                      .chosen = 1};
  if (prices.any_cost()) table.columns.emplace_back("Cost");
  if (prices.co2_g_per_kwh) table.columns.emplace_back("CO2");
  for (const estimator::ClockedJob& row : planned.rows) {
    const estimator::JobFigures& figures = row.figures;
    const double saved_pct = 100 * (1 - figures.energy_j / planned.rows[0].figures.energy_j);
    std::vector<std::string> cells{row.name,
                                   row.basis,
                                   fmt::format("{:.4g} s", figures.time_s),
                                   energy_text(figures.energy_j),
                                   fmt::format("{:.2f} %", saved_pct),
                                   power_text(figures.mean_power_w())};
    if (prices.any_cost()) {
      cells.push_back(fmt::format("${:.4g}", prices.prices().cost_usd(figures.time_s, figures.energy_j, gpus)));
    }
    if (prices.co2_g_per_kwh) cells.push_back(mass_text(prices.prices().co2_g(figures.energy_j)));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::vector<std::string> warnings_of(const estimator::JobEstimate& estimate,
                                     const estimator::PlannedEstimate& planned) {
  std::vector<std::string> warnings;
  const MemoryVerdict memory = memory_verdict(estimate);
  if (!memory.headline.empty()) {
    const bool alone = memory.remedies.empty();
    warnings.push_back(fmt::format("{}.{}{}{}", memory.headline, alone ? "" : " ", fmt::join(memory.remedies, "; "),
                                   alone ? "" : "."));
  }
  for (const std::string& note : estimate.iteration.notes) warnings.push_back(note);
  if (!planned.note.empty()) warnings.push_back(planned.note);
  return warnings;
}

report::Table memory_table(const estimator::JobEstimate& estimate) {
  const std::size_t rank = estimate.memory.fullest_rank();
  report::Table table{.title = fmt::format("Memory of {}, the fullest", rank_name(rank)),
                      .basis = "estimated",
                      .columns = {"Part", "Memory", "From"},
                      .rows = {},
                      .chosen = std::nullopt};
  for (const estimator::MemoryPart& part : memory_parts(estimate.job, estimate.memory, rank)) {
    table.rows.push_back({std::string(part.name), gib_text(part.bytes) + " GiB", part.reason});
  }
  if (const double host = estimate.memory.ranks[rank].host; host > 0) {
    table.rows.push_back({"in the memory of its CPU", gib_text(host) + " GiB", "offloaded, not in the total"});
  }
  return table;
}

report::Table stacks_table(const estimator::JobEstimate& estimate) {
  report::Table table{.title = "The same job on other software",
                      .basis = "estimated, full clocks",
                      .columns = {"Software stack", "Time", "Change", "Memory of the fullest GPU"},
                      .rows = {},
                      .chosen = std::nullopt};
  for (const estimator::StackEstimate& stack : estimate.stacks) {
    if (stack.name == describe(estimate.job.stack)) table.chosen = table.rows.size();
    table.rows.push_back({stack.name, fmt::format("{} s", seconds_text(stack.time_s)),
                          fmt::format("{} %", signed_text(100 * (stack.time_s / estimate.iteration.time_s - 1), 1)),
                          gib_text(stack.memory_bytes) + (stack.fits ? " GiB" : " GiB, does not fit")});
  }
  return table;
}

std::vector<report::Entry> facts_of(const estimator::TrainingJob& job) {
  std::vector<report::Entry> facts{
      {"Layout", describe(layout_of(job))},
      {"Batch", fmt::format("{} \u00d7 {} tokens", job.batch.global, job.batch.sequence_length)},
      {"Microbatches", fmt::format("{}, {}", job.microbatches(), job.schedule)},
      {"Type", std::string(name(job.dtype))},
      {"Attention", std::string(name(job.attention))},
      {"Software", describe(job.stack)},
      {"Power by clock", job.gpu.power_source}};
  if (job.dropout > 0) facts.push_back({"Dropout", fmt::format("{}", job.dropout)});
  if (job.offload != estimator::Offload::none) facts.push_back({"Offloaded", std::string(name(job.offload))});
  if (job.parallel.gpus() > 1) {
    facts.push_back({"Links of a GPU", links_text(job)});
    facts.push_back({"Overlapped", overlapped_text(job)});
  }
  return facts;
}

std::string full_clocks_reading(const estimator::JobEstimate& estimate) {
  const std::string limited = limited_clocks_text(estimate);
  const int max_mhz = estimate.job.gpu.clocks.max_mhz;
  return limited.empty() ? fmt::format("Every GPU runs at its highest clock, {} MHz, all the time.", max_mhz)
                         : fmt::format("Every GPU requests its highest clock all the time, and runs at {}.", limited);
}

/// The file's name without its ending, or the folder's where every file is called config.json.
std::string model_title(const std::string& name) {
  const std::filesystem::path path(name);
  if (path.extension() != ".json") return name;
  const std::string folder = path.parent_path().filename().string();
  return path.stem() == "config" && folder.find_first_not_of('.') != std::string::npos ? folder : path.stem().string();
}

}  // namespace

std::string job_title(const estimator::TrainingJob& job, int gpus) {
  return fmt::format("{} on {} {}", model_title(job.model.name), gpus, describe(job.gpu));
}

report::Bars time_bars(const estimator::TrainingJob& job, const estimator::IterationEstimate& iteration) {
  const auto ranks = static_cast<std::size_t>(job.parallel.pp);
  report::Bars bars{.title = "Where the time goes",
                    .basis = "estimated, full clocks",
                    .caption = "One iteration on a GPU of each pipeline rank." + some_ranks_text(ranks),
                    .quantity = report::Quantity::time,
                    .parts = {},
                    .rows = {},
                    .limit = std::nullopt,
                    .limit_name = ""};
  std::vector<std::vector<estimator::TimePart>> breakdowns;
  for (const std::size_t rank : shown(ranks)) {
    breakdowns.push_back(time_breakdown(job, iteration, static_cast<int>(rank)));
    // Computation first, then the parts that every rank has at its end.
    for (const estimator::TimePart& part : breakdowns.back()) {
      if (part.name != estimator::kWaitingPart && part.name != estimator::kGradientsPart &&
          part.name != estimator::kOptimizerPart) {
        place_of(bars.parts, part.name);
      }
    }
    bars.rows.push_back({rank_name(rank), {}});
  }
  for (const std::string_view part : {estimator::kWaitingPart, estimator::kGradientsPart, estimator::kOptimizerPart})
    place_of(bars.parts, part);
  for (std::size_t row = 0; row < bars.rows.size(); ++row) {
    bars.rows[row].amounts.assign(bars.parts.size(), 0);
    for (const estimator::TimePart& part : breakdowns[row]) {
      bars.rows[row].amounts[place_of(bars.parts, part.name)] += part.time_s;
    }
  }
  return bars;
}

report::Bars energy_bars(const estimator::TrainingJob& job, const estimator::IterationEstimate& iteration) {
  const estimator::JobEnergy energy = estimate_energy(job, iteration);
  report::Bars bars{
      .title = "Where the energy goes",
      .basis = "estimated, full clocks",
      .caption = fmt::format("One iteration on a GPU of each pipeline rank; each stands for {} GPUs.{}",
                             energy.gpus_per_rank, some_ranks_text(energy.ranks.size())),
      .quantity = report::Quantity::energy,
      .parts = {"static power", "multiprocessors", "memory", "links", "waiting", "gradients and optimizer"},
      .rows = {},
      .limit = std::nullopt,
      .limit_name = ""};
  for (const std::size_t rank : shown(energy.ranks.size())) {
    const estimator::EnergySplit& split = energy.ranks[rank];
    bars.rows.push_back(
        {rank_name(rank),
         {split.static_j, split.compute_j, split.memory_j, split.link_j, split.waiting_j, energy.rest.total_j()}});
  }
  return bars;
}

report::Bars memory_bars(const estimator::MemoryEstimate& memory) {
  report::Bars bars{
      .title = "Where the memory goes",
      .basis = "estimated",
      .caption = "A GPU of each pipeline rank at its fullest moment." + some_ranks_text(memory.ranks.size()),
      .quantity = report::Quantity::bytes,
      .parts = {"weights", "gradients", "optimizer", "activations", "buffers", "margin"},
      .rows = {},
      .limit = memory.capacity,
      .limit_name = "capacity"};
  for (const std::size_t rank : shown(memory.ranks.size())) {
    const estimator::RankMemory& part = memory.ranks[rank];
    bars.rows.push_back(
        {rank_name(rank),
         {part.weights, part.gradients, part.optimizer, part.activations, part.buffers, part.fragmentation}});
  }
  return bars;
}

report::Page estimate_page(const estimator::JobEstimate& estimate, const estimator::PlannedEstimate& planned,
                           const PriceArguments& prices, std::string command) {
  const estimator::TrainingJob& job = estimate.job;
  const int gpus = job.parallel.gpus();
  return {
      .lowgear_version = version(),
      .command = std::move(command),
      .title = job_title(job, gpus),
      .facts = facts_of(job),
      .cards = cards_of(estimate, planned),
      .warnings = warnings_of(estimate, planned),
      .plot = plot_of(planned),
      .bars = {time_bars(job, estimate.iteration), energy_bars(job, estimate.iteration), memory_bars(estimate.memory)},
      .tables = {planned_table(planned, prices, gpus), stacks_table(estimate), memory_table(estimate)},
      .reading = {{"Estimated",
                   "Computed from data sheets and sampled kernels. Nothing on this page was measured on this job."},
                  {"Planned", "Clocks chosen by Lowgear's planner on the estimated stage profile, and replayed on it."},
                  {"Full clocks", full_clocks_reading(estimate)},
                  {"No later", "The plan of least energy that takes no longer than full clocks."},
                  {"Least energy", "A slower iteration only uses more energy."},
                  {"Energy", "Of all GPUs of the job in one iteration, without CPUs, network and cooling."}}};
}

}  // namespace lowgear::cli
