#include "estimating/estimator/iteration/iteration_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "estimating/estimator/iteration/pipeline_times.h"
#include "estimating/estimator/power/power_model.h"
#include "estimating/estimator/work/rank_parameters.h"
#include "estimating/estimator/work/stage_work.h"

namespace lowgear::estimator {
namespace {

/// Hidden share of the time of a collective that runs concurrently with computation: both slow each other down, since
/// NCCL's kernels take multiprocessors and memory bandwidth.
constexpr double kHiddenShare = 0.9;

/// A mean power up to this share of the limit is within it: clocks are found to within a millionth.
constexpr double kHeldShare = 1.001;

/// Half the width of a 90 % interval of what the CPU takes: two runs on machines of one kind differed
/// by as much.
constexpr double kHostError = 0.25;

/// Work of one pass by what it is for.
struct PassCost {
  WorkCost total;
  std::array<WorkCost, kWorkPartCount> parts;
  double host_s = 0;  ///< what the CPU takes to issue it

  void add(WorkPart part, const WorkCost& cost) {
    parts[static_cast<std::size_t>(part)] += cost;
    total += cost;
  }
  void add(double times, const PassCost& other) {
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] += times * other.parts[i];
    total += times * other.total;
    host_s += times * other.host_s;
  }
  /// The GPU waits where the CPU takes longer; then the pass is as uncertain as the CPU's time.
  void wait(double waiting_s) {
    if (waiting_s <= 0) return;
    add(WorkPart::host, {.memory_s = waiting_s, .error_s = std::max(0.0, kHostError * host_s - total.error_s)});
  }
};

/// Cost of a block: forward, backward with what is computed again, and the weight gradients in it.
struct BlockCost {
  PassCost forward;
  PassCost backward;
  WorkCost weight_gradient;
};

/// Leaves of a collective's time what cannot run concurrently with computation of `seconds`, which is used up.
void hide(WorkCost& collective, double& seconds) {
  const double hidden_s = std::min(collective.link_s * kHiddenShare, seconds);
  collective.link_s -= hidden_s;
  collective.error_s *= collective.link_s > 0 ? collective.link_s / (collective.link_s + hidden_s) : 0;
  seconds -= hidden_s;
}

/// Costs of a pass's operators, in their order. Where the mixture of experts was sampled as one, its parts share the
/// time of the whole.
std::vector<WorkCost> operator_costs(const PassWork& work, const CostSources& sources) {
  std::vector<WorkCost> costs;
  costs.reserve(work.operators.size());
  for (const OperatorUse& use : work.operators) costs.push_back(use.times * sources.operators.cost(use.op));
  if (!work.experts) return costs;
  const std::optional<WorkCost> whole = sources.operators.cost_of_whole(work.experts->op);
  if (!whole) return costs;
  const std::span<WorkCost> parts(costs.data() + work.experts->first, work.experts->end - work.experts->first);
  double parts_s = 0;
  for (const WorkCost& part : parts) parts_s += part.time_s();
  for (WorkCost& part : parts) {
    const double share = part.time_s() / parts_s;
    part = taking(part, share * whole->time_s());
    part.error_s = share * whole->error_s;
  }
  return costs;
}

PassCost cost_of(const PassWork& work, const HostCosts& host, const CostSources& sources) {
  PassCost pass;
  const auto launches =
      std::ranges::count_if(work.operators, is_launched, [](const OperatorUse& use) { return use.op.kind; });
  pass.host_s = work.checkpoint_s + host.operator_s * static_cast<double>(launches) +
                host.collective_s * static_cast<double>(work.collectives.size());
  std::vector<double> operator_s;
  operator_s.reserve(work.operators.size());
  const std::vector<WorkCost> costs = operator_costs(work, sources);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    operator_s.push_back(costs[i].time_s());
    pass.add(work.operators[i].part, costs[i]);
  }
  double pass_s = pass.total.time_s();
  for (const CollectiveUse& use : work.collectives) {
    WorkCost cost = sources.collectives.cost(use.kind, use.bytes, use.group);
    if (use.overlaps == kWholePass) {
      hide(cost, pass_s);
    } else if (use.overlaps != kNothing) {
      double& overlapped_s = operator_s[static_cast<std::size_t>(use.overlaps)];
      double available_s = overlapped_s * use.overlap_share;
      const double before_s = available_s;
      hide(cost, available_s);
      overlapped_s -= before_s - available_s;
    }
    pass.add(use.part, cost);
  }
  return pass;
}

/// Half of a product's backward is the gradient of its weights.
WorkCost weight_gradient_of(const PassWork& backward, const CostSources& sources) {
  WorkCost sum;
  const std::vector<WorkCost> costs = operator_costs(backward, sources);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (backward.operators[i].op.kind == OperatorKind::linear) sum += 0.5 * costs[i];
  }
  return sum;
}

