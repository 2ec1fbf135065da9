#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/experiment/arm_comparison.h"

namespace lowgear::experiment {

/// Bounds of an experiment.
inline constexpr std::size_t kMaxArms = 32;
inline constexpr std::size_t kMaxSeeds = 1000;
inline constexpr int kMaxBlocks = 1000;
inline constexpr std::size_t kLongestArmName = 60;

/// Settings of `lowgear train` (`PATH=VALUE`) in addition to those of the configuration.
struct ExperimentArm {
  std::string name;
  std::vector<std::string> settings;
};

/// Everything that the YAML file of `lowgear runs experiment` states (docs/experiments.md).
struct ExperimentFile {
  std::string train;  ///< path of a configuration of `lowgear train`, from the folder of this file
  std::vector<ExperimentArm> arms;
  std::vector<long long> seeds;
  int blocks_per_seed = 1;
  int dropped_blocks = 1;                     ///< before the others
  std::optional<std::string> simulated_gpus;  ///< `4xA100`: the runs use a machine of their own with these
  bool recording = false;                     ///< whether runs record the clocks and temperatures of their GPUs
  ComparisonOptions report;
};

/// Reads the YAML text. `check_arm` checks an arm of the file, whose other
/// members are known; its InputError is reported at the arm. Throws InputError with file, line and column on unknown,
/// missing, contradictory or out of range settings.
[[nodiscard]] ExperimentFile parse_experiment(
    std::string_view text, const std::string& source,
    const std::function<void(const ExperimentFile&, const ExperimentArm&)>& check_arm = {});

/// One run of an experiment.
struct Turn {
  int number = 0;       ///< from 0
  std::size_t arm = 0;  ///< its place in the file
  long long seed = 0;
  int block = 0;         ///< from 0, dropped ones included
  bool dropped = false;  ///< of a block that does not count
};

/// The turns of an experiment in their order. A block has one seed and runs all arms twice, the second time in reverse:
/// A B B A. So a steady drift during a block affects all arms alike. Every second block begins with the last
/// arm. Dropped blocks have the first seed.
[[nodiscard]] std::vector<Turn> turns_of(const ExperimentFile& file);

/// `experiment.json` of an experiment's folder (`lowgear.experiment/1`, docs/formats.md).
struct ExperimentRecord {
  std::string inputs;             ///< fingerprint of the files that define the runs
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
/// Throws InputError with file and member on another format and on contradictions.
[[nodiscard]] ExperimentRecord read_experiment_record(std::string_view text, const std::string& source);

/// 64-bit FNV-1a of texts, each with its length, in hexadecimal.
[[nodiscard]] std::string fingerprint_of(const std::vector<std::string>& texts);

}  // namespace lowgear::experiment
