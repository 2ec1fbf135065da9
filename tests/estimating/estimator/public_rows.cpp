#include "estimating/estimator/public_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/units.h"
#include "estimating/estimator/job/model_catalogue.h"

namespace lowgear::estimator {
namespace {

/// A row of one of the files, which have the same header. A cell is empty where the source does not state it.
class PublicRow {
 public:
  PublicRow(const CsvTable& table, std::size_t row) : table_(&table), row_(row) {}

  [[nodiscard]] const std::string& text(std::string_view column) const {
    return table_->text(row_, table_->column(column));
  }
  [[nodiscard]] bool states(std::string_view column) const { return !text(column).empty(); }
  [[nodiscard]] std::int64_t integer(std::string_view column, std::int64_t otherwise = 1) const {
    return states(column) ? table_->integer(row_, table_->column(column)) : otherwise;
  }
  [[nodiscard]] int count(std::string_view column) const { return static_cast<int>(integer(column)); }
  [[nodiscard]] double number(std::string_view column) const {
    return states(column) ? table_->number(row_, table_->column(column)) : 0;
  }
  [[nodiscard]] bool notes(std::string_view words) const { return text("note").find(words) != std::string::npos; }
  /// The entry whose `key` begins the cell.
  template <typename Entries>
  [[nodiscard]] const auto& entry(const Entries& entries, std::string_view column) const {
    const auto found = std::ranges::find_if(entries, [&](const auto& e) { return text(column).starts_with(e.key); });
    if (found == entries.end()) {
      const SourceLocation where = table_->where(row_, table_->column(column));
      throw InputError(
          fmt::format("{}: the {} \"{}\" has no entry in public_rows.cpp", to_string(where), column, text(column)));
    }
    return *found;
  }

