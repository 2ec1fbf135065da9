#include "estimating/estimator/published_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/core/formats/csv.h"
#include "base/core/units.h"
#include "estimating/estimator/costs/roofline_costs.h"
#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/memory/memory_estimate.h"

namespace lowgear::estimator {
namespace {

/// Megatron's default, which none of the publications says to have changed.
constexpr double kMegatronDropout = 0.1;

/// GPT as Megatron trains it: learned positions, layer norm, GELU of four times the width, biases, tied embeddings.
model::ModelConfig gpt(std::int64_t hidden, std::int64_t layers, std::int64_t heads, std::int64_t vocabulary,
                       std::int64_t sequence) {
  model::ModelConfig shape = model::gpt_model(hidden, layers, heads, vocabulary, sequence);
  shape.name = fmt::format("gpt-{}x{}", layers, hidden);
  shape.tied_embeddings = true;
  return shape;
}

/// Megatron of 2021 on DGX A100: fp16, kernels of attention apart, full recomputation, sums of gradients after the
/// backward.
TrainingJob megatron_a100(const model::ModelConfig& model) {
  TrainingJob job;
  job.model = model;
  job.gpu = named_gpu("a100-80gb-sxm");
  job.cluster = default_cluster(job.gpu);
  job.batch.sequence_length = 2048;
  job.recompute = Recompute::full;
  job.attention = AttentionKind::unfused;
  job.zero = 0;
  job.dtype = DataType::fp16;
  job.overlap = {.gradients = false, .tensor_gradients = false};
  job.dropout = kMegatronDropout;
  job.stack.fused_gradient_sums = false;
  return job;
}

void interleave(TrainingJob& job, int chunks) {
  job.parallel.virtual_stages = chunks;
  job.schedule = chunks > 1 ? "interleaved" : "1f1b";
}

struct Layout {
  int tp, pp, chunks, gpus, batch;
};

/// Microbatches of one sequence.
void lay_out(TrainingJob& job, const Layout& layout) {
  job.parallel.tp = layout.tp;
  job.parallel.pp = layout.pp;
  job.parallel.dp = layout.gpus / (layout.tp * layout.pp);
  job.batch.global = layout.batch;
  job.batch.micro = 1;
  interleave(job, layout.chunks);
}

/// Equation 3 of the SC'21 paper: FLOPs of an iteration with full recomputation.
double flops_with_recomputation(const TrainingJob& job) {
  const auto h = static_cast<double>(job.model.hidden);
  const auto s = static_cast<double>(job.batch.sequence_length);
  const double tokens = static_cast<double>(job.batch.global) * s;
  return 96 * tokens * static_cast<double>(job.model.layers) * h * h *
         (1 + s / (6 * h) +
          static_cast<double>(job.model.vocabulary) / (16 * static_cast<double>(job.model.layers) * h));
}

constexpr std::int64_t kMegatronVocabulary = 51200;

}  // namespace

std::vector<PublishedRun> sc21_runs() {
  struct Row {
    const char* name;
    int hidden, layers, heads, tp, pp, chunks, gpus, batch, micro;
    bool overlapped;  ///< PyTorch's DDP, which sums beside the backward, instead of Megatron's own
    double tflops;
  };
  constexpr std::array kRows{
      Row{"1.7B", 2304, 24, 24, 1, 1, 1, 32, 512, 16, true, 137},
      Row{"3.6B", 3072, 30, 32, 2, 1, 1, 64, 512, 16, true, 138},
      Row{"7.5B", 4096, 36, 32, 4, 1, 1, 128, 512, 16, true, 142},
      Row{"18.4B", 6144, 40, 48, 8, 1, 1, 256, 1024, 8, true, 135},
      Row{"39.1B", 8192, 48, 64, 8, 2, 1, 512, 1536, 4, false, 138},
      Row{"76.1B", 10240, 60, 80, 8, 4, 3, 1024, 1792, 2, false, 140},
      Row{"145.6B", 12288, 80, 96, 8, 8, 2, 1536, 2304, 2, false, 148},
      Row{"310.1B", 16384, 96, 128, 8, 16, 2, 1920, 2160, 1, false, 155},
      Row{"529.6B", 20480, 105, 128, 8, 35, 3, 2520, 2520, 1, false, 163},
      Row{"1008B", 25600, 128, 160, 8, 64, 1, 3072, 3072, 1, false, 163},
  };
  std::vector<PublishedRun> runs;
  for (const Row& row : kRows) {
    TrainingJob job = megatron_a100(gpt(row.hidden, row.layers, row.heads, kMegatronVocabulary, 2048));
    lay_out(job, {.tp = row.tp, .pp = row.pp, .chunks = row.chunks, .gpus = row.gpus, .batch = row.batch});
    job.batch.micro = row.micro;
    job.overlap.gradients = row.overlapped;
    runs.push_back({row.name, job, flops_with_recomputation(job) / (row.gpus * row.tflops * 1e12)});
  }
  return runs;
}

std::vector<PublishedRun> sc21_scaling_runs() {
  struct Row {
    const char* name;
    int hidden, layers, heads, pp, chunks, gpus, batch;
    double tflops;
  };
  constexpr std::array kRows{
      Row{"174.6B on 384", 12288, 96, 96, 12, 1, 384, 1536, 153},
      Row{"174.6B on 768", 12288, 96, 96, 12, 1, 768, 1536, 149},
      Row{"174.6B on 1536", 12288, 96, 96, 12, 1, 1536, 1536, 141},
      Row{"529.6B on 560", 20480, 105, 128, 35, 1, 560, 2240, 171},
      Row{"529.6B on 1120", 20480, 105, 128, 35, 1, 1120, 2240, 167},
      Row{"529.6B on 2240", 20480, 105, 128, 35, 1, 2240, 2240, 159},
  };
  std::vector<PublishedRun> runs;
  for (const Row& row : kRows) {
    TrainingJob job = megatron_a100(gpt(row.hidden, row.layers, row.heads, kMegatronVocabulary, 2048));
    lay_out(job, {.tp = 8, .pp = row.pp, .chunks = row.chunks, .gpus = row.gpus, .batch = row.batch});
    runs.push_back({row.name, job, flops_with_recomputation(job) / (row.gpus * row.tflops * 1e12)});
  }
  return runs;
}

std::vector<PublishedRun> megatron_core_runs() {
  struct Row {
    const char* name;
    int hidden, layers, heads, tp, pp, chunks, batch;
    double tflops;
  };
  constexpr std::array kRows{
      Row{"2048x24", 2048, 24, 16, 1, 1, 1, 192, 408.8},        Row{"4096x30", 4096, 30, 32, 2, 1, 1, 192, 465.9},
      Row{"6144x32", 6144, 32, 48, 4, 1, 1, 192, 489.1},        Row{"7168x48", 7168, 48, 56, 8, 1, 1, 192, 459.6},
      Row{"8192x84", 8192, 84, 64, 8, 2, 1, 384, 419.7},        Row{"10240x92", 10240, 92, 80, 8, 4, 1, 768, 420.5},
      Row{"12288x96", 12288, 96, 96, 8, 6, 1, 1152, 432.8},     Row{"16384x96", 16384, 96, 128, 8, 8, 1, 1536, 474.4},
      Row{"18432x112", 18432, 112, 144, 8, 16, 1, 3072, 459.9},
  };
  std::vector<PublishedRun> runs;
  for (const Row& row : kRows) {
    TrainingJob job;
    job.model = gpt(row.hidden, row.layers, row.heads, 131072, 4096);
    job.model.tied_embeddings = false;
    job.gpu = named_gpu("h100-sxm");
    job.cluster = default_cluster(job.gpu);
    job.parallel.tp = row.tp;
    job.parallel.pp = row.pp;
    job.parallel.dp = 48;
    job.parallel.sequence_parallel = row.tp > 1;
    job.batch = {.global = row.batch, .micro = 1, .sequence_length = 4096};
    job.overlap = {.gradients = true, .tensor_gradients = true, .tensor = true, .pipeline = true};
    job.dropout = kMegatronDropout;
    interleave(job, row.chunks);
    const double flops = training_flops_per_token(job.model, 4096) * static_cast<double>(row.batch) * 4096;
    runs.push_back({row.name, job, flops / (job.parallel.gpus() * row.tflops * 1e12)});
  }
  return runs;
}

std::vector<PublishedRun> korthikanti_runs() {
  struct Row {
    const char* name;
    int hidden, layers, heads, pp, chunks, batch, micro;
    double full_s, selective_s;
  };
  constexpr std::array kRows{
      Row{"22B", 6144, 48, 64, 1, 1, 4, 4, 1.42, 1.10},
      Row{"175B", 12288, 96, 96, 8, 3, 64, 1, 18.13, 13.75},
      Row{"530B", 20480, 105, 128, 35, 3, 280, 1, 49.05, 37.83},
      Row{"1T", 25600, 128, 160, 64, 1, 512, 1, 94.42, 71.49},
  };
  std::vector<PublishedRun> runs;
  for (const Row& row : kRows) {
    TrainingJob job = megatron_a100(gpt(row.hidden, row.layers, row.heads, kMegatronVocabulary, 2048));
    job.parallel.tp = 8;
    job.parallel.pp = row.pp;
    job.batch.global = row.batch;
    job.batch.micro = row.micro;
    job.overlap.tensor_gradients = true;
    job.stack.fused_gradient_sums = true;
    interleave(job, row.chunks);
    runs.push_back({fmt::format("{} full", row.name), job, row.full_s});
    job.recompute = Recompute::selective;
    job.parallel.sequence_parallel = true;
    runs.push_back({fmt::format("{} sequence parallel, selective", row.name), job, row.selective_s});
  }
  return runs;
}

std::vector<PublishedRun> turing_nlg_runs() {
  struct Row {
    int dp;
    double measured_s;
  };
  constexpr std::array kRows{Row{8, 60.1}, Row{10, 50.2}, Row{12, 44.4}};
  std::vector<PublishedRun> runs;
  for (const Row& row : kRows) {
    TrainingJob job = megatron_a100(gpt(20480, 105, 128, 50257, 2048));
    job.parallel.tp = 8;
    job.parallel.pp = 35;
    job.parallel.dp = row.dp;
    job.batch.global = 1920;
    job.batch.micro = 1;
    job.dtype = DataType::bf16;
    runs.push_back({fmt::format("530B on {}", job.parallel.gpus()), job, row.measured_s});
  }
  return runs;
}

namespace {

/// bench/gpu/pipeline.yaml.
TrainingJob trainer_job() {
  TrainingJob job;
  model::ModelConfig& model = job.model;
  model.name = "llama-24x2048";
  model.vocabulary = 32000;
  model.hidden = 2048;
  model.layers = 24;
  model.heads = 16;
  model.kv_heads = 16;
  model.head_dim = 128;
  model.intermediate = 5632;
  model.max_positions = 2048;
  job.gpu = named_gpu("h200-sxm");
  job.cluster = default_cluster(job.gpu);
  job.cluster.gpus_per_node = 4;
  job.stack = named_stack("lowgear");
  job.batch = {.global = 64, .micro = 4, .sequence_length = 2048};
  job.zero = 0;
  return job;
}

/// The trainer before its kernels of November 2026: norms and additions apart, four copies around rotary embeddings,
/// PyTorch's loss.
SoftwareStack older_kernels() {
  SoftwareStack stack = named_stack("lowgear");
  stack.rotary_passes = PassTimes{4, 4};
  stack.norm_passes.reset();
  stack.fused_residual = false;
  stack.loss = LossKind::plain;
  return stack;
}

}  // namespace

std::vector<PublishedRun> trainer_runs() {
  constexpr double kTokens = 64 * 2048;
  const auto changed = [](auto&& change) {
    TrainingJob job = trainer_job();
    job.stack = older_kernels();
    job.parallel.pp = 4;
    change(job);
    return job;
  };
  const auto on = [&changed](int gpus, const SoftwareStack& stack) {
    return changed([&](TrainingJob& job) {
      job.parallel.pp = gpus;
      job.stack = stack;
    });
  };
  return {
      {"today's kernels", on(1, named_stack("lowgear")), (1.915 + 1.922) / 2},
      {"older kernels", on(1, older_kernels()), (2.093 + 2.096) / 2},
      {"compiled PyTorch", on(1, named_stack("compiled")), (2.001 + 1.995) / 2},
      {"older kernels, pp 2", on(2, older_kernels()), 1.181},
      {"compiled PyTorch, pp 2", on(2, named_stack("compiled")), 1.133},
      {"eager PyTorch, pp 2", on(2, named_stack("eager")), (1.390 + 1.387) / 2},
      {"eager PyTorch, pp 4", on(4, named_stack("eager")), 0.812},
      {"1F1B", changed([](TrainingJob&) {}), 0.6952},
      {"ZB-H1", changed([](TrainingJob& job) { job.schedule = "zb-h1"; }), kTokens / 200'200},
      {"interleaved", changed([](TrainingJob& job) { interleave(job, 2); }), kTokens / 198'400},
      {"layers recomputed", changed([](TrainingJob& job) { job.recompute = Recompute::full; }), kTokens / 149'700},
      {"tp 2", changed([](TrainingJob& job) {
         job.parallel.pp = 2;
         job.parallel.tp = 2;
       }),
       kTokens / 172'700},
      {"dp 2", changed([](TrainingJob& job) {
         job.parallel.pp = 2;
         job.parallel.dp = 2;
         job.batch.global = 32;
       }),
       0.3456},
      {"dp 4", changed([](TrainingJob& job) {
         job.parallel.pp = 1;
         job.parallel.dp = 4;
         job.batch.global = 16;
       }),
       0.1676},
  };
}

namespace {

std::vector<PublishedRun> vtrain_runs(const CsvTable& table, const TrainingJob& base) {
  std::vector<PublishedRun> runs;
  const auto integer = [&table](std::size_t row, std::string_view column) {
    return table.integer(row, table.column(column));
  };
  for (std::size_t row = 0; row < table.rows(); ++row) {
    TrainingJob job = base;
    const auto sequence = integer(row, "sequence length");
    job.model = gpt(integer(row, "hidden size"), integer(row, "# layers"), integer(row, "attention heads"),
                    kMegatronVocabulary, sequence);
    job.batch = {
        .global = integer(row, "global batch"), .micro = integer(row, "micro batch"), .sequence_length = sequence};
    job.parallel.tp = static_cast<int>(integer(row, "tensor parallelism"));
    job.parallel.dp = static_cast<int>(integer(row, "data parallelism"));
    job.parallel.pp = static_cast<int>(integer(row, "pipeline parallelism"));
    runs.push_back({fmt::format("h{} l{} t{} d{} p{} B{} b{}", job.model.hidden, job.model.layers, job.parallel.tp,
                                job.parallel.dp, job.parallel.pp, job.batch.global, job.batch.micro),
                    job,
                    table.number(row, table.column("iteration time (ms)")) / 1000,
                    0,
                    {fmt::format("hidden {:5}, tp {:2}", job.model.hidden, job.parallel.tp)}});
  }
  return runs;
}

}  // namespace

std::vector<PublishedRun> vtrain_cluster_runs(std::string_view text, const std::string& source) {
  TrainingJob job = megatron_a100(gpt(1024, 1, 16, kMegatronVocabulary, 2048));
  // 800 Gb/s a node (four HDR adapters for eight GPUs), as the configurations of vTrain's validation say.
  job.cluster.inter_node.bytes_per_s = 100e9 / 8;
  return vtrain_runs(CsvTable(text, source), job);
}

std::vector<PublishedRun> vtrain_node_runs(std::string_view text, const std::string& source) {
  TrainingJob job = megatron_a100(gpt(1024, 1, 16, kMegatronVocabulary, 1024));
  return vtrain_runs(CsvTable(text, source), job);
}

std::vector<Comparison> compare(const std::vector<PublishedRun>& runs) {
  std::vector<Comparison> comparisons;
  for (const PublishedRun& run : runs) {
    if (!run.ran()) continue;
    const RooflineCosts operators(run.job.gpu);
    const LinkCosts collectives(run.job.cluster);
    const IterationEstimate estimate = estimate_iteration(run.job, {operators, collectives});
    const MemoryEstimate memory = estimate_memory(run.job);
    const double bytes = memory.ranks[memory.fullest_rank()].total();
    comparisons.push_back({&run, estimate.time_s, estimate.error_s, bytes / kGiB, memory.fit() != MemoryFit::exceeds});
  }
  return comparisons;
}

double mean_absolute_pct(const std::vector<Comparison>& comparisons) {
  double sum = 0;
  for (const Comparison& comparison : comparisons) sum += std::abs(comparison.error_pct());
  return sum / static_cast<double>(comparisons.size());
}

double largest_absolute_pct(const std::vector<Comparison>& comparisons) {
  double largest = 0;
  for (const Comparison& comparison : comparisons) largest = std::max(largest, std::abs(comparison.error_pct()));
  return largest;
}

}  // namespace lowgear::estimator
