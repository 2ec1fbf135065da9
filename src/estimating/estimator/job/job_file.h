#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/core/formats/yaml.h"
#include "estimating/estimator/job/training_job.h"

namespace lowgear::estimator {

/// The text of a file that a job names, and its name in messages.
struct ConfigFile {
  std::string source;
  std::string text;
  bool of_folder = false;   ///< the job names a folder: the file is its config.json, or the folder has none
  bool is_missing = false;  ///< that folder has none
};

/// Reads the file at a path (a config.json or a GPU file), or the config.json in the folder at the path. Empty if there
/// is no such file or folder. Throws InputError if it cannot be read.
using ConfigReader = std::function<std::optional<ConfigFile>(const std::string& path)>;

/// Reads a description of a job (docs/estimating.md lists its keys). `settings` override the text by the path of a key,
/// `parallel.tp`; settings within `gpu` also change a GPU that is a plain name. A job may consist of settings alone:
/// the text is then `{}`, and `source` is empty.
///
/// Defaults: default_cluster; dp from the number of GPUs if given, else 1; sequence parallelism with tensor parallelism
/// if it divides the sequence; 1f1b, or interleaved with virtual stages; bf16, or fp16 on GPUs without it; the rest
/// from TrainingJob.
///
/// Throws InputError with file, line and column (or the setting) on text that is no YAML, on a key that is unknown (the
/// nearest is named), missing, of the wrong type or out of bounds, on invalid models, GPUs and config.json files, and
/// on a job that require_valid refuses.
[[nodiscard]] TrainingJob parse_training_job(std::string_view yaml, const std::string& source,
                                             std::span<const YamlSetting> settings, const ConfigReader& read_config);

/// Applies settings to a `job` that was read from the file `source` in another format. Throws InputError as
/// parse_training_job does.
[[nodiscard]] TrainingJob with_settings(TrainingJob job, const std::string& source,
                                        std::span<const YamlSetting> settings, const ConfigReader& read_config);

/// Throws InputError if a job file is a configuration of EADT (model/config_members.h), with the command that estimates
/// the same job once the GPUs are added.
void refuse_eadt_config(std::string_view yaml, const std::string& source);

}  // namespace lowgear::estimator