BlockCost cost_of(const BlockWork& work, const HostCosts& host, const CostSources& sources) {
  BlockCost block;
  block.forward = cost_of(work.forward, host, sources);
  block.backward = cost_of(work.backward, host, sources);
  block.weight_gradient = weight_gradient_of(work.backward, sources);
  const PassCost recomputed = cost_of(work.recomputed, host, sources);
  block.backward.add(WorkPart::recomputation, recomputed.total);
  block.backward.host_s += recomputed.host_s;
  return block;
}

std::vector<CostItem> items_of(const PassCost& pass) {
  std::vector<CostItem> items;
  for (std::size_t part = 0; part < pass.parts.size(); ++part) {
    const WorkCost& cost = pass.parts[part];
    if (cost.time_s() > 0 || cost.link_bytes > 0) items.push_back({name(static_cast<WorkPart>(part)), cost});
  }
  return items;
}

/// Costs that all stages are made of.
struct JobBlocks {
  BlockCost layer;
  BlockCost windowed;  ///< a layer whose attention is within the model's window, where there are such
  BlockCost embedding;
  BlockCost head;
};

/// A pass, block by block: the GPU ends a block no sooner than the host has issued it.
class PassTimer {
 public:
  void add(std::int64_t times, const PassCost& block) {
    if (times == 0) return;
    const double gpu_s = block.total.time_s();
    const auto count = static_cast<double>(times);
    const double last_launch_s = pass_.host_s + count * block.host_s;
    const double first_launch_s = pass_.host_s + block.host_s + (count - 1) * gpu_s;
    end_s_ = std::max({end_s_ + count * gpu_s, last_launch_s, first_launch_s});
    pass_.add(count, block);
  }
  /// Of everything that was added, with the time that the GPU waits.
  [[nodiscard]] PassCost pass() const {
    PassCost pass = pass_;
    pass.wait(end_s_ - pass.total.time_s());
    return pass;
  }

 private:
  PassCost pass_;
  double end_s_ = 0;
};

/// Layers of a virtual stage.
struct StageLayers {
  std::int64_t all = 0;
  std::int64_t windowed = 0;

  friend bool operator==(const StageLayers&, const StageLayers&) = default;
};

std::vector<StageLayers> stage_layers_of(const TrainingJob& job) {
  std::vector<StageLayers> stages;
  std::int64_t first = 0;
  for (const std::int64_t layers : layers_of_stages(job)) {
    stages.push_back({layers, windowed_layers(job.model, job.batch.sequence_length, first, layers)});
    first += layers;
  }
  return stages;
}

StageEstimate stage_of(const JobBlocks& blocks, const StageLayers& layers, bool first, bool last) {
  PassTimer forward_timer;
  PassTimer backward_timer;
  StageEstimate stage;
  stage.layers = layers.all;
  if (first) forward_timer.add(1, blocks.embedding.forward);
  forward_timer.add(layers.all - layers.windowed, blocks.layer.forward);
  forward_timer.add(layers.windowed, blocks.windowed.forward);
  if (last) forward_timer.add(1, blocks.head.forward);
  if (last) backward_timer.add(1, blocks.head.backward);
  backward_timer.add(layers.windowed, blocks.windowed.backward);
  backward_timer.add(layers.all - layers.windowed, blocks.layer.backward);
  if (first) backward_timer.add(1, blocks.embedding.backward);
  stage.weight_gradient = static_cast<double>(layers.all) * blocks.layer.weight_gradient;
  if (first) stage.weight_gradient += blocks.embedding.weight_gradient;
  if (last) stage.weight_gradient += blocks.head.weight_gradient;
  const PassCost forward = forward_timer.pass();
  const PassCost backward = backward_timer.pass();
  stage.forward = forward.total;
  stage.backward = backward.total;
  stage.forward_items = items_of(forward);
  stage.backward_items = items_of(backward);
  return stage;
}

std::vector<StageEstimate> stages_of(const TrainingJob& job, const CostSources& sources) {
  const std::vector<StageLayers> layers = stage_layers_of(job);
  JobBlocks blocks{.layer = cost_of(layer_work(job), job.host, sources),
                   .windowed = {},
                   .embedding = cost_of(embedding_work(job), job.host, sources),
                   .head = cost_of(head_work(job), job.host, sources)};
  if (std::ranges::any_of(layers, [](const StageLayers& of_stage) { return of_stage.windowed > 0; })) {
    blocks.windowed = cost_of(layer_work(job, true), job.host, sources);
  }
  std::vector<StageEstimate> stages;
  stages.reserve(layers.size());
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    const bool first = stage == 0;
    const bool last = stage + 1 == layers.size();
    const bool inner_repeats = stage >= 2 && !last && layers[stage] == layers[stage - 1];
    stages.push_back(inner_repeats ? stages.back() : stage_of(blocks, layers[stage], first, last));
  }
  return stages;
}

WorkCost message_cost(const TrainingJob& job, int stage, const CostSources& sources) {
  WorkCost sum;
  for (const CollectiveUse& use : message_work(job, stage)) {
    sum += sources.collectives.cost(use.kind, use.bytes, use.group);
  }
  return sum;
}

