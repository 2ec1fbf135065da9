#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/core/formats/yaml.h"
#include "estimating/estimator/job/training_job.h"

namespace lowgear::cli {

/// Describes a training job on the command line: a file, options that override it, or both.
struct JobArguments {
  std::string file;
  std::vector<YamlSetting> settings;  ///< options as keys of a job file, as given
};

/// `--job`, `--model`, `--gpu`, `--gpus`, `--nodes` and one option for every other key of a job file but overlap.
void add_job_options(CLI::App& app, JobArguments& arguments);

/// Reads the file, and the config.json where the model is one: a path in the file is seen from the file's folder.
/// Throws InputError.
[[nodiscard]] estimator::TrainingJob load_job(const JobArguments& arguments);

/// Options for the layout of a job on its GPUs, which a search chooses.
[[nodiscard]] std::span<const char* const> layout_options();

/// The options that were given but those of the layout, as a shell takes them, each after a space: ` --job job.yaml`.
[[nodiscard]] std::string words_without_layout(const JobArguments& arguments);

}  // namespace lowgear::cli
