#include "app/cli/text/estimate_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/arguments/estimate_input.h"
#include "app/cli/arguments/options.h"
#include "app/cli/terminal/table.h"
#include "app/cli/text/job_facts.h"
#include "base/core/error.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/units.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/iteration/job_energy.h"
#include "planning/simulator/cluster.h"

namespace lowgear::cli {
namespace {

constexpr double kBillion = 1e9;
/// More ranks are shown as the first, the fullest and the last.
constexpr std::size_t kMaxRankRows = 16;
/// Parts of an iteration that take less are not shown: they would be 0.000 s.
constexpr double kLeastShownS = 0.0005;

std::string parameters_text(double count) {
  return count < kBillion ? fmt::format("{:.0f} million", count / 1e6)
                          : fmt::format("{:.2f} billion", count / kBillion);
}

std::string overflow_text(const estimator::JobEstimate& estimate) {
  const MemoryVerdict verdict = memory_verdict(estimate);
  if (verdict.headline.empty()) return "";
  std::string text = verdict.headline + "\n";
  for (const std::string& remedy : verdict.remedies) text += fmt::format("  {}\n", remedy);
  return text + "\n";
}

std::string layout_text(const estimator::TrainingJob& job) {
  const estimator::ParallelLayout& parallel = job.parallel;
  std::string text = fmt::format("dp {} x tp {} x pp {}", parallel.dp, parallel.tp, parallel.pp);
  if (parallel.cp > 1) text += fmt::format(" x cp {}", parallel.cp);
  if (parallel.ep > 1) text += fmt::format(", ep {}", parallel.ep);
  if (parallel.virtual_stages > 1) text += fmt::format(", {} virtual stages per rank", parallel.virtual_stages);
  if (parallel.sequence_parallel) text += ", sequence parallel";
  text += ", " + estimator::sharding_text(job.zero, job.shard_size);
  if (job.offload != estimator::Offload::none) text += fmt::format(", {} offloaded", name(job.offload));
  if (job.dropout > 0) text += fmt::format(", dropout {}", job.dropout);
  return text + fmt::format(", {}, {} attention, {}, stack {}", recomputation_text(job.recompute), name(job.attention),
                            name(job.dtype), describe(job.stack));
}

/// What the job assumes of links and of communication beside computation.
std::string assumptions_text(const estimator::TrainingJob& job) {
  if (job.parallel.gpus() == 1) return "";
  return fmt::format("links of a GPU {}; overlapped: {}\n", links_text(job), overlapped_text(job));
}

std::string job_text(const estimator::TrainingJob& job) {
  const auto parameters = static_cast<double>(parameter_count(job.model));
  const estimator::BatchShape& batch = job.batch;
  const bool is_named = job.model.name != "model";  // as one is called that is written out in the job
  return fmt::format(
      "{} parameters, on {} {} in nodes of {}\n{}\npower by clock {}\nglobal batch {} x {} tokens: {} of {}, {}\n{}\n",
      is_named ? fmt::format("{}, {}", job.model.name, parameters_text(parameters))
               : fmt::format("a model of {}", parameters_text(parameters)),
      job.parallel.gpus(), describe(job.gpu), job.cluster.gpus_per_node, layout_text(job), job.gpu.power_source,
      batch.global, batch.sequence_length, counted(job.microbatches(), "microbatch", "microbatches"), batch.micro,
      job.schedule, assumptions_text(job));
}

double utilization(const estimator::JobEstimate& estimate) {
  return estimate.iteration.model_flops_per_gpu_s / data_sheet_flops(estimate.job.gpu, estimate.job.dtype);
}

/// The highest clock is not one where the power limit holds passes below it.
std::string full_clocks_text(const estimator::JobEstimate& estimate) {
  const std::string clocks = limited_clocks_text(estimate);
  return clocks.empty() ? "" : fmt::format("full clocks          {}\n", clocks);
}

std::string time_text(const estimator::JobEstimate& estimate) {
  const estimator::IterationEstimate& iteration = estimate.iteration;
  std::string text = fmt::format("estimated iteration  {} s +- {} s (90 %)\n", seconds_text(iteration.time_s),
                                 seconds_text(iteration.error_s));
  text += fmt::format("tokens               {:.0f} /s, {:.1f} /s a GPU\n", iteration.tokens_per_s(estimate.job),
                      iteration.tokens_per_s(estimate.job) / estimate.job.parallel.gpus());
  text += fmt::format("model FLOPs          {:.1f} TFLOP/s per GPU, MFU {:.1f} %\n",
                      iteration.model_flops_per_gpu_s / kTera, 100 * utilization(estimate));
  return text + fmt::format("pipeline bubble      {:.1f} % of the pipeline's time, mean of its ranks\n{}\n",
                            100 * iteration.bubble_share, full_clocks_text(estimate));
}

std::string breakdown_text(const estimator::JobEstimate& estimate) {
  const int rank = busiest_rank(estimate.job, estimate.iteration);
  Table table({{fmt::format("time of rank {}", rank), Table::Align::left}, {"s"}, {"%"}});
  for (const estimator::TimePart& part : time_breakdown(estimate.job, estimate.iteration, rank)) {
    if (part.time_s < kLeastShownS) continue;
    table.add_row({std::string(part.name), seconds_text(part.time_s),
                   fmt::format("{:.1f}", 100 * part.time_s / estimate.iteration.time_s)});
  }
  return table.text() + "\n";
}

std::vector<std::size_t> shown_ranks(const estimator::MemoryEstimate& memory) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < memory.ranks.size(); ++rank) {
    const bool outstanding = rank == 0 || rank + 1 == memory.ranks.size() || rank == memory.fullest_rank();
    if (memory.ranks.size() <= kMaxRankRows || outstanding) ranks.push_back(rank);
  }
  return ranks;
}

