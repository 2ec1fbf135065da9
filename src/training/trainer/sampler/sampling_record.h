#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "training/trainer/sampler/sampling_run.h"

namespace lowgear::trainer {

/// Where samples come from: what a reader of them has to know.
struct SamplingRecord {
  std::string device;
  std::string driver;  ///< empty where there is none
  std::string torch;   ///< release of libtorch
  std::string type;
  bool simulated = false;  ///< the GPU's counters are Lowgear's simulation

  [[nodiscard]] Json to_json() const;
};

/// Writes `sampling.json` next to the files, with the day. Where there is one already, rows are added only to those of
/// the same device, driver and libtorch: throws InputError when it says something else, or cannot be read or written.
void write_record(const std::filesystem::path& folder, const SamplingRecord& record);

/// What a run has done, for people and as JSON.
[[nodiscard]] std::string summary_text(const std::vector<SampledFile>& files);
[[nodiscard]] Json summary_json(const SamplingRecord& record, const std::vector<SampledFile>& files);

}  // namespace lowgear::trainer
