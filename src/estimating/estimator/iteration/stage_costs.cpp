#include "estimating/estimator/iteration/stage_costs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>

#include "estimating/estimator/memory/memory_estimate.h"
#include "estimating/estimator/memory/offload.h"
#include "estimating/estimator/work/stage_work.h"

namespace lowgear::estimator {
namespace {

/// Half the width of a 90 % interval of what the CPU takes: two runs on machines of one kind differed
/// by as much.
constexpr double kHostError = 0.25;

/// Work of one pass by what it is for.
struct PassCost {
  WorkCost total;
  std::array<WorkCost, kWorkPartCount> parts;
  double host_s = 0;      ///< what the CPU takes to issue it
  double transfer_s = 0;  ///< of everything that offload moves beside it

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
  /// The pass ends no sooner than transfers beside it.
  void end_after(double moved_s) {
    const double waiting_s = moved_s - total.time_s();
    if (waiting_s <= 0) return;
    add(WorkPart::offload, {.wait_s = waiting_s, .error_s = std::max(0.0, kHostError * moved_s - total.error_s)});
  }
};

/// Cost of a block: forward, backward with what is computed again, and the weight gradients in it.
struct BlockCost {
  PassCost forward;
  PassCost backward;
  WorkCost weight_gradient;
};

/// Leaves of a collective's time what cannot run concurrently with computation of `seconds`, which is used up.
void hide(WorkCost& collective, double share, double& seconds) {
  const double hidden_s = std::min(share * collective.link_s, seconds);
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

/// The host issues the sum of a bias's gradients with the product that it belongs to.
bool is_issued(OperatorKind kind) { return is_launched(kind) && kind != OperatorKind::bias_gradient; }

PassCost cost_of(const PassWork& work, const TrainingJob& job, const CostSources& sources) {
  PassCost pass;
  const auto launches =
      std::ranges::count_if(work.operators, is_issued, [](const OperatorUse& use) { return use.op.kind; });
  const HostCosts& host = job.stack.host;
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
      hide(cost, hidden_share(job.gpu), pass_s);
    } else if (use.overlaps != kNothing) {
      double& overlapped_s = operator_s[static_cast<std::size_t>(use.overlaps)];
      double available_s = overlapped_s * use.overlap_share;
      const double before_s = available_s;
      hide(cost, hidden_share(job.gpu), available_s);
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

BlockCost cost_of(const BlockWork& work, const BlockTraffic& traffic, const TrainingJob& job,
                  const CostSources& sources) {
  BlockCost block;
  block.forward = cost_of(work.forward, job, sources);
  block.backward = cost_of(work.backward, job, sources);
  block.weight_gradient = weight_gradient_of(work.backward, sources);
  const PassCost recomputed = cost_of(work.recomputed, job, sources);
  block.backward.add(WorkPart::recomputation, recomputed.total);
  block.backward.host_s += recomputed.host_s;
  block.forward.transfer_s = transfer_s(job.cluster.host, traffic.forward);
  block.backward.transfer_s = transfer_s(job.cluster.host, traffic.backward);
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

/// Kinds of layers: with the model's window or without, of the first kind or the second (is_of_second_kind).
constexpr std::size_t kWindowed = 1;
constexpr std::size_t kSecond = 2;
constexpr std::size_t kLayerKinds = 4;

/// Costs that all stages are made of.
struct JobBlocks {
  std::array<BlockCost, kLayerKinds> layers;  ///< of the kinds that there are
  BlockCost embedding;
  BlockCost head;
};

/// A pass, block by block: the GPU ends a block no sooner than the host has issued it.
class PassTimer {
 public:
  /// `moved`: share of what offload can move that it does.
  explicit PassTimer(double moved) : moved_(moved) {}
  void add(std::int64_t times, PassCost block) {
    if (times == 0) return;
    block.end_after(moved_ * block.transfer_s);
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
  double moved_;
  PassCost pass_;
  double end_s_ = 0;
};

/// Layers of a virtual stage by kind.
using StageLayers = std::array<std::int64_t, kLayerKinds>;

std::vector<StageLayers> stage_layers_of(const TrainingJob& job) {
  std::vector<StageLayers> stages;
  std::int64_t first = 0;
  for (const std::int64_t layers : layers_of_stages(job)) {
    StageLayers& stage = stages.emplace_back();
    for (const std::int64_t end = first + layers; first < end; ++first) {
      const bool windowed = windowed_layers(job.model, job.batch.sequence_length, first, 1) > 0;
      ++stage[(windowed ? kWindowed : 0) + (is_of_second_kind(job.model, first) ? kSecond : 0)];
    }
  }
  return stages;
}

/// By pipeline rank: the share of its layers' activations that offload moves, as some stay on the GPU; 1 of the states.
std::vector<double> moved_shares(const TrainingJob& job) {
  std::vector<double> shares(static_cast<std::size_t>(job.parallel.pp), 1.0);
  if (job.offload != Offload::activations) return shares;
  const double staying = kWholeLayers * activation_bytes_per_layer(job);
  const MemoryEstimate memory = estimate_memory(job);
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const double moved = memory.ranks[rank].host;
    shares[rank] = moved / (moved + staying);
  }
  return shares;
}

StageEstimate stage_of(const JobBlocks& blocks, const StageLayers& layers, double moved, bool first, bool last) {
  PassTimer forward_timer(moved);
  PassTimer backward_timer(moved);
  StageEstimate stage;
  stage.layers = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  if (first) forward_timer.add(1, blocks.embedding.forward);
  for (std::size_t kind = 0; kind < kLayerKinds; ++kind) forward_timer.add(layers[kind], blocks.layers[kind].forward);
  if (last) forward_timer.add(1, blocks.head.forward);
  if (last) backward_timer.add(1, blocks.head.backward);
  for (std::size_t kind = kLayerKinds; kind-- > 0;) backward_timer.add(layers[kind], blocks.layers[kind].backward);
  if (first) backward_timer.add(1, blocks.embedding.backward);
  for (std::size_t kind = 0; kind < kLayerKinds; ++kind) {
    stage.weight_gradient += static_cast<double>(layers[kind]) * blocks.layers[kind].weight_gradient;
  }
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

WorkCost message_cost(const TrainingJob& job, int stage, const CostSources& sources) {
  WorkCost sum;
  for (const CollectiveUse& use : message_work(job, stage)) {
    sum += sources.collectives.cost(use.kind, use.bytes, use.group);
  }
  return sum;
}

}  // namespace

std::vector<StageEstimate> stages_of(const TrainingJob& job, const CostSources& sources) {
  const std::vector<StageLayers> layers = stage_layers_of(job);
  const BlockTraffic matrix_moves = token_matrix_traffic(job);
  JobBlocks blocks{.layers = {},
                   .embedding = cost_of(embedding_work(job), matrix_moves, job, sources),
                   .head = cost_of(head_work(job), matrix_moves, job, sources)};
  const std::vector<double> shares = moved_shares(job);
  const auto moved = [&](std::size_t stage) { return shares[stage % shares.size()]; };
  const std::optional<TrainingJob> second = second_kind(job);
  for (std::size_t kind = 0; kind < kLayerKinds; ++kind) {
    if (std::ranges::none_of(layers, [kind](const StageLayers& of_stage) { return of_stage[kind] > 0; })) continue;
    const TrainingJob& of_kind = kind >= kSecond ? *second : job;
    blocks.layers[kind] = cost_of(layer_work(of_kind, (kind & kWindowed) != 0), layer_traffic(of_kind), job, sources);
  }
  std::vector<StageEstimate> stages;
  stages.reserve(layers.size());
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    const bool first = stage == 0;
    const bool last = stage + 1 == layers.size();
    const bool inner_repeats =
        stage >= 2 && !last && layers[stage] == layers[stage - 1] && moved(stage) == moved(stage - 1);
    stages.push_back(inner_repeats ? stages.back() : stage_of(blocks, layers[stage], moved(stage), first, last));
  }
  return stages;
}

std::vector<WorkCost> message_costs(const TrainingJob& job, const CostSources& sources) {
  std::vector<WorkCost> costs;
  const int stages = job.parallel.pp * job.parallel.virtual_stages;
  for (int stage = 0; stage + 1 < stages && job.parallel.pp > 1; ++stage) {
    costs.push_back(message_cost(job, stage, sources));
  }
  return costs;
}

}  // namespace lowgear::estimator