std::string memory_text(const estimator::JobEstimate& estimate) {
  const estimator::MemoryEstimate& memory = estimate.memory;
  const std::vector<double> parameters = parameters_of_ranks(estimate.job);
  Table table({{"rank"},
               {"parameters 10^9"},
               {"weights"},
               {"gradients"},
               {"optimizer"},
               {"activations"},
               {"buffers"},
               {"margin"},
               {"GiB"}});
  for (const std::size_t rank : shown_ranks(memory)) {
    const estimator::RankMemory& part = memory.ranks[rank];
    table.add_row({fmt::to_string(rank), fmt::format("{:.3f}", parameters[rank] / kBillion), gib_text(part.weights),
                   gib_text(part.gradients), gib_text(part.optimizer), gib_text(part.activations),
                   gib_text(part.buffers), gib_text(part.fragmentation), gib_text(part.total())});
  }
  return fmt::format("estimated memory in GiB of a GPU of each pipeline rank, of {}\n{}", gib_text(memory.capacity),
                     table.text());
}

std::string memory_parts_text(const estimator::JobEstimate& estimate) {
  const std::size_t rank = estimate.memory.fullest_rank();
  Table table({{fmt::format("memory of rank {}", rank), Table::Align::left}, {"GiB"}, {"from", Table::Align::left}});
  for (const estimator::MemoryPart& part : memory_parts(estimate.job, estimate.memory, rank)) {
    table.add_row({std::string(part.name), gib_text(part.bytes), part.reason});
  }
  const double host = estimate.memory.ranks[rank].host;
  return "\n" + table.text() + (host > 0 ? fmt::format("and {} GiB in the memory of its CPU\n", gib_text(host)) : "");
}

std::string stacks_text(const estimator::JobEstimate& estimate) {
  Table table({{"software stack", Table::Align::left}, {"s"}, {"time %"}, {"GiB"}});
  for (const estimator::StackEstimate& stack : estimate.stacks) {
    table.add_row({stack.name, seconds_text(stack.time_s),
                   signed_text(100 * (stack.time_s / estimate.iteration.time_s - 1), 1),
                   gib_text(stack.memory_bytes) + (stack.fits ? "" : ", does not fit")});
  }
  return fmt::format("\nthe same job on other software; estimated for {}\n{}", describe(estimate.job.stack),
                     table.text());
}

Json layout_json(const estimator::TrainingJob& job) {
  const estimator::ParallelLayout& parallel = job.parallel;
  return {{"gpus", parallel.gpus()},
          {"dp", parallel.dp},
          {"tp", parallel.tp},
          {"pp", parallel.pp},
          {"virtual_stages", parallel.virtual_stages},
          {"ep", parallel.ep},
          {"cp", parallel.cp},
          {"sequence_parallel", parallel.sequence_parallel}};
}

Json power_model_json(const estimator::GpuModel& gpu) {
  const power::VoltageCurve& voltage = gpu.power.voltage;
  return {{"basis", name(gpu.power.voltage_basis)},
          {"source", gpu.power_source},
          {"measured_from_mhz", voltage.measured_from_mhz()}};
}