 private:
  const CsvTable* table_;
  std::size_t row_;
};

struct RowGpu {
  std::string_view key;
  std::string_view gpu;
  double nvlink_bytes_per_s = 0;  ///< one direction; 0: the GPU's own
};
/// A800 and H800 are the same chips with 400 GB/s of NVLink in both directions.
constexpr auto kRowGpus = std::to_array<RowGpu>({
    {"A100 40GB", "a100-40gb-sxm"},
    {"A100 80GB", "a100-80gb-sxm"},
    {"A800 80GB", "a100-80gb-sxm", 200 * kGiga},
    {"GB200", "gb200"},
    {"H100", "h100-sxm"},
    {"H800 80GB", "h100-sxm", 200 * kGiga},
});

struct RowType {
  std::string_view key;
  DataType type;
};
constexpr auto kRowTypes = std::to_array<RowType>({
    {"bf16+fp8", DataType::fp8},
    {"FP8", DataType::fp8},
    {"bf16", DataType::bf16},
    {"BF16", DataType::bf16},
    {"amp", DataType::bf16},
    {"fp16", DataType::fp16},
    {"fp32", DataType::tf32},  // whose peak the source's utilisation is a share of
});

/// The columns that are read alike in all files. `dp` fills the GPUs, and sequence parallelism goes with tp.
TrainingJob job_of(const PublicRow& row, model::ModelConfig model) {
  const RowGpu& gpu = row.entry(kRowGpus, "gpu");
  TrainingJob job;
  job.model = std::move(model);
  job.gpu = named_gpu(gpu.gpu);
  job.cluster = default_cluster(job.gpu);
  if (gpu.nvlink_bytes_per_s > 0) job.cluster.intra_node.bytes_per_s = gpu.nvlink_bytes_per_s;
  ParallelLayout& layout = job.parallel;
  layout = {.tp = row.count("tp"),
            .pp = row.count("pp"),
            .virtual_stages = row.count("vp"),
            .ep = row.count("ep"),
            .cp = row.count("cp"),
            .sequence_parallel = row.count("tp") > 1};
  layout.dp = row.count("gpus") / layout.gpus();
  if (layout.virtual_stages > 1) job.schedule = "interleaved";
  job.batch = {.global = row.integer("global_batch", 0),
               .micro = row.integer("micro_batch"),
               .sequence_length = row.integer("seq", 0)};
  if (row.states("precision")) job.dtype = row.entry(kRowTypes, "precision").type;
  return job;
}

double seconds_at(const TrainingJob& job, double tokens_per_s_per_gpu) {
  const auto tokens = static_cast<double>(job.batch.global * job.batch.sequence_length);
  return tokens / (tokens_per_s_per_gpu * job.parallel.gpus());
}

struct MappedRow {
  TrainingJob job;
  std::vector<std::string> groups;
};

template <typename MapRow>
std::vector<PublishedRun> runs_of(std::string_view text, const std::string& source, const MapRow& map_row) {
  const CsvTable table(text, source);
  std::vector<PublishedRun> runs;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const PublicRow row(table, i);
    MappedRow mapped = map_row(row);
    double measured_s = row.number("step_s");
    if (row.states("tokens_per_s_per_gpu")) measured_s = seconds_at(mapped.job, row.number("tokens_per_s_per_gpu"));
    runs.push_back({fmt::format("row {}", i + 1), std::move(mapped.job), measured_s, row.number("memory_gib"),
                    std::move(mapped.groups)});
  }
  return runs;
}

/// Communication that NVIDIA's recipes hide.
constexpr Overlap kAllHidden = {.gradients = true, .tensor_gradients = true, .tensor = true, .pipeline = true};

/// Layers of another model in the sizes of this one.
struct Sizes {
  std::int64_t hidden, layers, heads, kv_heads, intermediate, vocabulary;
};
model::ModelConfig resized(std::string_view layers_of, const std::string& name, const Sizes& sizes) {
  model::ModelConfig model = named_model(layers_of);
  model.name = name;
  model.hidden = sizes.hidden;
  model.layers = sizes.layers;
  model.heads = sizes.heads;
  model.kv_heads = sizes.kv_heads;
  model.head_dim = sizes.hidden / sizes.heads;
  model.intermediate = sizes.intermediate;
  model.vocabulary = sizes.vocabulary;
  if (model.experts) model.experts->intermediate = sizes.intermediate;
  return model;
}

/// Squared ReLU, layer norms, rotary positions, grouped queries.
model::ModelConfig nemotron(const std::string& name, const Sizes& sizes) {
  model::ModelConfig model = resized("llama-3.1-8b", name, sizes);
  model.mlp = model::MlpKind::plain;
  model.norm = model::NormKind::layer_norm;
  return model;
}

constexpr std::string_view kMaxTextModel = "Llama-3-70B";
constexpr std::string_view kGrok = "Grok-1";

/// What the recipes of the repository state of gradients, fp8 and overlap: `grad_sync_dtype: bf16` and `fp8_params`, or
/// `grad_reduce_in_fp32 = False` with NeMo's bf16_with_fp8_mixed; grok1_314b.yaml has neither fp8 weights nor
/// `ub_tp_comm_overlap`. Its later rows name how experts are divided (ETP).
void set_nemo_recipe(const PublicRow& row, std::string_view model, TrainingJob& job) {
  if (model == kMaxTextModel) return;
  const bool grok = model == kGrok;
  if (grok || job.dtype == DataType::fp8) {
    job.stack.gradients = DataType::bf16;
    job.stack.reductions = DataType::bf16;
  }
  if (!grok && job.dtype == DataType::fp8) job.stack.weights = DataType::fp8;
  if (grok && !row.notes("ETP")) job.overlap.tensor = false;
}

model::ModelConfig grok() {
  model::ModelConfig model = resized("mixtral-8x7b", "grok-1", {6144, 64, 48, 8, 32768, 131072});
  model.max_positions = 8192;
  model.tied_embeddings = true;
  return model;
}

}  // namespace

