#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/sampling/sampling_plan.h"

namespace lowgear::sampling {

enum class SamplingSubject : unsigned char { operators, collectives, curve };

/// Options of sampling. Both `lowgear sample` and lowgear-sampler, the program that measures, read them from words of a
/// command line.
struct SamplingOptions {
  SamplingSubject subject = SamplingSubject::operators;
  std::string folder;                          ///< for the files
  std::vector<SampledOperator> operators;      ///< default: all
  std::vector<SampledCollective> collectives;  ///< default: all
  SampleType type = SampleType::bf16;
  bool gpu = true;
  OperatorGrid grid = default_grid();
  MessageSizes sizes;
  SamplePart part;
  int repeats = 20;         ///< most repeats of one pass
  int energy_points = 2;    ///< energy measurements of each operator or collective; 0: none
  double window_s = 1.5;    ///< length of an energy measurement
  double time_limit_s = 0;  ///< sampling ends with the first row after it; 0: no limit
  bool fit_only = false;    ///< of a curve: fits the samples in the folder again, without a GPU
  bool json = false;
};

/// One option with the form of its value.
struct SamplingOption {
  std::string_view name;
  std::string_view value;  ///< `LIST`, `K/N`; empty for a flag
  std::string_view help;
};
/// All options of parse_sampling_options, for help texts.
[[nodiscard]] std::span<const SamplingOption> sampling_options();

/// Reads `operators --out DIR --operators linear,norm ...`. Throws InputError that names the option, on unknown
/// options, invalid values, and options that do not apply to the subject.
[[nodiscard]] SamplingOptions parse_sampling_options(std::span<const std::string> words);

}  // namespace lowgear::sampling
