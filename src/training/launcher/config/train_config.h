#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/steps/step_planning.h"
#include "estimating/model/model_config.h"
#include "protocol/job_spec.h"
#include "training/dataset/token_text.h"
#include "training/launcher/config/adapt_config.h"
#include "training/launcher/config/recompute.h"
#include "training/launcher/config/train_server_config.h"
#include "training/launcher/energy/envpipe_config.h"

namespace lowgear::launcher {

/// Largest number of ranks of a job, and of parts into which a job divides anything.
constexpr int kMaxRanks = 65'536;

inline constexpr std::string_view kEnvPipeSchedule = "envpipe";

struct OptimizerConfig {
  double learning_rate = 3e-4;
  double min_learning_rate = 0;  ///< after the last step
  std::int64_t warmup_steps = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1;  ///< largest global norm of the gradients; 0: any
  bool zero1 = false;    ///< optimizer state split among the replicas
};

/// Times of units on a simulated GPU at its highest clock.
struct SimulatedGpuConfig {
  double layer_forward_s = 0;      ///< one layer's forward pass of a microbatch
  double embedding_forward_s = 0;  ///< of the first stage, in addition to its layers
  double head_forward_s = 0;       ///< of the last stage, in addition to its layers
  double backward_factor = 2;      ///< backward over forward
  double memory_share = 0.3;       ///< share of a unit's time that the SM clock does not change
  double load = 1;                 ///< share of the GPU's compute power
  double attention_share = 0;      ///< of a layer's time, where each sequence is one document; the rest is linear
};

/// A sweep of clocks during training.
struct ProfileConfig {
  std::vector<int> clocks_mhz;
  int settle_iterations = 1;  ///< after each change, not counted
  int iterations = 5;         ///< counted at each clock
};

/// Which steps are recorded.
struct RecordedSteps {
  std::int64_t first = 0;
  std::int64_t count = 1;
};

/// The section `evaluation`: the loss on text that the model is not trained on.
struct EvaluationConfig {
  std::vector<std::filesystem::path> held_out;  ///< token files, with the `token_type` of the training's
  std::int64_t every = 0;                       ///< steps; also after the last one; 0: only then
  std::int64_t batches = 1;                     ///< each with the number of sequences of a step

  /// Whether the loss is measured after `steps_done` of `steps` steps.
  [[nodiscard]] bool is_due(std::int64_t steps_done, std::int64_t steps) const {
    return steps_done == steps || (every > 0 && steps_done % every == 0);
  }
};

/// The probe that chooses between bf16 and fp8 (docs/training.md): the section `fp8.probe`.
struct PrecisionProbeConfig {
  int pairs = 6;                 ///< of blocks, one in bf16 and one in fp8
  double block_s = 10;           ///< least time of a block
  double loss_margin_pct = 0.5;  ///< by which the loss in fp8 may exceed that in bf16
};

/// Products of matrices in fp8 (docs/training.md): `type: fp8` and the section `fp8`.
struct Fp8Config {
  std::int64_t keep_first = 1;                ///< blocks at the model's beginning whose products stay in bf16
  std::int64_t keep_last = 1;                 ///< and at its end
  bool bf16_weight_gradients = false;         ///< these products in bf16, the other two in fp8
  bool emulate = false;                       ///< computed on the CPU: the same numbers, slowly
  std::optional<PrecisionProbeConfig> probe;  ///< `type: auto`: only if a probe before the first step shows a saving
};

inline constexpr double kLowestLossScale = 1;
inline constexpr double kHighestLossScale = 4294967296;  // 2^32

/// The loss scale of fp16 (docs/training.md): `type: fp16` and the section `fp16`.
struct Fp16Config {
  double loss_scale = 65536;         ///< in the first step: a power of two
  std::int64_t growth_steps = 2000;  ///< steps in a row with finite gradients after which it doubles
};

/// The YAML file of `lowgear train` (docs/training.md).
struct TrainConfig {
  std::optional<std::filesystem::path> model_file;  ///< a Hugging Face config.json
  model::ModelConfig model;                         ///< from the file or the section
  std::optional<std::filesystem::path> weights;     ///< folder or file to begin with; else random
  std::string partition = "uniform";

