#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/experiment/experiment_file.h"

namespace lowgear::experiment {

/// What the folder of an experiment states about itself (`lowgear.experiment/1`, docs/formats.md): `experiment.json`.
struct ExperimentRecord {
  std::string inputs;             ///< fingerprint of the files that decide what is run
  std::vector<std::string> arms;  ///< names
  std::vector<Turn> turns;
  ComparisonOptions report;
};

/// Names within the folder of an experiment.
namespace experiment_file_name {
inline constexpr std::string_view kRecord = "experiment.json";
inline constexpr std::string_view kMetrics = "metrics.jsonl";   ///< of a run
inline constexpr std::string_view kRecording = "recording";     ///< of a run, a folder
inline constexpr std::string_view kFinished = "finished.json";  ///< of a run that was finished
[[nodiscard]] std::string turn(int number);                     ///< folder of a run: `turn-0007`
}  // namespace experiment_file_name

[[nodiscard]] std::string write_experiment_record(const ExperimentRecord& record);
/// Throws InputError with file and member on another format and what contradicts itself.
[[nodiscard]] ExperimentRecord read_experiment_record(std::string_view text, const std::string& source);

/// 64-bit FNV-1a of texts, each with its length, in hexadecimal.
[[nodiscard]] std::string fingerprint_of(const std::vector<std::string>& texts);

}  // namespace lowgear::experiment
