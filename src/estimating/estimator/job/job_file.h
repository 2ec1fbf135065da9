#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/core/formats/yaml.h"
#include "estimating/estimator/job/training_job.h"

namespace lowgear::estimator {

/// A config.json, and what messages call it.
struct ConfigFile {
  std::string source;
  std::string text;
};

/// The config.json that a job names by its path or that of its folder; nothing where there is no such file or folder.
/// Throws InputError where there is one that cannot be read.
using ConfigReader = std::function<std::optional<ConfigFile>(const std::string& path)>;

/// Reads a description of a job (docs/estimating.md lists its keys). `settings` override the text; their paths are
/// those of the keys, `parallel.tp`; those within `gpu` also change a GPU that is a plain name. Settings alone make a
/// job, too: the text is then `{}`, and `source` is empty.
///
/// What is not said: the cluster is default_cluster; dp is what GPUs remain for it where their number is given, else 1;
/// sequence parallelism is used with tensor parallelism where it divides the sequence; the schedule is 1f1b, or
/// interleaved with virtual stages; bf16, or fp16 on GPUs without it; the rest as TrainingJob has it.
///
/// Throws InputError with file, line and column (or the setting) on text that is no YAML, on a key that is unknown (the
/// nearest is named), missing, of the wrong type or out of bounds, on models, GPUs and config.json files that are
/// refused, and on a job that require_valid refuses.
[[nodiscard]] TrainingJob parse_training_job(std::string_view yaml, const std::string& source,
                                             std::span<const YamlSetting> settings, const ConfigReader& read_config);

/// `job`, described by the file `source` in another format, with the settings on top. Throws InputError as
/// parse_training_job does.
[[nodiscard]] TrainingJob with_settings(TrainingJob job, const std::string& source,
                                        std::span<const YamlSetting> settings, const ConfigReader& read_config);

/// Throws InputError where a job file is a configuration of EADT (model/config_members.h): with the command that
/// estimates what it says, of which the GPUs are to be added.
void refuse_eadt_config(std::string_view yaml, const std::string& source);

}  // namespace lowgear::estimator
