#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/yaml.h"
#include "estimating/estimator/costs/sample_files.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/search/search.h"
#include "rivals/published_estimator/published_formula.h"
#include "rivals/published_estimator/sampled_job.h"

namespace lowgear::cli {

/// Describes a training job on the command line: a file, options that override it, or both.
struct JobArguments {
  std::string file;
  std::vector<YamlSetting> settings;  ///< options as keys of a job file, as given
};

/// `--job`, `--model`, `--gpu`, `--gpus`, `--nodes` and one option for every other key of a job file but overlap.
void add_job_options(CLI::App& app, JobArguments& arguments);
/// Moves those that describe the machine and the kernels to groups of their own in the help.
void group_job_options(CLI::App& app);

/// Reads the job file, and config.json where the file names one as its model. Paths in the file are relative to its
/// folder.
/// Throws InputError; where a file that the job names is one of `outputs`, as `refuse_to_overwrite` does; without a job
/// file with the names of all missing options, `also_missing` among them unless it is empty.
[[nodiscard]] estimator::TrainingJob load_job(const JobArguments& arguments, const std::vector<std::string>& outputs,
                                              std::string_view also_missing = {});

/// Options for the layout of a job on its GPUs, which a search chooses.
[[nodiscard]] std::span<const char* const> layout_options();

/// The given options without those of the layout, quoted for a shell, each after a space: ` --job job.yaml`.
[[nodiscard]] std::string words_without_layout(const JobArguments& arguments);

/// Prices that the user stated.
struct PriceArguments {
  std::optional<double> usd_per_gpu_hour;
  std::optional<double> usd_per_kwh;
  std::optional<double> co2_g_per_kwh;

  [[nodiscard]] bool any_cost() const { return usd_per_gpu_hour || usd_per_kwh; }
  /// Zero for prices that the user did not state.
  [[nodiscard]] estimator::Prices prices() const;
};

/// `--kwh`, `--co2`.
void add_energy_price_options(CLI::App& app, PriceArguments& arguments);
/// `--gpu-hour`, `--kwh`, `--co2`.
void add_price_options(CLI::App& app, PriceArguments& arguments);

/// The sampling files of a folder and of its folders `operator` and `nccl` (and `gloo`), by name. Other files
/// are ignored. Throws InputError for anything but a folder with sampling files.
[[nodiscard]] std::vector<estimator::SampleFile> read_sample_folder(const std::filesystem::path& folder);

/// The samples with the folder's name. An empty `folder` has none.
[[nodiscard]] estimator::SampleSet load_samples(const std::string& folder);

/// The published estimator's estimate of the job in `job_file`, which is one of its own files. Its samples come from
/// the folders `operator` and `nccl` in `folder`. Where `folder` is empty, they come from the folders that the file
/// names; a relative path is tried in the file's folder first and then in the current one. Throws InputError.
[[nodiscard]] published_estimator::PublishedEstimate estimate_as_published(const std::string& job_file,
                                                                           const std::string& folder);

/// The same estimate of a job that was read before. Folders that the job names are looked for in `from` and then in the
/// current folder; those that begin with `packaged:` are tables of Lowgear (published_examples.h). Throws InputError.
[[nodiscard]] published_estimator::PublishedEstimate estimate_as_published(const published_estimator::SampledJob& job,
                                                                           const std::filesystem::path& from,
                                                                           const std::string& folder);

}  // namespace lowgear::cli