Json link_json(const estimator::Link& link) {
  return {{"bytes_per_s", link.bytes_per_s}, {"latency_s", link.latency_s}};
}

Json overlap_json(const estimator::Overlap& overlap) {
  return {{"gradients", overlap.gradients},
          {"tensor_gradients", overlap.tensor_gradients},
          {"tensor", overlap.tensor},
          {"pipeline", overlap.pipeline}};
}

Json job_json(const estimator::TrainingJob& job) {
  return {
      {"model", job.model.name},
      {"parameters", parameter_count(job.model)},
      {"gpu", job.gpu.name},
      {"power_limit_w", job.gpu.power.limit_w},
      {"power_model", power_model_json(job.gpu)},
      {"memory_bytes", job.gpu.memory_bytes},
      {"memory_bytes_per_s", job.gpu.memory_bytes_per_s},
      {"gpus_per_node", job.cluster.gpus_per_node},
      {"links", {{"intra_node", link_json(job.cluster.intra_node)}, {"inter_node", link_json(job.cluster.inter_node)}}},
      {"overlap", overlap_json(job.overlap)},
      {"parallel", layout_json(job)},
      {"batch", {{"global", job.batch.global}, {"micro", job.batch.micro}, {"sequence", job.batch.sequence_length}}},
      {"microbatches", job.microbatches()},
      {"recompute", name(job.recompute)},
      {"zero", job.zero},
      {"shard_size", job.shard_size},
      {"offload", name(job.offload)},
      {"dtype", name(job.dtype)},
      {"schedule", job.schedule},
      {"attention", name(job.attention)},
      {"dropout", job.dropout},
      {"stack", job.stack.name}};
}

Json memory_json(const estimator::JobEstimate& estimate) {
  const std::vector<double> parameters = parameters_of_ranks(estimate.job);
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < estimate.memory.ranks.size(); ++rank) {
    const estimator::RankMemory& part = estimate.memory.ranks[rank];
    ranks.push_back({{"parameters", parameters[rank]},
                     {"weights_bytes", part.weights},
                     {"gradients_bytes", part.gradients},
                     {"optimizer_bytes", part.optimizer},
                     {"activations_bytes", part.activations},
                     {"buffers_bytes", part.buffers},
                     {"fragmentation_bytes", part.fragmentation},
                     {"host_bytes", part.host},
                     {"total_bytes", part.total()}});
  }
  const std::size_t fullest = estimate.memory.fullest_rank();
  Json parts = Json::array();
  for (const estimator::MemoryPart& part : memory_parts(estimate.job, estimate.memory, fullest)) {
    parts.push_back({{"name", part.name}, {"bytes", part.bytes}, {"from", part.reason}});
  }
  return {{"capacity_bytes", estimate.memory.capacity},
          {"fullest_rank", fullest},
          {"fullest_parts", std::move(parts)},
          {"ranks", std::move(ranks)}};
}

Json overflow_json(const std::optional<estimator::MemoryOverflow>& overflow) {
  if (!overflow) return nullptr;
  Json remedies = Json::array();
  for (const estimator::MemoryRemedy& remedy : overflow->remedies) {
    remedies.push_back({{"change", remedy.change}, {"total_bytes", remedy.total}, {"fits", remedy.fits}});
    if (remedy.time_s > 0) remedies.back()["time_s"] = remedy.time_s;
  }
  return {{"rank", overflow->rank},
          {"missing_bytes", overflow->missing},
          {"largest", overflow->largest},
          {"largest_bytes", overflow->largest_bytes},
          {"remedies", std::move(remedies)}};
}

Json breakdown_json(const estimator::JobEstimate& estimate) {
  const int rank = busiest_rank(estimate.job, estimate.iteration);
  Json parts = Json::array();
  for (const estimator::TimePart& part : time_breakdown(estimate.job, estimate.iteration, rank)) {
    parts.push_back({{"name", part.name}, {"time_s", part.time_s}});
  }
  return {{"rank", rank}, {"parts", std::move(parts)}};
}

Json full_clocks_json(const estimator::JobEstimate& estimate) {
  const estimator::SustainedClocks clocks = sustained_clocks(estimate.job.gpu, estimate.iteration);
  return {{"lowest", clocks.lowest_mhz}, {"highest", clocks.highest_mhz}};
}