std::vector<PublishedRun> llm_foundry_runs(std::string_view text, const std::string& source) {
  return runs_of(text, source, [](const PublicRow& row) {
    // Weights, biases, learned positions and tied embeddings of a GPT-2 give the stated count of parameters.
    model::ModelConfig model = model::gpt_model(row.integer("hidden"), row.integer("layers"), row.integer("heads"),
                                                row.integer("vocabulary"), row.integer("seq"));
    model.name = row.text("model");
    model.tied_embeddings = true;
    TrainingJob job = job_of(row, std::move(model));
    job.zero = 3;
    job.recompute = row.text("recompute") == "none" ? Recompute::none : Recompute::full;
    job.stack = named_stack("llm-foundry");
    const bool pure = row.text("precision").find("PURE") != std::string::npos;
    if (!pure) job.stack.reductions = DataType::fp32;  // Composer's `mixed_precision: DEFAULT`
    return MappedRow{job,
                     {fmt::format("sequence {:5}", job.batch.sequence_length),
                      fmt::format("hidden {:4}, {} layers", job.model.hidden, job.model.layers),
                      pure ? "weights in bf16" : "weights in fp32"}};
  });
}

/// The files state neither recomputation nor sharding of the others: NeMo's recipes have none, and the distributed
/// optimizer.
std::vector<PublishedRun> dgxc_runs(std::string_view text, const std::string& source) {
  struct Model {
    std::string_view key;
    model::ModelConfig model;
  };
  const std::vector<Model> models = {
      {kGrok, grok()},
      {"Llama-3.1-405B", named_model("llama-3.1-405b")},
      {"Llama-3.1-70B", named_model("llama-3.1-70b")},
      {"Llama-3.1-8B", named_model("llama-3.1-8b")},
      {kMaxTextModel, named_model("llama-3-70b")},
      {"Nemotron4-340B", nemotron("nemotron-4-340b", {18432, 96, 96, 8, 73728, 256000})},
      {"Nemotron4-15B", nemotron("nemotron-4-15b", {6144, 32, 48, 8, 24576, 256000})},
      {"GPT-3 175B", named_model("gpt3-175b")},
  };
  return runs_of(text, source, [&models](const PublicRow& row) {
    const Model& entry = row.entry(models, "model");
    TrainingJob job = job_of(row, entry.model);
    job.model.layers = row.integer("layers", job.model.layers);  // fewer than the model has, on few GPUs
    job.overlap = kAllHidden;
    set_nemo_recipe(row, entry.key, job);
    if (entry.key == kMaxTextModel) {
      job.batch.sequence_length = 8192;  // which the stated utilisation implies
      job.zero = 3;                      // among all GPUs, where the larger runs have groups of 128
      job.recompute = Recompute::full;
    }
    return MappedRow{job, {fmt::format("{}, {}, {}", entry.key, row.text("gpu"), name(job.dtype))}};
  });
}

namespace {

/// A case of FlagPerf, with what its scripts in training/benchmarks state.
struct FlagPerfCase {
  std::string_view key;
  model::ModelConfig model;
  std::int64_t accumulation = 1;  ///< microbatches, where the row has neither batch nor accumulation
  int zero = 1;
  double dropout = 0;
};

/// 64 where a row notes `GAS=64`.
std::int64_t noted_accumulation(const PublicRow& row, std::int64_t otherwise) {
  constexpr std::string_view kName = "GAS=";
  const std::string& note = row.text("note");
  const std::size_t at = note.find(kName);
  return at == std::string::npos ? otherwise : std::stoll(note.substr(at + kName.size()));
}

/// Llama 3 as pretrain_llama3.sh has it, which leaves out the options of Megatron that untie embeddings, drop biases
/// and turn positions.
model::ModelConfig llama3_of_flagperf(std::string_view name) {
  model::ModelConfig model = named_model(name);
  model.tied_embeddings = true;
  model.qkv_biases = model.output_bias = model.mlp_biases = true;
  model.positions = model::PositionKind::learned;
  return model;
}

std::vector<FlagPerfCase> flagperf_cases() {
  constexpr double kDefault = 0.1;  // Megatron's, where the script sets none
  model::ModelConfig aquila = named_model("llama-2-7b");
  aquila.vocabulary = 100008;
  return {
      {"FlagPerf llama3_8B-megatron", llama3_of_flagperf("llama-3-8b"), 1, 1, kDefault},
      {"FlagPerf llama3_70B-megatron", llama3_of_flagperf("llama-3-70b"), 1, 1, kDefault},
      {"FlagPerf mixtral_8x7B-megatron", named_model("mixtral-8x7b"), 1, 1, kDefault},
      {"FlagPerf llama2_70B-megatron", named_model("llama-2-70b"), 44},
      {"FlagPerf qwen1.5_MoE-megatron", resized("mixtral-8x7b", "qwen1.5-8x1.8b", {2048, 24, 16, 16, 5504, 151936})},
      {"FlagPerf llama2_7b-deepspeed", named_model("llama-2-7b"), 1, 3},
      {"FlagPerf llama2_7b-megatron-deepspeed", named_model("llama-2-7b"), 32},
      {"FlagPerf aquila2_7b-flagscale", aquila, 9},
  };
}

}  // namespace

