#include "estimating/estimator/iteration/iteration_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "estimating/estimator/iteration/pipeline_times.h"
#include "estimating/estimator/iteration/rank_tail.h"
#include "estimating/estimator/iteration/stage_costs.h"
#include "estimating/estimator/memory/offload.h"
#include "estimating/estimator/power/power_model.h"
#include "estimating/estimator/work/stage_work.h"

namespace lowgear::estimator {
namespace {

/// A mean power up to this share of the limit is within it: clocks are found to within a millionth.
constexpr double kHeldShare = 1.001;

/// Ranks that do not communicate concurrently with computation wait for their messages: an activation is part of the
/// forward that it ends, a gradient of the backward.
void add_messages(std::vector<StageEstimate>& stages, const std::vector<WorkCost>& messages) {
  const std::string_view part = name(WorkPart::pipeline);
  for (std::size_t stage = 0; stage < messages.size(); ++stage) {
    stages[stage].forward += messages[stage];
    stages[stage].forward_items.push_back({part, messages[stage]});
    stages[stage + 1].backward += messages[stage];
    stages[stage + 1].backward_items.push_back({part, messages[stage]});
  }
}

void slow_down(WorkCost& cost, double cores, double all) {
  cost.core_s *= cores;
  cost.error_s *= all;
}

/// Stretches a pass, and each of its parts alike, to the GPU's power limit: limits hold for means over longer than a
/// kernel. Returns how much longer the multiprocessors take.
double limit_power(const GpuModel& gpu, WorkCost& pass, std::vector<CostItem>& items) {
  const WorkCost limited = under_power_limit(gpu, pass);
  if (!(pass.core_s > 0)) return 1;
  const double cores = limited.core_s / pass.core_s;
  for (CostItem& item : items) slow_down(item.cost, cores, limited.time_s() / pass.time_s());
  pass = limited;
  return cores;
}

double passes_s(const std::vector<StageEstimate>& stages) {
  double sum_s = 0;
  for (const StageEstimate& stage : stages) sum_s += stage.forward.time_s() + stage.backward.time_s();
  return sum_s;
}

/// What communication hides under computation stays what it is under the limit that kernels were measured under.
void limit_power(const GpuModel& gpu, IterationEstimate& estimate) {
  if (!has_own_power_limit(gpu)) return;
  const double measured_s = passes_s(estimate.stages);
  bool held = true;
  for (StageEstimate& stage : estimate.stages) {
    (void)limit_power(gpu, stage.forward, stage.forward_items);
    const double cores = limit_power(gpu, stage.backward, stage.backward_items);
    slow_down(stage.weight_gradient, cores, cores);
    for (const WorkCost* const pass : {&stage.forward, &stage.backward}) {
      held = held && WorkEnergy(gpu, *pass).at_clock(gpu.clocks.max_mhz).power_w() <= kHeldShare * gpu.power.limit_w;
    }
  }
  estimate.notes.push_back(
      fmt::format("a power limit of {} W, not the data sheet's {} W, changes the time of passes by "
                  "{:+.1f} %",
                  gpu.power.limit_w, gpu.power.kernel_limit_w, 100 * (passes_s(estimate.stages) / measured_s - 1)));
  if (held) return;
  estimate.notes.push_back(
      fmt::format("some passes draw more than {} W at the lowest clock: the clock does not slow memory and links",
                  gpu.power.limit_w));
}

PipelineCosts pipeline_costs(const TrainingJob& job, const std::vector<StageEstimate>& stages,
                             const std::vector<WorkCost>& messages) {
  PipelineCosts costs;
  costs.ranks = job.parallel.pp;
  costs.chunks = job.parallel.virtual_stages;
  costs.microbatches = static_cast<int>(job.microbatches());
  for (const StageEstimate& stage : stages) {
    costs.forward_s.push_back(stage.forward.time_s());
    costs.backward_s.push_back(stage.backward.time_s());
    costs.weight_gradient_s.push_back(stage.weight_gradient.time_s());
  }
  for (std::size_t stage = 0; stage + 1 < stages.size(); ++stage) {
    const double send_s = job.overlap.pipeline && job.parallel.pp > 1 ? messages[stage].time_s() : 0;
    costs.activation_send_s.push_back(send_s);
    costs.gradient_send_s.push_back(send_s);
  }
  return costs;
}

/// Sums of gradients end when the last rank's do; then all update together, since the gradients' norm is theirs.
void add_tail(const TrainingJob& job, const CostSources& sources, const PipelineTimes& times,
              IterationEstimate& estimate) {
  const Tail tail(job, estimate.stages, sources);
  double summed_s = 0;
  for (std::size_t rank = 0; rank < times.end_s.size(); ++rank) {
    const RankTail of_rank = tail.of_rank(rank);
    summed_s = std::max(summed_s, times.end_s[rank] + of_rank.gradients_s);
    if (of_rank.optimizer_s <= estimate.optimizer_s) continue;
    estimate.optimizer_s = of_rank.optimizer_s;
    estimate.update_wait_s = of_rank.update_wait_s;
  }
  estimate.gradients_s = std::max(0.0, summed_s - estimate.pipeline_s);
}

double bubble_share(const PipelineTimes& times, double pipeline_s) {
  double busy_s = 0;
  for (const double rank_s : times.busy_s) busy_s += rank_s;
  return std::max(0.0, 1 - busy_s / (pipeline_s * static_cast<double>(times.busy_s.size())));
}

/// The error of a busy rank's work, over the whole pipeline.
double relative_error(const std::vector<StageEstimate>& stages) {
  WorkCost sum;
  for (const StageEstimate& stage : stages) sum += stage.forward + stage.backward;
  return sum.time_s() > 0 ? sum.error_s / sum.time_s() : 0;
}

double item_s(const std::vector<CostItem>& items, WorkPart part) {
  const auto found = std::ranges::find(items, name(part), &CostItem::name);
  return found == items.end() ? 0 : found->cost.time_s();
}

bool stack_runs(const TrainingJob& job) {
  const SoftwareStack& stack = job.stack;
  const ParallelLayout& parallel = job.parallel;
  if (stack.only_replicas && (parallel.tp > 1 || parallel.pp > 1 || parallel.cp > 1)) return false;
  // Without replicas all stages are the same.
  const bool shards = parallel.dp * parallel.cp > 1;
  return !shards || (job.zero >= stack.least_zero && job.zero <= stack.most_zero);
}

/// Notes on properties of the job that may surprise the user.
std::vector<std::string> notes_on(const TrainingJob& job, const std::vector<StageEstimate>& stages) {
  constexpr double kNotableShare = 0.05;
  std::vector<std::string> notes;
  if (job.parallel.tp > job.cluster.gpus_per_node) {
    notes.push_back(fmt::format("tensor parallelism among {} ranks crosses nodes of {} GPUs, whose network is slower",
                                job.parallel.tp, job.cluster.gpus_per_node));
  }
  double waiting_s = 0;
  for (const StageEstimate& stage : stages) {
    waiting_s += item_s(stage.forward_items, WorkPart::host) + item_s(stage.backward_items, WorkPart::host);
  }
  if (waiting_s > kNotableShare * passes_s(stages)) {
    notes.push_back(
        fmt::format("{:.0f} % of a microbatch's time the GPU waits for the host, which launches kernels more slowly "
                    "than they run; larger microbatches, fewer tp ranks or CUDA graphs help",
                    100 * waiting_s / passes_s(stages)));
  }
  if (!stack_runs(job)) {
    notes.push_back(limits_text(job.stack) + ": the job is estimated as if it ran this layout with the same kernels");
  }
  for (std::string& note : notes_on_setup(job)) notes.push_back(std::move(note));
  return notes;
}

/// Notes on a GPU whose kernels have not been measured, or not at this length.
void add_notes_on_rates(const TrainingJob& job, std::vector<std::string>& notes) {
  const GpuModel& gpu = job.gpu;
  if (gpu.generation == Generation::blackwell) {
    notes.push_back(
        fmt::format("rates of kernels on {} are assumed: published runs of GB200 are estimated 20 to 28 % "
                    "too fast",
                    gpu.name));
  }
  if (job.dtype == DataType::fp4) {
    notes.emplace_back(
        "products in fp4 run at the published rate times the share that products in fp8 are assumed to reach; all "
        "layers are in fp4, of which recipes keep some 15 % in bf16");
  }
  if (job.attention == AttentionKind::unfused) return;
  if (!gpu.bf16 && job.stack.attention != AttentionKernel::flash1) {
    notes.push_back(
        fmt::format("FlashAttention 2 does not run on {}: fused attention is estimated as FlashAttention 1; "
                    "--attention unfused is the alternative",
                    gpu.name));
  }
  const auto kernel = static_cast<std::size_t>(job.stack.attention);
  const std::int64_t longest = gpu.efficiency.attention[kernel].longest_sequence;
  if (longest > 0 && job.batch.sequence_length > longest) {
    notes.push_back(
        fmt::format("fused attention (kernel {}) was measured with sequences of up to {} tokens; its time "
                    "for {} is extrapolated",
                    name(job.stack.attention), longest, job.batch.sequence_length));
  }
}

}  // namespace

std::vector<std::string> notes_on_setup(const TrainingJob& job) {
  const model::ModelConfig& model = job.model;
  std::vector<std::string> notes = model.notes;
  if (const std::int64_t windowed = windowed_layers(model, job.batch.sequence_length, 0, model.layers); windowed > 0) {
    notes.push_back(fmt::format("in {} of {} layers a token attends to {} tokens at most (sliding window){}", windowed,
                                model.layers, model.window,
                                job.attention == AttentionKind::unfused
                                    ? "; unfused attention computes all pairs of tokens all the same"
                                    : ""));
  }
  if (job.offload != Offload::none) notes.push_back(offload_note(job));
  if (model.experts) notes.emplace_back("experts are assumed to get equal shares of the tokens");
  add_notes_on_rates(job, notes);
  return notes;
}

double IterationEstimate::tokens_per_s(const TrainingJob& job) const {
  return static_cast<double>(job.batch.global * job.batch.sequence_length) / time_s;
}

IterationEstimate estimate_iteration(const TrainingJob& job, const CostSources& sources) {
  require_valid(job);
  IterationEstimate estimate;
  estimate.stages = stages_of(job, sources);
  const std::vector<WorkCost> messages = message_costs(job, sources);
  if (!job.overlap.pipeline) add_messages(estimate.stages, messages);
  limit_power(job.gpu, estimate);
  const PipelineTimes times = pipeline_times(job.schedule, pipeline_costs(job, estimate.stages, messages));
  estimate.pipeline_s = times.time_s();
  estimate.bubble_share = bubble_share(times, estimate.pipeline_s);
  add_tail(job, sources, times, estimate);
  estimate.time_s = estimate.pipeline_s + estimate.gradients_s + estimate.optimizer_s;
  estimate.error_s = kUnmodelledError * estimate.time_s * relative_error(estimate.stages);
  for (std::string& note : notes_on(job, estimate.stages)) estimate.notes.push_back(std::move(note));
  const double flops = training_flops_per_token(job.model, job.batch.sequence_length) *
                       static_cast<double>(job.batch.global * job.batch.sequence_length);
  estimate.model_flops_per_gpu_s = flops / (estimate.time_s * job.parallel.gpus());
  return estimate;
}

}  // namespace lowgear::estimator
