#include "app/cli/arguments/estimate_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/arguments/profile_input.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/numbers/quantity.h"
#include "rivals/published_estimator/published_examples.h"
#include "rivals/published_estimator/sampled_job.h"

namespace lowgear::cli {
namespace {

namespace fs = std::filesystem;

struct JobOption {
  const char* option;
  const char* path;  ///< in a job file
  const char* type;
  const char* help;
  const char* earlier = "";  ///< names that are still accepted
  std::optional<Unit> unit = std::nullopt;
};

constexpr auto kOptions = std::to_array<JobOption>({
    {"--model", "model", "NAME|FILE",
     "A model's name, such as llama-3-70b, or a config.json of Hugging Face or its folder"},
    {"--gpu", "gpu", "NAME", "A GPU's name, such as h100-sxm, a100-80gb-sxm, gh200"},
    {"--gpu-file", "gpu.file", "FILE", "Power of a measured GPU of this model, as lowgear sample curve writes it"},
    {"--power-limit-w", "gpu.power_limit_w", "X", "Power limit of the GPU in W (default: its data sheet's)", "",
     Unit::watt},
    {"--memory-gb", "gpu.memory_gb", "X", "Memory of the GPU in GB (default: its data sheet's)", "",
     Unit::gpu_gigabyte},
    {"--memory-gb-per-s", "gpu.memory_gb_per_s", "X", "Memory bandwidth of the GPU in GB/s (default: its data sheet's)",
     "", Unit::gigabyte_per_second},
    {"--gpus", "cluster.gpus", "N", "GPUs of the whole job; dp is this number divided by tp x pp x cp"},
    {"--nodes", "cluster.nodes", "N", "Nodes of the whole job, instead of --gpus"},
    {"--gpus-per-node", "cluster.gpus_per_node", "N", "GPUs per node (default: as in the GPU's usual system)"},
    {"--intra-node-gb-per-s", "cluster.intra_node_gb_per_s", "X",
     "Bandwidth at which a GPU sends within its node, in GB/s", "", Unit::gigabyte_per_second},
    {"--intra-node-latency-us", "cluster.intra_node_latency_us", "X", "Time of an empty message within a node, in us",
     "", Unit::microsecond},
    {"--inter-node-gb-per-s", "cluster.inter_node_gb_per_s", "X",
     "Network bandwidth of a node divided by its GPUs, in GB/s", "", Unit::gigabyte_per_second},
    {"--inter-node-latency-us", "cluster.inter_node_latency_us", "X", "Time of an empty message between nodes, in us",
     "", Unit::microsecond},
    {"--tp", "parallel.tp", "N", "Tensor parallel ranks (default 1)"},
    {"--pp", "parallel.pp", "N", "Pipeline ranks (default 1)"},
    {"--dp", "parallel.dp", "N", "Data parallel replicas (default: from --gpus, or 1)"},
    {"--virtual-stages", "parallel.virtual_stages", "N", "Virtual stages per pipeline rank (default 1)"},
    {"--ep", "parallel.ep", "N", "Expert parallel ranks, which divide the experts of a layer (default 1)"},
    {"--cp", "parallel.cp", "N", "Context parallel ranks (default 1)"},
    {"--global-batch", "batch.global", "N", "Sequences per iteration, of all replicas together"},
    {"--microbatch", "batch.micro", "N", "Sequences per microbatch (default 1)", ",--micro-batch"},
    {"--seq", "batch.sequence", "N", "Tokens per sequence"},
    {"--recompute", "recompute", "none|selective|operators|full",
     "Activations that the backward pass recomputes (default none)"},
    {"--zero", "zero", "0|1|2|3", "ZeRO stage: states that the replicas divide among themselves (default 1)"},
    {"--shard-size", "shard_size", "N",
     "Ranks of dp x cp that ZeRO divides states among; other groups have copies (hybrid sharding; default: all)"},
    {"--offload", "offload", "none|activations|optimizer|states",
     "Kept in the CPUs' memory: activations of layers; optimizer states, updated there; these and weights (default "
     "none)"},
    {"--dtype", "dtype", "fp32|tf32|fp16|bf16|fp8|fp4",
     "Data type of the inputs of matrix products; fp4 is NVFP4 (default bf16)"},
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
    {"--stack", "stack", "NAME", "Software that runs the job"},
});

constexpr auto kLayoutOptions = std::to_array<const char*>(
    {"--gpus", "--nodes", "--tp", "--pp", "--dp", "--virtual-stages", "--ep", "--cp", "--microbatch", "--recompute",
     "--zero", "--shard-size", "--schedule", "--sequence-parallel", "--no-sequence-parallel"});

/// The number of `text` in the option's unit, as a job file has it.
std::string number_in_unit(const JobOption& option, const std::string& text) {
  if (!option.unit) return text;
  const std::optional<double> number = parse_quantity(text, *option.unit);
  if (!number) {
    throw CLI::ValidationError(option.option, fmt::format("expected a number, alone or with its unit {}, not {}{}",
                                                          symbol(*option.unit), quote(text), comma_hint(text)));
  }
  return fmt::format("{}", *number);
}

/// Keys that a job without a file requires.
constexpr auto kRequired = std::to_array<std::string_view>({"model", "gpu", "batch.global", "batch.sequence"});

bool given(const JobArguments& arguments, std::string_view path) {
  return std::ranges::find(arguments.settings, path, &YamlSetting::path) != arguments.settings.end();
}

std::optional<estimator::ConfigFile> read_config_at(const fs::path& folder, const std::string& path) {
  constexpr const char* kName = "config.json";
  const fs::path file = folder / path;
  std::error_code failure;
  if (fs::is_directory(file, failure)) {
    const bool is_missing = !fs::exists(file / kName, failure) && !failure;
    return estimator::ConfigFile{.source = (fs::path(path) / kName).string(),
                                 .text = is_missing ? "" : read_file(file / kName),
                                 .of_folder = true,
                                 .is_missing = is_missing};
  }
  if (!fs::exists(file, failure) && !failure) return std::nullopt;
  return estimator::ConfigFile{path, read_file(file)};
}

void require_whole(const JobArguments& arguments, std::string_view also_missing) {
  std::vector<std::string_view> missing;
  for (const JobOption& option : kOptions) {
    const bool required = std::ranges::find(kRequired, option.path) != kRequired.end();
    if (required && !given(arguments, option.path)) missing.emplace_back(option.option);
  }
  if (!also_missing.empty()) missing.push_back(also_missing);
  if (missing.empty()) return;
  throw InputError(fmt::format("{} {} missing; give {}, or a whole job as --job FILE.yaml", fmt::join(missing, ", "),
                               missing.size() == 1 ? "is" : "are", missing.size() == 1 ? "it" : "them"));
}

std::string stack_help() {
  std::vector<std::string> names;
  for (const estimator::SoftwareStack& stack : estimator::software_stacks()) names.emplace_back(stack.name);
  names.front() += " (default)";
  return fmt::format("Software that runs the job: {}", fmt::join(names, ", "));
}

}  // namespace

void add_job_options(CLI::App& app, JobArguments& arguments) {
  app.add_option("--job", arguments.file,
                 "Job as a YAML file, also one of estimate-train-time; options override the file")
      ->type_name("FILE");
  const auto set = [&arguments](const char* option, const char* path, const std::string& value) {
    arguments.settings.push_back({fmt::format("{} {}", option, printable(value)), path, value});
  };
  for (const JobOption& option : kOptions) {
    app.add_option_function<std::string>(
           fmt::format("{}{}", option.option, option.earlier),
           [set, option](const std::string& value) { set(option.option, option.path, number_in_unit(option, value)); },
           option.help)
        ->type_name(option.type);
  }
  app.get_option("--stack")->description(stack_help());
  constexpr const char* kPath = "parallel.sequence_parallel";
  CLI::Option* const divided = app.add_flag_callback(
      "--sequence-parallel", [set] { set("--sequence-parallel", kPath, "true"); },
      "Divide norms and residuals among the tp ranks (the default with tp)");
  app.add_flag_callback(
         "--no-sequence-parallel", [set] { set("--no-sequence-parallel", kPath, "false"); },
         "Keep norms and residuals whole on every tp rank")
      ->excludes(divided);
}

void group_job_options(CLI::App& app) {
  group_options(
      app, "GPU and network",
      {"--gpu-file", "--power-limit-w", "--memory-gb", "--memory-gb-per-s", "--gpus-per-node", "--intra-node-gb-per-s",
       "--intra-node-latency-us", "--inter-node-gb-per-s", "--inter-node-latency-us"});
  group_options(
      app, "Kernels",
      {"--dtype", "--overlap-gradients", "--overlap-tensor", "--overlap-pipeline", "--attention", "--dropout"});
}

estimator::TrainingJob load_job(const JobArguments& arguments, const std::vector<std::string>& outputs,
                                std::string_view also_missing) {
  if (arguments.file.empty()) require_whole(arguments, also_missing);
  // Options name files from where the user stands.
  const fs::path folder = given(arguments, "model") ? fs::path() : fs::path(arguments.file).parent_path();
  std::vector<YamlSetting> settings = arguments.settings;
  for (YamlSetting& setting : settings) {
    if (setting.path == "gpu.file" && !folder.empty()) setting.value = fs::absolute(setting.value).string();
  }
  const auto read_config = [&](const std::string& path) {
    std::optional<estimator::ConfigFile> file = read_config_at(folder, path);
    if (!file) return file;
    for (const std::string& output : outputs) refuse_to_overwrite(output, {(folder / file->source).string()});
    return file;
  };
  const std::string text = arguments.file.empty() ? "{}" : read_file(arguments.file, kMaxYamlBytes);
  return published_estimator::parse_job_file(text, arguments.file, settings, read_config);
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

namespace {

constexpr NumberRange<double> kPriceRange{0, 1e6};

}  // namespace

estimator::Prices PriceArguments::prices() const {
  return {.usd_per_gpu_hour = usd_per_gpu_hour.value_or(0),
          .usd_per_kwh = usd_per_kwh.value_or(0),
          .co2_g_per_kwh = co2_g_per_kwh.value_or(0)};
}

void add_energy_price_options(CLI::App& app, PriceArguments& arguments) {
  add_number(app, "--kwh", kPriceRange, into(arguments.usd_per_kwh), "Cost of one kWh, in US dollars")
      ->type_name("USD");
  add_number(app, "--co2", kPriceRange, into(arguments.co2_g_per_kwh), "Emissions of one kWh, in grams of CO2")
      ->type_name("G");
}

void add_price_options(CLI::App& app, PriceArguments& arguments) {
  add_number(app, "--gpu-hour", kPriceRange, into(arguments.usd_per_gpu_hour),
             "Cost of one GPU per hour, in US dollars")
      ->type_name("USD");
  add_energy_price_options(app, arguments);
}

namespace {

/// Appends the sampling files that lie in the folder itself.
void append_files(const std::filesystem::path& folder, std::vector<estimator::SampleFile>& files) {
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    std::optional<estimator::SampleFileName> name = estimator::parse_sample_file_name(entry.path().filename().string());
    if (!name || !entry.is_regular_file(failure)) continue;
    files.push_back({entry.path().string(), std::move(*name), read_file(entry.path(), kMaxFileBytes)});
  }
  if (failure) {
    throw_input_error({folder.string(), 0, 0}, "cannot be read: " + failure.message(),
                      "give a folder of sampling files");
  }
}

void sort(std::vector<estimator::SampleFile>& files) { std::ranges::sort(files, {}, &estimator::SampleFile::source); }

}  // namespace

std::vector<estimator::SampleFile> read_sample_folder(const std::filesystem::path& folder) {
  std::vector<estimator::SampleFile> files;
  append_files(folder, files);
  for (const char* const below : {"operator", "nccl", "gloo"}) {
    const std::filesystem::path inner = folder / below;
    if (std::filesystem::is_directory(inner)) append_files(inner, files);
  }
  if (files.empty()) {
    throw_input_error({folder.string(), 0, 0}, "has no sampling files",
                      "they are named like NVIDIAA100-SXM4-80GB_linear1_fp16.csv; `lowgear sample` writes them");
  }
  sort(files);
  return files;
}

estimator::SampleSet load_samples(const std::string& folder) {
  if (folder.empty()) return {};
  return {folder, read_sample_folder(folder)};
}

namespace {

/// The files that the published estimator reads for the job: from `operators` and `collectives`, the folders of
/// sampling files of its GPU. Throws InputError where one of them or its `{GPU}.csv` is missing.
published_estimator::PublishedSamples read_published_samples(const published_estimator::SampledJob& job,
                                                             const std::filesystem::path& operators,
                                                             const std::filesystem::path& collectives) {
  published_estimator::PublishedSamples samples;
  append_files(operators, samples.files);
  append_files(collectives, samples.files);
  sort(samples.files);
  const std::string settings = job.gpu_name + ".csv";
  samples.operator_settings_source = (operators / settings).string();
  samples.operator_settings = read_file(samples.operator_settings_source);
  samples.collective_settings_source = (collectives / settings).string();
  samples.collective_settings = read_file(samples.collective_settings_source);
  return samples;
}

/// A folder that the job names: seen from the job's own folder or, as that tool does, from the current one.
std::filesystem::path named_folder(const std::filesystem::path& from, const std::string& name, const char* key) {
  std::error_code failure;
  for (const std::filesystem::path& folder : {from / name, std::filesystem::path(name)}) {
    if (std::filesystem::is_directory(folder, failure)) return folder;
  }
  throw InputError(fmt::format(
      "{}: there is no folder {}, neither next to the job nor in the current folder; give the folder that has the "
      "folders operator and nccl with --operators",
      key, quote(name)));
}

}  // namespace

published_estimator::PublishedEstimate estimate_as_published(const std::string& job_file, const std::string& folder) {
  if (job_file.empty()) {
    throw InputError("--peer-formula: there is no job; give a file of the published estimator with --job");
  }
  const std::string text = read_file(job_file);
  if (!published_estimator::is_sampled_job(text, job_file)) {
    throw_input_error({job_file, 0, 0}, "is not a job of the published estimator: it has no training_config",
                      "leave --peer-formula out");
  }
  return estimate_as_published(published_estimator::parse_sampled_job(text, job_file),
                               std::filesystem::path(job_file).parent_path(), folder);
}

published_estimator::PublishedEstimate estimate_as_published(const published_estimator::SampledJob& job,
                                                             const std::filesystem::path& from,
                                                             const std::string& folder) {
  const std::filesystem::path given(folder);
  if (!folder.empty()) return published_estimate(job, read_published_samples(job, given / "operator", given / "nccl"));
  if (const auto packaged = published_estimator::packaged_times(job.operator_data_folder))
    return published_estimate(job, *packaged);
  const std::filesystem::path operators = named_folder(from, job.operator_data_folder, "operator_data_folder");
  return published_estimate(
      job, read_published_samples(job, operators, named_folder(from, job.nccl_data_folder, "nccl_data_folder")));
}

}  // namespace lowgear::cli