std::vector<PublishedRun> flagperf_runs(std::string_view text, const std::string& source) {
  return runs_of(text, source, [cases = flagperf_cases()](const PublicRow& row) {
    const FlagPerfCase& entry = row.entry(cases, "source");
    TrainingJob job = job_of(row, entry.model);
    const bool flagscale = entry.key.ends_with("flagscale");
    if (!row.states("global_batch")) {
      job.batch.global = noted_accumulation(row, entry.accumulation) * job.batch.micro * job.parallel.dp;
    }
    job.zero = entry.zero;
    job.dropout = entry.dropout;
    if (flagscale) job.parallel.sequence_parallel = false;
    if (row.notes("recompute=True")) job.recompute = Recompute::selective;
    if (job.dtype == DataType::tf32) job.attention = AttentionKind::unfused;  // fused kernels have no fp32
    if (entry.zero == 3) {
      // Of the transformers library, in fp16 under DeepSpeed, which gathers ahead and scatters beside the backward.
      job.dtype = DataType::fp16;
      job.stack = named_stack("transformers");
    } else {
      job.overlap.gradients = false;  // no script asks for it
    }
    return MappedRow{job, {std::string(entry.key.substr(entry.key.find(' ') + 1))}};
  });
}

namespace {

struct TorchtitanRow {
  const char* name;
  const char* model;
  int gpus, batch, micro, sequence;
  ParallelLayout layout;
  Recompute recompute;
  double tokens_per_s_per_gpu;
  double gib = 0;
  DataType dtype = DataType::bf16;
  bool compiled = false;
  bool async_tensor = false;
};

constexpr Recompute kFull = Recompute::full;
constexpr Recompute kOperators = Recompute::operators;

constexpr std::array kTorchtitanA100{
    TorchtitanRow{"Llama 3 70B, recomputed", "llama-3-70b", 64, 64, 1, 8192, {}, kFull, 331},
    TorchtitanRow{"Llama 2 13B", "llama-2-13b", 64, 128, 2, 4096, {}, Recompute::none, 2162},
    TorchtitanRow{"Llama 2 70B, recomputed", "llama-2-70b", 64, 128, 2, 4096, {}, kFull, 353},
    TorchtitanRow{"Llama 3 8B, operators", "llama-3-8b", 64, 64, 1, 8192, {}, kOperators, 2973},
    TorchtitanRow{"Llama 2 13B, operators", "llama-2-13b", 64, 128, 2, 4096, {}, kOperators, 1904},
    TorchtitanRow{"Llama 2 70B, operators", "llama-2-70b", 64, 64, 1, 4096, {}, kOperators, 355},
};

constexpr DataType kFp8 = DataType::fp8;
/// The pipeline has as many microbatches as stages, the framework's default.
constexpr std::array kTorchtitanH100{
    TorchtitanRow{"8B, operators", "llama-3.1-8b", 8, 16, 2, 8192, {}, kOperators, 5762},
    TorchtitanRow{
        "8B, operators, compiled", "llama-3.1-8b", 8, 16, 2, 8192, {}, kOperators, 6667, 0, DataType::bf16, true},
    TorchtitanRow{"8B, operators, compiled, fp8", "llama-3.1-8b", 8, 16, 2, 8192, {}, kOperators, 8532, 0, kFp8, true},
    TorchtitanRow{"8B, cp 1, fp8", "llama-3.1-8b", 8, 8, 1, 32768, {}, kFull, 3890, 83.9, kFp8, true},
    TorchtitanRow{"8B, cp 2, fp8", "llama-3.1-8b", 8, 4, 1, 65536, {.cp = 2}, kFull, 2540, 84.2, kFp8, true},
    TorchtitanRow{"8B, cp 4, fp8", "llama-3.1-8b", 8, 2, 1, 131072, {.cp = 4}, kFull, 1071, 84.0, kFp8, true},
    TorchtitanRow{"8B, cp 8, fp8", "llama-3.1-8b", 8, 1, 1, 262144, {.cp = 8}, kFull, 548, 84.5, kFp8, true},
    TorchtitanRow{"70B, fp8", "llama-3.1-70b", 256, 512, 16, 8192, {.tp = 8}, kFull, 829, 71.9, kFp8, true},
    TorchtitanRow{
        "70B, fp8, asynchronous tp", "llama-3.1-70b", 256, 512, 16, 8192, {.tp = 8}, kFull, 876, 0, kFp8, true, true},
    TorchtitanRow{"405B, fp8, asynchronous tp",
                  "llama-3.1-405b",
                  512,
                  256,
                  4,
                  8192,
                  {.tp = 8, .pp = 8},
                  kFull,
                  100,
                  0,
                  kFp8,
                  true,
                  true},
};

PublishedRun torchtitan_run(const TorchtitanRow& row, const GpuModel& gpu) {
  TrainingJob job;
  job.model = named_model(row.model);
  job.gpu = gpu;
  job.cluster = default_cluster(gpu);
  job.parallel = row.layout;
  job.parallel.dp = row.gpus / row.layout.gpus();
  job.parallel.sequence_parallel = row.layout.tp > 1;
  job.batch = {.global = row.batch, .micro = row.micro, .sequence_length = row.sequence};
  job.recompute = row.recompute;
  job.zero = 3;
  job.dtype = row.dtype;
  job.overlap.tensor = row.async_tensor;
  job.stack = named_stack(row.compiled ? "compiled" : "eager");
  if (row.compiled) job.stack.loss = LossKind::plain;  // layers are compiled one by one
  if (!row.compiled) job.stack.fused_norms = false;    // torchtitan/models/norms.py of 2024
  // PyTorch of 2024 did not prefer cuDNN's attention.
  if (gpu.fp8_flops > 0) job.stack.attention = AttentionKernel::flash2;
  return {row.name, job, seconds_at(job, row.tokens_per_s_per_gpu), row.gib};
}

}  // namespace

