#include "estimating/estimator/job/training_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/core/error.h"
#include "base/core/text.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule.h"

namespace lowgear::estimator {
namespace {

using Fault = std::optional<JobFault>;

constexpr int kMostGpusPerNode = 4096;
constexpr double kMaxBytesPerS = 1e15;
constexpr double kMaxLatencyS = 1;
/// The schedule that depends on how long stages take.
constexpr std::string_view kTimedSchedule = "envpipe";
constexpr std::string_view kVShapedSchedule = "zb-v";

Fault out_of_range(std::string_view member, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return std::nullopt;
  return JobFault{member, fmt::format("{} is not from {} to {}", value, low, high), ""};
}

/// `count` ranks each have an equal part of `total` things.
Fault indivisible(std::string_view member, std::int64_t count, std::string_view things, std::int64_t total) {
  if (total % count == 0) return std::nullopt;
  return JobFault{member, fmt::format("{} does not divide the {} {}", count, total, things), "give a divisor of it"};
}

/// The first fault of several checks, each done only when those before it found none.
template <typename... Checks>
Fault first_of(const Checks&... checks) {
  Fault fault;
  (void)((fault = checks()) || ...);
  return fault;
}

Fault find_count_fault(const TrainingJob& job) {
  const ParallelLayout& parallel = job.parallel;
  using Count = std::pair<std::string_view, int>;
  const auto counts = std::to_array<Count>({{"parallel.dp", parallel.dp},
                                            {"parallel.tp", parallel.tp},
                                            {"parallel.pp", parallel.pp},
                                            {"parallel.virtual_stages", parallel.virtual_stages},
                                            {"parallel.ep", parallel.ep},
                                            {"parallel.cp", parallel.cp}});
  for (const auto& [member, count] : counts) {
    if (Fault fault = out_of_range(member, count, 1, kMaxJobGpus)) return fault;
  }
  // Of numbers up to 2^20, three have a product within 64 bits.
  std::int64_t gpus = std::int64_t{parallel.dp} * parallel.tp * parallel.pp;
  if (gpus <= kMaxJobGpus) gpus *= parallel.cp;
  if (gpus > kMaxJobGpus) {
    return JobFault{"parallel", fmt::format("dp x tp x pp x cp are more than {} GPUs", kMaxJobGpus), ""};
  }
  return std::nullopt;
}

Fault find_link_fault(std::string_view member, const Link& link) {
  if (!(link.bytes_per_s > 0 && link.bytes_per_s <= kMaxBytesPerS)) {
    return JobFault{member, fmt::format("a bandwidth of {} bytes/s is invalid", link.bytes_per_s), ""};
  }
  if (!(link.latency_s >= 0 && link.latency_s <= kMaxLatencyS)) {
    return JobFault{member, fmt::format("a latency of {} s is invalid", link.latency_s), ""};
  }
  return std::nullopt;
}

Fault find_cluster_fault(const TrainingJob& job) {
  const Cluster& cluster = job.cluster;
  const int gpus = job.parallel.gpus();
  if (Fault fault = out_of_range("cluster.gpus_per_node", cluster.gpus_per_node, 1, kMostGpusPerNode)) return fault;
  const int beyond = gpus % cluster.gpus_per_node;
  if (gpus > cluster.gpus_per_node && beyond != 0) {
    return JobFault{"cluster.gpus_per_node",
                    fmt::format("{} GPUs do not fill nodes of {}", gpus, cluster.gpus_per_node),
                    fmt::format("give {} or {} GPUs, or another gpus_per_node", gpus - beyond,
                                gpus - beyond + cluster.gpus_per_node)};
  }
  if (Fault fault = find_link_fault("cluster.intra_node", cluster.intra_node)) return fault;
  return find_link_fault("cluster.inter_node", cluster.inter_node);
}

Fault find_tensor_fault(const TrainingJob& job) {
  const model::ModelConfig& model = job.model;
  const int tp = job.parallel.tp;
  constexpr std::string_view kMember = "parallel.tp";
  if (Fault fault = indivisible(kMember, tp, "heads", model.heads)) return fault;
  if (Fault fault = indivisible(kMember, tp, "heads of keys and values", model.kv_heads)) return fault;
  if (!model.experts || !model.experts->dense.empty()) {
    if (Fault fault = indivisible(kMember, tp, "columns of the MLP", model.intermediate)) return fault;
  }
  if (!model.experts) return std::nullopt;
  if (Fault fault = indivisible(kMember, tp, "columns of an expert", model.experts->intermediate)) return fault;
  return indivisible(kMember, tp, "columns of the shared expert", model.experts->shared_intermediate);
}

Fault find_expert_fault(const TrainingJob& job) {
  const ParallelLayout& parallel = job.parallel;
  if (parallel.ep == 1) return std::nullopt;
  constexpr std::string_view kMember = "parallel.ep";
  if (!job.model.experts) return JobFault{kMember, "the model has no experts", "leave ep at 1"};
  if (Fault fault = indivisible(kMember, parallel.ep, "experts", job.model.experts->experts)) return fault;
  return indivisible(kMember, parallel.ep, "replicas (dp x cp)", std::int64_t{parallel.dp} * parallel.cp);
}

Fault find_stage_fault(const TrainingJob& job) {
  const ParallelLayout& parallel = job.parallel;
  const std::int64_t stages = std::int64_t{parallel.pp} * parallel.virtual_stages;
  if (stages > job.model.layers) {
    return JobFault{parallel.virtual_stages > 1 ? "parallel.virtual_stages" : "parallel.pp",
                    fmt::format("{} stages are more than the {} layers", stages, job.model.layers),
                    "every stage needs a layer"};
  }
  if (parallel.virtual_stages > 1 && parallel.pp == 1) {
    return JobFault{"parallel.virtual_stages", "virtual stages need several pipeline ranks", "leave it at 1"};
  }
  return std::nullopt;
}

Fault find_batch_fault(const TrainingJob& job) {
  const BatchShape& batch = job.batch;
  if (Fault fault = out_of_range("batch.global", batch.global, 1, kMaxBatch)) return fault;
  if (Fault fault = out_of_range("batch.micro", batch.micro, 1, kMaxBatch)) return fault;
  const std::int64_t together = batch.micro * job.parallel.dp;
  if (batch.global % together != 0) {
    return JobFault{"batch.global",
                    fmt::format("{} sequences are not a multiple of {} (micro {} x dp {})", batch.global, together,
                                batch.micro, job.parallel.dp),
                    fmt::format("give {}, or another micro or dp", (batch.global / together + 1) * together)};
  }
  return out_of_range("batch.global", job.microbatches(), 1, schedule::kMaxMicrobatches);
}

Fault find_sequence_fault(const TrainingJob& job) {
  const ParallelLayout& parallel = job.parallel;
  const std::int64_t length = job.batch.sequence_length;
  if (Fault fault = out_of_range("batch.sequence", length, 1, model::kMaxPositions)) return fault;
  if (job.model.positions == model::PositionKind::learned && length > job.model.max_positions) {
    return JobFault{"batch.sequence",
                    fmt::format("the model has learned {} positions, not {}", job.model.max_positions, length), ""};
  }
  if (parallel.cp > 1 && has_encoder_and_decoder(job.model)) {
    return JobFault{"parallel.cp", "context parallelism of an encoder and a decoder is not estimated", "give 1"};
  }
  if (Fault fault = indivisible("parallel.cp", parallel.cp, "tokens of a sequence", length)) return fault;
  if (!parallel.sequence_parallel) return std::nullopt;
  return indivisible("parallel.tp", parallel.tp, "tokens of a rank's sequence (sequence_parallel)",
                     length / parallel.cp);
}

Fault find_unknown_schedule(const std::string& name) {
  std::vector<std::string_view> names;
  for (const schedule::ScheduleGenerator& generator : schedule::schedule_generators()) {
    if (generator.recomputes && generator.name == name) {
      return JobFault{"schedule", fmt::format("{} recomputes as ops of their own, which estimates do not model", name),
                      "estimate 1f1b with recompute none, and plan the emitted profile with that schedule and "
                      "--recomputation-share"};
    }
    const bool modelled = generator.name != kTimedSchedule && generator.name != kVShapedSchedule;
    if (modelled && !generator.recomputes) names.push_back(generator.name);
  }
  if (std::ranges::find(names, name) != names.end()) return std::nullopt;
  if (name == kTimedSchedule) {
    return JobFault{"schedule", "envpipe's schedule depends on the times of stages",
                    "estimate with 1f1b, and plan the emitted profile with envpipe"};
  }
  if (name == kVShapedSchedule) {
    return JobFault{"schedule", "zb-v runs the first and the last stage on one rank, which estimates do not model",
                    "estimate with zb-h1 or interleaved"};
  }
  const auto meant = nearest_name(name, names);
  return JobFault{
      "schedule", fmt::format("there is no schedule {}", quote(name)),
      meant ? fmt::format("did you mean {}?", *meant) : fmt::format("there are {}", fmt::join(names, ", "))};
}

/// What planning/schedule/generators.h refuses, without making the schedule.
Fault find_schedule_fault(const TrainingJob& job) {
  if (Fault fault = find_unknown_schedule(job.schedule)) return fault;
  const ParallelLayout& parallel = job.parallel;
  const std::int64_t microbatches = job.microbatches();
  if (2 * microbatches * parallel.pp * parallel.virtual_stages > static_cast<std::int64_t>(schedule::kMaxActions)) {
    return JobFault{"batch.global", "the schedule would have too many steps", "give larger or fewer microbatches"};
  }
  const auto generators = schedule::schedule_generators();
  const auto generator = std::ranges::find(generators, job.schedule, &schedule::ScheduleGenerator::name);
  if (!generator->runs_chunks(parallel.virtual_stages)) {
    if (parallel.virtual_stages == 1) {
      return JobFault{"schedule", fmt::format("{} with one virtual stage per rank is 1f1b", job.schedule),
                      "use 1f1b, or give virtual_stages 2 or more"};
    }
    return JobFault{"schedule", fmt::format("{} has no virtual stages", job.schedule),
                    "use interleaved, or leave virtual_stages at 1"};
  }
  if (parallel.virtual_stages == 1) return std::nullopt;
  const std::int64_t rounds = std::max<std::int64_t>(1, microbatches / parallel.pp);
  if (microbatches % rounds != 0) {
    return JobFault{"batch.global",
                    fmt::format("{} microbatches cannot be interleaved on {} ranks", microbatches, parallel.pp),
                    fmt::format("give a multiple of {} microbatches", parallel.pp)};
  }
  return std::nullopt;
}

Fault find_shard_fault(const TrainingJob& job) {
  if (job.shard_size == 0) return std::nullopt;
  constexpr std::string_view kMember = "shard_size";
  const ParallelLayout& parallel = job.parallel;
  if (Fault fault = out_of_range(kMember, job.shard_size, 1, kMaxJobGpus)) return fault;
  if (job.zero == 0) return JobFault{kMember, "ZeRO 0 shards nothing", "give zero from 1 to 3, or leave it out"};
  if (Fault fault = indivisible(kMember, job.shard_size, "replicas (dp x cp)", std::int64_t{parallel.dp} * parallel.cp))
    return fault;
  if (job.shard_size % parallel.ep == 0) return std::nullopt;
  return JobFault{kMember,
                  fmt::format("{} is not a multiple of the {} expert parallel ranks", job.shard_size, parallel.ep),
                  "give a multiple of ep"};
}

Fault find_offload_fault(const TrainingJob& job) {
  if (job.offload != Offload::states || job.zero == 3) return std::nullopt;
  return JobFault{"offload", fmt::format("ZeRO {} leaves weights whole, which states includes", job.zero),
                  "give zero 3, or offload optimizer"};
}

Fault find_numeric_fault(const TrainingJob& job) {
  if (Fault fault = out_of_range("zero", job.zero, 0, 3)) return fault;
  if (!(job.dropout >= 0 && job.dropout < 1)) {
    return JobFault{"dropout", fmt::format("{} is not from 0 to below 1", job.dropout), ""};
  }
  try {
    (void)peak_flops(job.gpu, job.dtype);
  } catch (const InputError& error) {
    return JobFault{"dtype", error.what(), ""};
  }
  return std::nullopt;
}

}  // namespace

std::string_view name(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return "none";
    case Recompute::selective:
      return "selective";
    case Recompute::operators:
      return "operators";
    case Recompute::full:
      return "full";
  }
  return "";
}