Json iteration_json(const estimator::JobEstimate& estimate) {
  const estimator::IterationEstimate& iteration = estimate.iteration;
  return {{"time_s", iteration.time_s},
          {"error_s", iteration.error_s},
          {"pipeline_s", iteration.pipeline_s},
          {"gradients_s", iteration.gradients_s},
          {"optimizer_s", iteration.optimizer_s},
          {"bubble_share", iteration.bubble_share},
          {"tokens_per_s", iteration.tokens_per_s(estimate.job)},
          {"model_flops_per_gpu_s", iteration.model_flops_per_gpu_s},
          {"mfu", utilization(estimate)},
          {"full_clocks_mhz", full_clocks_json(estimate)},
          {"breakdown", breakdown_json(estimate)},
          {"notes", iteration.notes}};
}

}  // namespace

std::string notes_text(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += fmt::format("\nnote: {}", note);
  return text.empty() ? text : text + "\n";
}

std::string estimate_text(const estimator::JobEstimate& estimate) {
  return overflow_text(estimate) + job_text(estimate.job) + time_text(estimate) + breakdown_text(estimate) +
         memory_text(estimate) + memory_parts_text(estimate) + stacks_text(estimate) +
         notes_text(estimate.iteration.notes);
}

Json estimate_json(const estimator::JobEstimate& estimate) {
  Json stacks = Json::array();
  for (const estimator::StackEstimate& stack : estimate.stacks) {
    stacks.push_back(
        {{"name", stack.name}, {"time_s", stack.time_s}, {"memory_bytes", stack.memory_bytes}, {"fits", stack.fits}});
  }
  return {{"format", "lowgear.estimate/1"},
          {"fits", estimate.memory.within_capacity()},
          {"near_limit", estimate.memory.fit() == estimator::MemoryFit::near_limit},
          {"stacks", std::move(stacks)},
          {"overflow", overflow_json(estimate.overflow)},
          {"job", job_json(estimate.job)},
          {"iteration", iteration_json(estimate)},
          {"memory", memory_json(estimate)}};
}

namespace {

std::string energy_with_error(const estimator::JobFigures& figures) {
  const std::string energy = energy_text(figures.energy_j);
  if (!figures.energy_error_j) return energy;
  return fmt::format("{} ± {:.1f} %", energy, 100 * *figures.energy_error_j / figures.energy_j);
}

}  // namespace

std::string planned_text(const estimator::PlannedEstimate& planned, int gpus, const PriceArguments& prices) {
  std::vector<Table::Column> columns{{fmt::format("one iteration of {} GPUs", gpus), Table::Align::left},
                                     {"basis", Table::Align::left},
                                     {"time s"},
                                     {"slower %"},
                                     {"energy"},
                                     {"saved %"},
                                     {"mean power"}};
  if (prices.any_cost()) columns.push_back({"cost $"});
  if (prices.co2_g_per_kwh) columns.push_back({"CO2"});
  Table table(std::move(columns));
  const estimator::JobFigures& full = planned.rows.front().figures;
  for (const estimator::ClockedJob& row : planned.rows) {
    const estimator::JobFigures& figures = row.figures;
    std::vector<std::string> cells{row.name,
                                   row.basis,
                                   fmt::format("{:.4g}", figures.time_s),
                                   signed_text(100 * (figures.time_s / full.time_s - 1), 2),
                                   energy_with_error(figures),
                                   fixed_text(simulator::saving_pct(full.energy_j, figures.energy_j), 2),
                                   power_text(figures.mean_power_w())};
    if (prices.any_cost()) {
      cells.push_back(fmt::format("{:.4g}", prices.prices().cost_usd(figures.time_s, figures.energy_j, gpus)));
    }
    if (prices.co2_g_per_kwh) {
      cells.push_back(mass_text(prices.prices().co2_g(figures.energy_j)));
    }
    table.add_row(std::move(cells));
  }
  std::string text = "\nplanned on estimated values, none of them measured\n" + table.text();
  text += full.energy_error_j ? "±: one standard error, from those of the GPU file alone\n"
                              : "energies have no error: those of this GPU's power are not known (--gpu-file)\n";
  if (!planned.note.empty()) text += fmt::format("note: {}\n", planned.note);
  return text;
}