std::vector<PublishedRun> torchtitan_runs() {
  std::vector<PublishedRun> runs;
  for (const TorchtitanRow& row : kTorchtitanA100) runs.push_back(torchtitan_run(row, named_gpu("a100-80gb-sxm")));
  GpuModel h100 = named_gpu("h100-sxm");
  set_power_limit(h100, 500);
  set_memory_bandwidth(h100, 2400 * kGiga);
  h100.memory_bytes = 96 * kGiB;
  for (const TorchtitanRow& row : kTorchtitanH100) runs.push_back(torchtitan_run(row, h100));
  return runs;
}

std::vector<PublishedRun> mlperf_runs() {
  struct Row {
    int gpus, pp, virtual_stages, micro, batch;
    double measured_s;
  };
  std::vector<PublishedRun> runs;
  for (const Row& row : {Row{512, 8, 4, 2, 2304, 10.90}, Row{10752, 6, 8, 1, 2688, 0.9205}}) {
    TrainingJob job;
    job.model = named_model("gpt3-175b");
    job.gpu = named_gpu("h100-sxm");
    job.cluster = default_cluster(job.gpu);
    job.parallel = {.tp = 4, .pp = row.pp, .virtual_stages = row.virtual_stages, .sequence_parallel = true};
    job.parallel.dp = row.gpus / job.parallel.gpus();
    job.batch = {.global = row.batch, .micro = row.micro, .sequence_length = 2048};
    job.schedule = "interleaved";
    job.dtype = DataType::fp8;
    job.overlap = kAllHidden;
    job.stack.weights = DataType::fp8;
    job.stack.gradients = DataType::bf16;
    runs.push_back({fmt::format("175B on {}", row.gpus), job, row.measured_s});
  }
  return runs;
}

}  // namespace lowgear::estimator