  std::vector<std::filesystem::path> tokens;     ///< token files, one text in their order; none: synthetic text
  std::optional<dataset::TokenType> token_type;  ///< of token files without header; empty: they have one
  std::int64_t synthetic_tokens = 0;
  std::int64_t sequence_length = 0;
  /// Token that ends a document, in which alone positions count and attention sees; empty: sequences are documents.
  std::optional<std::int64_t> document_end;
  std::optional<std::int64_t> mask_token;  ///< of masked language models; empty: the model is none

  protocol::JobParallel parallel;
  std::int64_t gradient_bucket_bytes = std::int64_t{25} << 20;  ///< of gradients that replicas sum in one go
  std::string schedule = "1f1b";
  std::vector<int> early_forwards;  ///< of the schedule `envpipe`, by rank; none: by the profile or the rule
  int microbatches = 1;
  std::int64_t microbatch_size = 1;
  bool bf16 = false;               ///< values and activations
  std::optional<Fp16Config> fp16;  ///< values and activations are in fp16, on CPUs rounded to it; empty: they are not
  std::optional<Fp8Config> fp8;    ///< empty: no product is in fp8; else values and activations are in bf16
  bool cuda = false;               ///< ranks compute on this machine's GPUs, rank by rank
  Recompute recompute = Recompute::none;
  std::vector<Recompute> ranks_recompute;  ///< by pipeline rank, in place of `recompute`; empty: all alike

  OptimizerConfig optimizer;
  FreezeConfig freeze;
  std::optional<EvaluationConfig> evaluation;
  AdaptConfig adapt;
  std::int64_t steps = 0;
  std::uint64_t seed = 1;

  std::optional<std::filesystem::path> checkpoint;  ///< folder; training continues from the newest complete one in it
  std::int64_t checkpoint_every = 0;                ///< steps; 0: at the end only
  int checkpoint_keep = 2;                          ///< newest ones; older ones are deleted
  std::optional<std::filesystem::path> export_folder;  ///< for the weights at the end, in Hugging Face's format
  std::optional<std::filesystem::path> plan;
  std::optional<client::StepFiles> step_clocks;
  std::optional<EnvPipeConfig> envpipe;  ///< the policy followed in the running job; empty: none
  EnvPipeMemory envpipe_memory;          ///< of that policy's order, and of the schedule `envpipe`
  std::optional<std::filesystem::path> recording;
  std::optional<RecordedSteps> recorded_steps;   ///< empty: all
  std::optional<std::filesystem::path> metrics;  ///< JSON lines, one a step
  std::optional<ProfileConfig> profile;
  std::optional<SimulatedGpuConfig> simulated_gpu;
  std::optional<TrainServerConfig> server;

  [[nodiscard]] Recompute recompute_of(int pipeline_rank) const {
    return ranks_recompute.empty() ? recompute : ranks_recompute.at(static_cast<std::size_t>(pipeline_rank));
  }
  /// Of a microbatch as the model sees it, with `row_tokens` each: one where documents do not end with their sequence.
  [[nodiscard]] std::int64_t rows() const { return document_end ? 1 : microbatch_size; }
  [[nodiscard]] std::int64_t row_tokens() const { return microbatch_size * sequence_length / rows(); }
  [[nodiscard]] std::int64_t tokens_per_step() const {
    return microbatches * microbatch_size * sequence_length * parallel.dp;
  }
};

/// Reads the YAML text. Paths in it are relative to `folder`. Throws InputError with file, line and column on unknown,
/// missing, contradictory or out of range settings, and as the reader of the model's own file.
[[nodiscard]] TrainConfig parse_train_config(std::string_view text, const std::string& source,
                                             const std::filesystem::path& folder,
                                             std::span<const std::string> settings = {});
/// The same from a file. `settings` (`steps=10`) override those in it.
[[nodiscard]] TrainConfig read_train_config(const std::filesystem::path& path,
                                            std::span<const std::string> settings = {});

}  // namespace lowgear::launcher
