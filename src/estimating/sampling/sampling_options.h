#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/sampling/sampling_plan.h"

namespace lowgear::sampling {

enum class SamplingSubject : unsigned char { operators, collectives };

/// What is to be sampled, and how. `lowgear sample` and the program that measures, lowgear-sampler, both read it from
/// words of a command line.
struct SamplingOptions {
  SamplingSubject subject = SamplingSubject::operators;
  std::string folder;                          ///< for the files
  std::vector<SampledOperator> operators;      ///< all of them at first
  std::vector<SampledCollective> collectives;  ///< likewise
  SampleType type = SampleType::bf16;
  bool gpu = true;
  OperatorGrid grid = default_grid();
  MessageSizes sizes;
  SamplePart part;
  int repeats = 20;         ///< most of one pass
  int energy_points = 2;    ///< of each operator or collective; 0: none
  double window_s = 1.5;    ///< of an energy measurement
  double time_limit_s = 0;  ///< ends after a row then; 0: never
  bool json = false;
};

/// One option: a word, and its value's form; flags have none.
struct SamplingOption {
  std::string_view name;
  std::string_view value;  ///< `LIST`, `K/N`; empty for a flag
  std::string_view help;
};
/// All that parse_sampling_options reads, for help texts.
[[nodiscard]] std::span<const SamplingOption> sampling_options();

/// Reads `operators --out DIR --operators linear,norm ...`. Throws InputError, naming the option, on what it does not
/// know, values that are wrong, and options that the subject has no use for.
[[nodiscard]] SamplingOptions parse_sampling_options(std::span<const std::string> words);

}  // namespace lowgear::sampling
