#include "app/cli/arguments/job_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "app/cli/arguments/command_line.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "estimating/estimator/peer/sampled_training_job.h"

namespace lowgear::cli {
namespace {

namespace fs = std::filesystem;

struct JobOption {
  const char* option;
  const char* path;  ///< in a job file
  const char* type;
  const char* help;
};

constexpr auto kOptions = std::to_array<JobOption>({
    {"--model", "model", "NAME|FILE",
     "A model's name, such as llama-3-70b, or a config.json of Hugging Face or its folder"},
    {"--gpu", "gpu", "NAME", "A GPU's name, such as h100-sxm, a100-80gb-sxm, gh200"},
    {"--power-limit-w", "gpu.power_limit_w", "X", "Power limit of the GPU in W (default: its data sheet's)"},
    {"--memory-gb", "gpu.memory_gb", "X", "Memory of the GPU in GB (default: its data sheet's)"},
    {"--memory-gb-per-s", "gpu.memory_gb_per_s", "X",
     "Memory bandwidth of the GPU in GB/s (default: its data sheet's)"},
    {"--gpus", "cluster.gpus", "N", "GPUs of the whole job; dp is this number divided by tp x pp x cp"},
    {"--nodes", "cluster.nodes", "N", "Nodes of the whole job, instead of --gpus"},
    {"--gpus-per-node", "cluster.gpus_per_node", "N", "GPUs per node (default: as in the GPU's usual system)"},
    {"--intra-node-gb-per-s", "cluster.intra_node_gb_per_s", "X",
     "Bandwidth at which a GPU sends within its node, in GB/s"},
    {"--intra-node-latency-us", "cluster.intra_node_latency_us", "X", "Time of an empty message within a node, in us"},
    {"--inter-node-gb-per-s", "cluster.inter_node_gb_per_s", "X",
     "Network bandwidth of a node divided by its GPUs, in GB/s"},
    {"--inter-node-latency-us", "cluster.inter_node_latency_us", "X", "Time of an empty message between nodes, in us"},
    {"--tp", "parallel.tp", "N", "Tensor parallel ranks (default 1)"},
    {"--pp", "parallel.pp", "N", "Pipeline ranks (default 1)"},
    {"--dp", "parallel.dp", "N", "Data parallel replicas (default: from --gpus, or 1)"},
    {"--virtual-stages", "parallel.virtual_stages", "N", "Virtual stages per pipeline rank (default 1)"},
    {"--ep", "parallel.ep", "N", "Expert parallel ranks: those that divide the experts of a layer (default 1)"},
    {"--cp", "parallel.cp", "N", "Context parallel ranks (default 1)"},
    {"--global-batch", "batch.global", "N", "Sequences per iteration, of all replicas together"},
    {"--micro-batch", "batch.micro", "N", "Sequences per microbatch (default 1)"},
    {"--seq", "batch.sequence", "N", "Tokens per sequence"},
    {"--recompute", "recompute", "none|selective|full", "Activations that the backward pass recomputes (default none)"},
    {"--zero", "zero", "0|1|2|3", "ZeRO stage: what the replicas divide among themselves (default 1)"},
    {"--dtype", "dtype", "fp32|tf32|fp16|bf16|fp8", "Data type of the inputs of matrix products (default bf16)"},
    {"--overlap-gradients", "overlap.gradients", "true|false",
     "Gradient sums of dp run concurrently with the last backward pass (default true)"},
    {"--overlap-tensor", "overlap.tensor", "true|false",
     "Collectives of tp run concurrently with matrix products (default false)"},
    {"--overlap-pipeline", "overlap.pipeline", "true|false",
     "Messages between stages run concurrently with computation (default false)"},
    {"--schedule", "schedule", "NAME",
     "Pipeline schedule: 1f1b, gpipe, zb-h1 or interleaved (default 1f1b; with virtual stages interleaved)"},
    {"--attention", "attention", "fused|unfused",
     "Attention kernel: fused (FlashAttention, the default), or one that writes its scores to memory"},
    {"--dropout", "dropout", "X", "Dropout probability, 0 to 1 (default 0)"},
});

constexpr auto kLayoutOptions = std::to_array<const char*>(
    {"--gpus", "--nodes", "--tp", "--pp", "--dp", "--virtual-stages", "--ep", "--cp", "--micro-batch", "--recompute",
     "--zero", "--schedule", "--sequence-parallel", "--no-sequence-parallel"});

/// What a job without a file cannot do without.
constexpr auto kRequired = std::to_array<std::string_view>({"model", "gpu", "batch.global", "batch.sequence"});

bool given(const JobArguments& arguments, std::string_view path) {
  return std::ranges::find(arguments.settings, path, &YamlSetting::path) != arguments.settings.end();
}

std::optional<estimator::ConfigFile> read_config_at(const fs::path& folder, const std::string& path) {
  constexpr const char* kName = "config.json";
  const fs::path file = folder / path;
  std::error_code failure;
  if (fs::is_directory(file, failure)) {
    if (!fs::exists(file / kName, failure) && !failure) {
      throw_input_error({path, 0, 0}, fmt::format("a folder without {}", kName),
                        "name the folder of a model, as transformers saves it");
    }
    return estimator::ConfigFile{(fs::path(path) / kName).string(), read_file(file / kName)};
  }
  if (!fs::exists(file, failure) && !failure) return std::nullopt;
  return estimator::ConfigFile{path, read_file(file)};
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
  app.add_option("--job", arguments.file,
                 "Job as a YAML file, also one of estimate-train-time; options override what it says")
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
  CLI::Option* const divided = app.add_flag_callback(
      "--sequence-parallel", [set] { set("--sequence-parallel", kPath, "true"); },
      "Divide norms and residuals among the tp ranks (the default with tp)");
  app.add_flag_callback(
         "--no-sequence-parallel", [set] { set("--no-sequence-parallel", kPath, "false"); },
         "Keep norms and residuals whole on every tp rank")
      ->excludes(divided);
}

estimator::TrainingJob load_job(const JobArguments& arguments) {
  if (arguments.file.empty()) require_whole(arguments);
  // Options name files from where the user stands.
  const fs::path folder = given(arguments, "model") ? fs::path() : fs::path(arguments.file).parent_path();
  const auto read_config = [&folder](const std::string& path) { return read_config_at(folder, path); };
  const std::string text = arguments.file.empty() ? "{}" : read_file(arguments.file, kMaxYamlBytes);
  return estimator::parse_job_file(text, arguments.file, arguments.settings, read_config);
}

std::span<const char* const> layout_options() { return kLayoutOptions; }

std::string words_without_layout(const JobArguments& arguments) {
  std::string words = arguments.file.empty() ? "" : " --job " + shell_word(arguments.file);
  for (const YamlSetting& setting : arguments.settings) {
    const std::string option = setting.origin.substr(0, setting.origin.find(' '));
    if (std::ranges::find(kLayoutOptions, option) != kLayoutOptions.end()) continue;
    words += fmt::format(" {} {}", option, shell_word(setting.value));
  }
  return words;
}

}  // namespace lowgear::cli
