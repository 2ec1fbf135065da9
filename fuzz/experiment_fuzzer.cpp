#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/core/error.h"
#include "report/experiment/experiment_file.h"
#include "rivals/evaluation/policy_experiment.h"

namespace {

namespace experiment = lowgear::experiment;

/// What is read of a record is what is written again.
void check_record(std::string_view text) {
  const std::string written = write_experiment_record(experiment::read_experiment_record(text, "experiment.json"));
  if (write_experiment_record(experiment::read_experiment_record(written, "again")) != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    if (text.starts_with('{')) {
      check_record(text);
    } else if (text.find("policy:") != std::string_view::npos) {
      (void)lowgear::evaluation::parse_policy_experiment(text, "experiment.yaml");
    } else {
      const experiment::ExperimentFile file = experiment::parse_experiment(text, "experiment.yaml");
      if (file.arms.size() * file.seeds.size() < 100 && file.blocks_per_seed + file.dropped_blocks < 20) {
        (void)turns_of(file);
      }
    }
  } catch (const lowgear::InputError&) {
  }
  return 0;
}