std::string_view recomputation_text(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return "no recomputation";
    case Recompute::selective:
      return "selective recomputation";
    case Recompute::operators:
      return "recomputation of single operators";
    case Recompute::full:
      return "full recomputation";
  }
  return "";
}

std::string_view name(AttentionKind attention) { return attention == AttentionKind::fused ? "fused" : "unfused"; }

std::string_view name(Offload offload) {
  constexpr auto kNames = std::to_array<std::string_view>({"none", "activations", "optimizer", "states"});
  return kNames[static_cast<std::size_t>(offload)];
}

std::string sharding_text(int zero, int shard_size) {
  return fmt::format("ZeRO {}{}", zero, shard_size > 0 ? fmt::format(" in groups of {}", shard_size) : "");
}

std::optional<JobFault> find_fault(const TrainingJob& job) {
  const auto check = [&job](Fault (*find)(const TrainingJob&)) { return [&job, find] { return find(job); }; };
  return first_of(check(find_count_fault), check(find_tensor_fault), check(find_expert_fault), check(find_stage_fault),
                  check(find_cluster_fault), check(find_batch_fault), check(find_sequence_fault),
                  check(find_schedule_fault), check(find_numeric_fault), check(find_shard_fault),
                  check(find_offload_fault));
}

void require_valid(const TrainingJob& job) {
  require_valid(job.model);
  const Fault fault = find_fault(job);
  if (!fault) return;
  throw InputError(fmt::format("{}: {}{}{}", fault->member, fault->what, fault->fix.empty() ? "" : "; ", fault->fix));
}

