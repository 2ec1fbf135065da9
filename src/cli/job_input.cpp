#include "cli/job_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "core/error.h"
#include "core/file.h"
#include "estimator/job_file.h"

namespace lowgear {
namespace {

namespace fs = std::filesystem;

struct JobOption {
  const char* option;
  const char* path;  ///< in a job file
  const char* type;
  const char* help;
};

constexpr auto kOptions = std::to_array<JobOption>({
    {"--model", "model", "NAME|FILE", "A model's name, such as llama-3-70b, or a config.json of Hugging Face"},
    {"--gpu", "gpu", "NAME", "A GPU's name, such as h100-sxm, a100-80gb-sxm, gh200"},
    {"--power-limit-w", "gpu.power_limit_w", "X", "The GPU's power limit in W (default as its data sheet)"},
    {"--memory-gb", "gpu.memory_gb", "X", "Its memory in GB (default as its data sheet)"},
    {"--memory-gb-per-s", "gpu.memory_gb_per_s", "X", "Its memory's bandwidth in GB/s (default as its data sheet)"},
    {"--gpus", "cluster.gpus", "N", "GPUs in all: what tp, pp and cp leave of them is dp"},
    {"--nodes", "cluster.nodes", "N", "Nodes, in place of --gpus"},
    {"--gpus-per-node", "cluster.gpus_per_node", "N", "GPUs of a node (default as the GPU's usual system)"},
    {"--intra-node-gb-per-s", "cluster.intra_node_gb_per_s", "X", "What a GPU sends within its node, in GB/s"},
    {"--intra-node-latency-us", "cluster.intra_node_latency_us", "X", "How long a message of no bytes takes there"},
    {"--inter-node-gb-per-s", "cluster.inter_node_gb_per_s", "X", "A GPU's share of its node's network, in GB/s"},
    {"--inter-node-latency-us", "cluster.inter_node_latency_us", "X", "How long a message of no bytes takes there"},
    {"--tp", "parallel.tp", "N", "Tensor parallel ranks (default 1)"},
    {"--pp", "parallel.pp", "N", "Pipeline ranks (default 1)"},
    {"--dp", "parallel.dp", "N", "Replicas (default what --gpus leaves, else 1)"},
    {"--virtual-stages", "parallel.virtual_stages", "N", "Chunks of layers of a pipeline rank (default 1)"},
    {"--ep", "parallel.ep", "N", "Ranks that share the experts of a layer (default 1)"},
    {"--cp", "parallel.cp", "N", "Context parallel ranks (default 1)"},
    {"--global-batch", "batch.global", "N", "Sequences of an iteration, all replicas"},
    {"--micro-batch", "batch.micro", "N", "Sequences of a microbatch (default 1)"},
    {"--seq", "batch.sequence", "N", "Tokens of a sequence"},
    {"--recompute", "recompute", "none|selective|full", "Activations that the backward computes again (default none)"},
    {"--zero", "zero", "0|1|2|3", "What replicas divide among them: ZeRO's stage (default 1)"},
    {"--dtype", "dtype", "fp32|tf32|fp16|bf16|fp8", "Inputs of matrix products (default bf16)"},
    {"--overlap-gradients", "overlap.gradients", "true|false",
     "Gradient sums of dp run concurrently with the last backward (default true)"},
    {"--overlap-tensor", "overlap.tensor", "true|false",
     "Collectives of tp run concurrently with matrix products (default false)"},
    {"--overlap-pipeline", "overlap.pipeline", "true|false",
     "Messages between stages run concurrently with computation (default false)"},
    {"--schedule", "schedule", "NAME", "1f1b, gpipe, zb-h1, or interleaved, the default with virtual stages"},
    {"--attention", "attention", "fused|unfused", "Whether attention's scores stay in the kernel (default fused)"},
    {"--dropout", "dropout", "X", "Share of activations that training drops (default 0)"},
});

/// What a job without a file cannot do without.
constexpr auto kRequired = std::to_array<std::string_view>({"model", "gpu", "batch.global", "batch.sequence"});

bool given(const JobArguments& arguments, std::string_view path) {
  return std::ranges::find(arguments.settings, path, &YamlSetting::path) != arguments.settings.end();
}

void require_whole(const JobArguments& arguments) {
  for (const JobOption& option : kOptions) {
    const bool required = std::ranges::find(kRequired, option.path) != kRequired.end();
    if (!required || given(arguments, option.path)) continue;
    throw InputError(fmt::format("{} is missing; give it, or a whole job as --job FILE.yaml", option.option));
  }
}

}  // namespace

void add_job_options(CLI::App& app, JobArguments& arguments) {
  app.add_option("--job", arguments.file, "Job as YAML, also one of estimate-train-time; options stand before it")
      ->type_name("FILE");
  const auto set = [&arguments](const char* option, const char* path, const std::string& value) {
    arguments.settings.push_back({fmt::format("{} {}", option, printable(value)), path, value});
  };
  for (const JobOption& option : kOptions) {
    app.add_option_function<std::string>(
           option.option, [set, option](const std::string& value) { set(option.option, option.path, value); },
           option.help)
        ->type_name(option.type);
  }
  constexpr const char* kPath = "parallel.sequence_parallel";
  app.add_flag_callback(
      "--sequence-parallel", [set] { set("--sequence-parallel", kPath, "true"); },
      "Divide norms and residuals among tp ranks (the default with tp)");
  app.add_flag_callback(
      "--no-sequence-parallel", [set] { set("--no-sequence-parallel", kPath, "false"); }, "Keep them whole");
}

TrainingJob load_job(const JobArguments& arguments) {
  if (arguments.file.empty()) require_whole(arguments);
  // Options name files from where the user stands.
  const fs::path folder = given(arguments, "model") ? fs::path() : fs::path(arguments.file).parent_path();
  const auto read_config = [&folder](const std::string& path) { return read_file(folder / path); };
  const std::string text = arguments.file.empty() ? "{}" : read_file(arguments.file, kMaxYamlBytes);
  return parse_training_job(text, arguments.file, arguments.settings, read_config);
}

}  // namespace lowgear
