#include "estimating/estimator/memory/memory_estimate.h"

#include <algorithm>
#include <utility>

#include "estimating/estimator/memory/activation_memory.h"
#include "estimating/estimator/memory/offload.h"
#include "estimating/estimator/work/rank_groups.h"
#include "estimating/estimator/work/rank_parameters.h"
#include "planning/schedule/generators.h"

namespace lowgear::estimator {
namespace {

constexpr double kMiB = 1024.0 * 1024;

/// What torch.cuda reports as total is 98.9 to 99.3 % of what the board has on V100, A100, H100 and H200: the driver
/// keeps the rest.
constexpr double kUsableShare = 0.99;
/// A CUDA context with the kernels of libtorch (0.5 GiB on an H100) and workspaces of cuBLAS and cuDNN.
constexpr double kContextBytes = 1024 * kMiB;
/// Of a NCCL communicator: NCCL_BUFFSIZE, 4 MiB, for 32 channels each way.
constexpr double kCommunicatorBytes = 256 * kMiB;
/// Activations and gradients on their way to and from other stages.
constexpr double kMessages = 4;

constexpr double kMasterWeightBytes = 4;

void add_states(const TrainingJob& job, const RankParameters& parameters, RankMemory& memory) {
  const StateBytes bytes = state_bytes(job);
  const double divided = parameters.dense / replica_groups(job).shards.ranks +
                         parameters.experts / expert_replica_groups(job).shards.ranks;
  const double whole = parameters.dense + parameters.experts;
  memory.gradients += bytes.gradient * (job.zero >= 2 ? divided : whole);
  memory.optimizer += bytes.optimizer * divided;
  const double at_once = std::min(whole, kWholeLayers * layer_parameters(job).total());
  memory.weights += bytes.weight * (job.zero == 3 ? at_once : whole);
  // Master weights, where there are any, are in the optimizer's bytes.
  const double sharded = job.zero == 3 && !keeps_master_weights(job) ? bytes.weight * divided : 0;
  (job.offload == Offload::states ? memory.host : memory.weights) += sharded;
  if (job.zero >= 2) memory.buffers += bytes.weight * at_once;  // gradients before they are divided
  if (!updates_on_host(job)) return;
  memory.host += std::exchange(memory.optimizer, 0);
  memory.host += bytes.gradient * divided;  // with ZeRO 0 and 1 copies of those on the GPU
  if (job.zero >= 2) memory.gradients = 0;
}

/// Microbatches with which the schedule reaches the same peak as with all of the job's: the first of its pattern.
int representative_microbatches(const TrainingJob& job) {
  const auto microbatches = static_cast<int>(job.microbatches());
  const int pp = job.parallel.pp;
  if (job.schedule == "gpipe") return microbatches;
  if (job.parallel.virtual_stages == 1) return std::min(microbatches, 3 * pp);
  // Equal rounds stay equal: fewer of them.
  constexpr int kRounds = 4;
  const int rounds = std::max(1, microbatches / pp);
  return microbatches / rounds * std::min(rounds, kRounds);
}

/// The most that a rank's microbatches in flight keep, where one of virtual stage s keeps `bytes[s]`.
std::vector<double> peak_bytes(const TrainingJob& job, const std::vector<double>& bytes) {
  const schedule::Schedule schedule = schedule::make_schedule({.name = job.schedule,
                                                               .ranks = job.parallel.pp,
                                                               .microbatches = representative_microbatches(job),
                                                               .chunks = job.parallel.virtual_stages,
                                                               .envpipe_stages = {}});
  std::vector<double> peaks;
  for (const std::vector<schedule::Action>& actions : schedule.ranks) {
    double held = 0;
    double peak = 0;
    for (const schedule::Action& action : actions) {
      if (action.op == OpKind::input_gradient) continue;
      const double of_stage = bytes[static_cast<std::size_t>(action.stage)];
      held += action.op == OpKind::forward ? of_stage : -of_stage;
      peak = std::max(peak, held);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

/// The same for schedules whose peak is known (planning/schedule/generators.h), without making them.
std::vector<double> peak_activations(const TrainingJob& job, const std::vector<double>& bytes) {
  const bool one_f_one_b = job.schedule == "1f1b" || job.schedule == "interleaved";
  if (job.parallel.virtual_stages > 1 || !(one_f_one_b || job.schedule == "gpipe")) return peak_bytes(job, bytes);
  std::vector<double> peaks(bytes);
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    const auto microbatches = static_cast<double>(job.microbatches());
    peaks[rank] *= one_f_one_b ? std::min(static_cast<double>(peaks.size() - rank), microbatches) : microbatches;
  }
  return peaks;
}

/// Where a layer keeps `layer` bytes, and a dense one among layers of experts `dense_layer`.
std::vector<double> stage_activations(const TrainingJob& job, double layer, double dense_layer) {
  const std::vector<std::int64_t> layers = layers_of_stages(job);
  const std::vector<std::int64_t> dense_layers = second_kind_of_stages(job);
  std::vector<double> bytes;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    bytes.push_back(static_cast<double>(layers[stage] - dense_layers[stage]) * layer +
                    static_cast<double>(dense_layers[stage]) * dense_layer);
  }
  bytes.front() += embedding_activation_bytes(job);
  bytes.back() += head_activation_bytes(job);
  return bytes;
}

double common_buffers(const TrainingJob& job) {
  const ParallelLayout& parallel = job.parallel;
  const ReplicaGroups replicas = replica_groups(job);
  const auto communicators =
      std::ranges::count_if(std::vector{parallel.tp, parallel.pp, parallel.dp, parallel.cp, parallel.ep},
                            [](int ranks) { return ranks > 1; }) +
      (replicas.shards.ranks > 1 && replicas.copies.ranks > 1 ? 1 : 0);  // of hybrid sharding
  const double streams = has_encoder_and_decoder(job.model) ? 2 : 1;
  const double messages = parallel.pp > 1 ? kMessages * streams * layer_input_bytes(job) : 0;
  return kContextBytes + static_cast<double>(communicators) * kCommunicatorBytes + messages;
}

}  // namespace

std::size_t MemoryEstimate::fullest_rank() const {
  const auto fullest = std::ranges::max_element(ranks, {}, [](const RankMemory& rank) { return rank.total(); });
  return static_cast<std::size_t>(fullest - ranks.begin());
}

double MemoryEstimate::peak() const { return ranks.empty() ? 0 : ranks[fullest_rank()].total(); }

MemoryFit MemoryEstimate::fit() const {
  if (ranks.empty()) return MemoryFit::fits;
  // The allocator gives holes back before it fails.
  const double needed = peak() - ranks[fullest_rank()].fragmentation;
  if (needed > (1 + kMostOverCapacity) * capacity) return MemoryFit::exceeds;
  return peak() > (1 - kMemoryError) * capacity ? MemoryFit::near_limit : MemoryFit::fits;
}

StateBytes state_bytes(const TrainingJob& job) {
  // Narrow types as products read them: as stored and transposed, alone or beside the bf16 weights.
  const auto copies = [](DataType type) { return (is_narrow(type) ? 2 : 1) * bytes_of(type); };
  StateBytes bytes;
  bytes.weight = job.stack.weights      ? copies(*job.stack.weights)
                 : is_narrow(job.dtype) ? bytes_of(DataType::bf16) + copies(job.dtype)
                                        : bytes_of(job.dtype);
  if (keeps_master_weights(job)) bytes.optimizer += kMasterWeightBytes;
  if (job.stack.gradients) bytes.gradient = bytes_of(*job.stack.gradients);
  return bytes;
}

bool keeps_master_weights(const TrainingJob& job) { return bytes_of(job.stack.weights.value_or(job.dtype)) < 4; }

double activation_bytes_per_layer(const TrainingJob& job) {
  if (job.recompute == Recompute::full) return layer_input_bytes(job);
  if (job.recompute == Recompute::operators) return kept_with_operators(job);
  const double kept = kept_without_recompute(job);
  return job.recompute == Recompute::selective ? kept - score_bytes(job) : kept;
}

std::vector<double> parameters_of_ranks(const TrainingJob& job) {
  std::vector<double> counts;
  for (const RankParameters& rank : rank_parameters(job)) counts.push_back(rank.dense + rank.experts);
  return counts;
}

MemoryEstimate estimate_memory(const TrainingJob& job) {
  const std::vector<RankParameters> parameters = rank_parameters(job);
  const std::optional<TrainingJob> dense = second_kind(job);
  const double layer = activation_bytes_per_layer(job);
  const double dense_layer = dense ? activation_bytes_per_layer(*dense) : 0;
  const std::vector<double> activations = peak_activations(job, stage_activations(job, layer, dense_layer));
  const std::vector<double> without_layers =
      job.offload == Offload::activations ? peak_activations(job, stage_activations(job, 0, 0)) : activations;
  const double layer_workspace = std::max(layer_workspace_bytes(job), dense ? layer_workspace_bytes(*dense) : 0);
  MemoryEstimate estimate{.ranks = {}, .capacity = kUsableShare * job.gpu.memory_bytes};
  for (std::size_t rank = 0; rank < parameters.size(); ++rank) {
    RankMemory memory;
    add_states(job, parameters[rank], memory);
    memory.activations = activations[rank];
    if (job.offload == Offload::activations) {
      memory.activations = std::min(activations[rank], without_layers[rank] + kWholeLayers * layer);
      memory.host += activations[rank] - memory.activations;
    }
    const bool last = rank + 1 == parameters.size();
    // The backward of the head is over when that of the last layer begins.
    const double workspace = std::max(layer_workspace, last ? head_workspace_bytes(job) : 0);
    if (last) memory.logits = kept_logit_bytes(job);
    memory.workspace = workspace;
    memory.buffers += common_buffers(job) + workspace;
    memory.fragmentation = kFragmentationShare * (memory.activations + workspace);
    estimate.ranks.push_back(memory);
  }
  return estimate;
}

}  // namespace lowgear::estimator