std::int64_t padded_vocabulary(const TrainingJob& job) {
  const std::int64_t unit = std::int64_t{128} * job.parallel.tp;
  return (job.model.vocabulary + unit - 1) / unit * unit;
}

std::vector<std::int64_t> layers_of_stages(const TrainingJob& job) {
  const std::int64_t stages = std::int64_t{job.parallel.pp} * job.parallel.virtual_stages;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages), job.model.layers / stages);
  // Fewer than there are stages, so the last one never gets any.
  for (std::int64_t rest = job.model.layers % stages; rest > 0; --rest) {
    ++layers[static_cast<std::size_t>(stages - 1 - rest)];
  }
  return layers;
}

bool is_of_second_kind(const model::ModelConfig& model, std::int64_t layer) {
  return (model.experts && !has_experts(model, layer)) ||
         (has_encoder_and_decoder(model) && !attends_to_encoder(model, layer));
}

std::vector<std::int64_t> second_kind_of_stages(const TrainingJob& job) {
  std::vector<std::int64_t> counts = layers_of_stages(job);
  std::int64_t layer = 0;
  for (std::int64_t& count : counts) {
    const std::int64_t end = layer + std::exchange(count, 0);
    for (; layer < end; ++layer) count += is_of_second_kind(job.model, layer) ? 1 : 0;
  }
  return counts;
}

std::optional<TrainingJob> second_kind(const TrainingJob& job) {
  const std::vector<std::int64_t> counts = second_kind_of_stages(job);
  if (std::ranges::count(counts, 0) == std::ssize(counts)) return std::nullopt;
  std::optional<TrainingJob> second = job;
  second->model.experts.reset();
  if (has_encoder_and_decoder(job.model)) second->model.encoder_layers = job.model.layers;
  return second;
}

}  // namespace lowgear::estimator