Json search_layout_json(const estimator::SearchLayout& layout) {
  const estimator::ParallelLayout& parallel = layout.parallel;
  return {{"dp", parallel.dp},
          {"tp", parallel.tp},
          {"pp", parallel.pp},
          {"virtual_stages", parallel.virtual_stages},
          {"ep", parallel.ep},
          {"cp", parallel.cp},
          {"sequence_parallel", parallel.sequence_parallel},
          {"micro_batch", layout.micro_batch},
          {"recompute", name(layout.recompute)},
          {"zero", layout.zero},
          {"shard_size", layout.shard_size},
          {"name", describe(layout)}};
}

Json planned_json(const estimator::PlannedEstimate& planned, int gpus, const PriceArguments& prices) {
  const double full_j = planned.rows.front().figures.energy_j;
  Json rows = Json::array();
  for (const estimator::ClockedJob& row : planned.rows) {
    Json json = {{"name", row.name},
                 {"basis", row.basis},
                 {"time_s", row.figures.time_s},
                 {"energy_j", row.figures.energy_j},
                 {"energy_error_j", or_null(row.figures.energy_error_j)},
                 {"saving_pct", simulator::saving_pct(full_j, row.figures.energy_j)},
                 {"mean_power_w", row.figures.mean_power_w()}};
    if (prices.any_cost()) {
      json["cost_usd"] = prices.prices().cost_usd(row.figures.time_s, row.figures.energy_j, gpus);
    }
    if (prices.co2_g_per_kwh) json["co2_g"] = prices.prices().co2_g(row.figures.energy_j);
    rows.push_back(std::move(json));
  }
  Json frontier = Json::array();
  for (const estimator::JobFigures& point : planned.frontier) {
    frontier.push_back({{"time_s", point.time_s}, {"energy_j", point.energy_j}});
  }
  Json json = {{"figures", "planned on estimated values"},
               {"gpus", gpus},
               {"rows", std::move(rows)},
               {"frontier", std::move(frontier)}};
  if (!planned.note.empty()) json["note"] = planned.note;
  return json;
}

std::string plan_command(const estimator::TrainingJob& job, const std::string& profile) {
  std::string command = fmt::format("lowgear plan {} --microbatches {} --schedule {}", shell_word(profile),
                                    job.microbatches(), job.schedule);
  if (job.parallel.virtual_stages > 1) command += fmt::format(" --virtual-stages {}", job.parallel.virtual_stages);
  return command + " --out DIR";
}

namespace {

constexpr std::array<std::string_view, 3> kStages{"first", "middle", "last"};

std::string milliseconds(double time_s) { return fmt::format("{:.3f}", time_s * 1e3); }

}  // namespace

std::string published_estimate_text(const published_estimator::PublishedEstimate& estimate) {
  std::string text = fmt::format(
      "iteration {:.4f} s by the published estimator's formula (estimated)\n"
      "  pipeline {:.4f} s, gradients {:.4f} s, update {:.4f} s\n\n",
      estimate.time_s, estimate.pipeline_s, estimate.gradients_s, estimate.update_s);
  Table stages({{"stage", Table::Align::left}, {"layers"}, {"forward (ms)"}, {"backward (ms)"}});
  for (std::size_t i = 0; i < kStages.size(); ++i) {
    stages.add_row({std::string(kStages[i]), fmt::to_string(estimate.layers[i]), milliseconds(estimate.forward_s[i]),
                    milliseconds(estimate.backward_s[i])});
  }
  Table predictions({{"predicted", Table::Align::left}, {"time (ms)"}});
  for (const published_estimator::PublishedPrediction& prediction : estimate.predictions) {
    predictions.add_row({prediction.name, milliseconds(prediction.time_s)});
  }
  return text + stages.text() + "\n" + predictions.text();
}

Json published_estimate_json(const published_estimator::PublishedEstimate& estimate) {
  Json json{
      {"format", "lowgear.published_estimate/1"}, {"time_s", estimate.time_s},     {"pipeline_s", estimate.pipeline_s},
      {"gradients_s", estimate.gradients_s},      {"update_s", estimate.update_s}, {"message_s", estimate.message_s}};
  for (std::size_t i = 0; i < kStages.size(); ++i) {
    json["stages"][kStages[i]] = {
        {"layers", estimate.layers[i]}, {"forward_s", estimate.forward_s[i]}, {"backward_s", estimate.backward_s[i]}};
  }
  for (const published_estimator::PublishedPrediction& prediction : estimate.predictions) {
    json["predictions"].push_back({{"name", prediction.name}, {"time_s", prediction.time_s}});
  }
  return json;
}

}  // namespace lowgear::cli