/// Messages from each virtual stage to the next.
std::vector<WorkCost> message_costs(const TrainingJob& job, const CostSources& sources) {
  std::vector<WorkCost> costs;
  const int stages = job.parallel.pp * job.parallel.virtual_stages;
  for (int stage = 0; stage + 1 < stages && job.parallel.pp > 1; ++stage) {
    costs.push_back(message_cost(job, stage, sources));
  }
  return costs;
}

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

/// What one pipeline rank does after its last backward.
struct RankTail {
  double gradients_s = 0;
  double optimizer_s = 0;
};

class Tail {
 public:
  Tail(const TrainingJob& job, const std::vector<StageEstimate>& stages, const CostSources& sources)
      : job_(job),
        stages_(stages),
        sources_(sources),
        parameters_(rank_parameters(job)),
        replicas_(replica_group(job)),
        expert_replicas_(expert_replica_group(job)) {}

  [[nodiscard]] RankTail of_rank(std::size_t rank) const {
    const bool sharded = job_.zero >= 1;
    const double updated =
        sharded ? parameters_[rank].dense / replicas_.ranks + parameters_[rank].experts / expert_replicas_.ranks
                : parameters_[rank].total();
    const auto whole = std::max<std::int64_t>(1, static_cast<std::int64_t>(updated));
    const Operator update{OperatorKind::optimizer, Pass::forward, {whole, 1, 1, 1}, job_.dtype};
    RankTail tail{0, sources_.operators.cost(update).time_s()};
    if (job_.zero == 3) return tail;  // summed and gathered in the passes
    if (job_.zero < 2) {              // otherwise summed in the passes, as each microbatch has them
      tail.gradients_s = exposed_s(sharded ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                                   summed_gradient_bytes(job_), rank, &StageEstimate::backward);
    }
    if (sharded) {
      tail.optimizer_s += exposed_s(CollectiveKind::all_gather, bytes_of(job_.dtype), rank, &StageEstimate::forward);
    }
    return tail;
  }

 private:
  /// Time of a collective over all replicas of the rank's parameters that its passes of one microbatch do not hide. The
  /// last bucket, taken to be a layer's or the embedding's, is never hidden: backwards end with it.
  [[nodiscard]] double exposed_s(CollectiveKind kind, double bytes_each, std::size_t rank,
                                 WorkCost StageEstimate::*pass) const {
    const auto collective_s = [&](double parameters, const RankGroup& group) {
      return sources_.collectives.cost(kind, parameters * bytes_each, group).link_s;
    };
    const double time_s =
        collective_s(parameters_[rank].dense, replicas_) + collective_s(parameters_[rank].experts, expert_replicas_);
    if (!job_.overlap.gradients) return time_s;
    double passes_s = 0;
    std::int64_t layers = 0;
    for (std::size_t stage = rank; stage < stages_.size(); stage += parameters_.size()) {
      passes_s += (stages_[stage].*pass).time_s();
      layers += stages_[stage].layers;
    }
    double last_bucket_s = time_s / static_cast<double>(std::max<std::int64_t>(1, layers));
    if (rank == 0) last_bucket_s = std::max(last_bucket_s, collective_s(token_matrix_parameters(job_), replicas_));
    return std::max(last_bucket_s, time_s - kHiddenShare * passes_s);
  }

  const TrainingJob& job_;
  const std::vector<StageEstimate>& stages_;
  const CostSources& sources_;
  std::vector<RankParameters> parameters_;
  RankGroup replicas_;
  RankGroup expert_replicas_;
};

/// Sums of gradients end when the last rank's do; then all update together, since the gradients' norm is theirs.
void add_tail(const TrainingJob& job, const CostSources& sources, const PipelineTimes& times,
              IterationEstimate& estimate) {
  const Tail tail(job, estimate.stages, sources);
  double summed_s = 0;
  for (std::size_t rank = 0; rank < times.end_s.size(); ++rank) {
    const RankTail of_rank = tail.of_rank(rank);
    summed_s = std::max(summed_s, times.end_s[rank] + of_rank.gradients_s);
    estimate.optimizer_s = std::max(estimate.optimizer_s, of_rank.optimizer_s);
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
  for (std::string& note : notes_on_model(job)) notes.push_back(std::move(note));
  return notes;
}

}  // namespace

std::vector<std::string> notes_on_model(const TrainingJob& job) {
  const model::ModelConfig& model = job.model;
  std::vector<std::string> notes = model.notes;
  if (const std::int64_t windowed = windowed_layers(model, job.batch.sequence_length, 0, model.layers); windowed > 0) {
    notes.push_back(fmt::format("in {} of {} layers a token attends to {} tokens at most (sliding window){}", windowed,
                                model.layers, model.window,
                                job.attention == AttentionKind::unfused
                                    ? "; unfused attention computes all pairs of tokens all the same"
                                    : ""));
  }
  if (model.experts) notes.emplace_back("experts are assumed to get equal shares of the tokens");
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
