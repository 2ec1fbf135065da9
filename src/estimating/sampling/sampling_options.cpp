#include "estimating/sampling/sampling_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "base/core/text.h"

namespace lowgear::sampling {
namespace {

constexpr std::int64_t kLargestMessage = std::int64_t{1} << 36;

constexpr auto kOptions = std::to_array<SamplingOption>({
    {"--out", "DIR", "Folder to write the samples to; an interrupted run continues where it stopped"},
    {"--operators", "LIST", "Operators by name or family, such as linear,norm,RoPE (default all but stage-optimizer)"},
    {"--collectives", "LIST", "Collectives, of allreduce,allgather,reduce_scatter,p2p (default all)"},
    {"--dtype", "TYPE", "Data type: bf16 (default), fp16 or fp32"},
    {"--device", "DEVICE", "Device: cuda (default) or cpu"},
    {"--quick", "", "Use a small grid of sizes, for a first look"},
    {"--hidden", "LIST", "Hidden sizes, instead of the grid's"},
    {"--tp", "LIST", "Numbers of tensor parallel ranks, such as 1,2,4"},
    {"--microbatch", "LIST", "Sequences per microbatch, such as 1,2,4"},
    {"--seq", "LIST", "Tokens per sequence, such as 2048,4096"},
    {"--head-dim", "LIST", "Widths of an attention head, such as 64,128"},
    {"--heads", "LIST", "Numbers of heads, such as 16,32 (default: hidden size divided by --head-dim)"},
    {"--parameters", "LIST", "Numbers of parameters per rank, for the optimizer"},
    {"--layers", "LIST", "Layers of a stage, for the optimizers of stages"},
    {"--experts", "LIST", "Experts of a layer, on all tensor parallel ranks"},
    {"--expert-width", "LIST", "Widths within one expert"},
    {"--experts-per-token", "LIST", "Experts that a token uses, such as 2,8"},
    {"--min-bytes", "N", "Smallest message of a collective, in bytes (default 1024)"},
    {"--max-bytes", "N", "Largest message of a collective, in bytes (default 1073741824)"},
    {"--part", "K/N", "Measure only part K of N of the points, to divide them among N machines"},
    {"--repeats", "N", "Largest number of timed runs per pass (default 20)"},
    {"--energy", "N", "Points per operator whose energy is measured (default 2)"},
    {"--window", "S", "Length of one energy measurement, in s (default 1.5; of a curve 2.2)"},
    {"--time-limit", "S",
     "Stop after the row that is being measured when this time has passed, in s (of a curve: 540)"},
    {"--fit", "", "Curve: fit the samples in --out again, without a GPU"},
    {"--json", "", "Print one JSON object instead of text"},
});

using Values = std::map<std::string_view, std::string_view>;

[[noreturn]] void refuse(std::string_view option, std::string_view value, std::string_view expected) {
  throw InputError(fmt::format("{}: {} is not understood; expected {}", option, quote(value), expected));
}

const SamplingOption& option_named(std::string_view word) {
  const auto found = std::ranges::find(kOptions, word, &SamplingOption::name);
  if (found != kOptions.end()) return *found;
  std::array<std::string_view, kOptions.size()> names;
  std::ranges::transform(kOptions, names.begin(), &SamplingOption::name);
  const std::optional<std::string_view> nearest = nearest_name(word, names);
  throw InputError(fmt::format("{} is not an option of sample{}", quote(word),
                               nearest ? fmt::format("; did you mean {}?", *nearest) : "; see lowgear sample --help"));
}

Values read_words(std::span<const std::string> words) {
  Values values;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const SamplingOption& option = option_named(words[i]);
    std::string_view value;
    if (!option.value.empty()) {
      if (++i == words.size()) throw InputError(fmt::format("{}: give it a value, {}", option.name, option.value));
      value = words[i];
    }
    if (!values.emplace(option.name, value).second) throw InputError(fmt::format("{}: given twice", option.name));
  }
  return values;
}

/// Reads the values of the words; those that were not given stay as they are.
class Reader {
 public:
  explicit Reader(const Values& values) : values_(&values) {}

  [[nodiscard]] bool has(std::string_view option) const { return values_->contains(option); }
  [[nodiscard]] std::string_view text(std::string_view option) const { return has(option) ? values_->at(option) : ""; }

  void whole(std::string_view option, std::int64_t low, std::int64_t high, auto& target) const {
    if (!has(option)) return;
    const std::string_view value = text(option);
    const std::optional<long long> number = parse_integer(value);
    if (!number || *number < low || *number > high) {
      refuse(option, value, fmt::format("a whole number from {} to {}", low, high));
    }
    target = static_cast<std::remove_reference_t<decltype(target)>>(*number);
  }
  void seconds(std::string_view option, double low, double high, double& target) const {
    if (!has(option)) return;
    const std::optional<double> number = parse_number(text(option));
    if (!number || *number < low || *number > high) {
      refuse(option, text(option), fmt::format("seconds from {} to {}", low, high));
    }
    target = *number;
  }
  void list(std::string_view option, std::vector<std::int64_t>& target) const {
    if (!has(option)) return;
    target.clear();
    const std::string_view value = text(option);
    for (std::size_t begin = 0; begin <= value.size();) {
      const std::size_t end = std::min(value.find(',', begin), value.size());
      const std::optional<long long> number = parse_integer(value.substr(begin, end - begin));
      if (!number) refuse(option, value, "whole numbers separated by commas, such as 1,2,4");
      target.push_back(*number);
      begin = end + 1;
    }
  }

 private:
  const Values* values_;
};

void read_part(const Reader& reader, SamplePart& part) {
  if (!reader.has("--part")) return;
  constexpr long long kMostParts = 10'000;
  const std::string_view text = reader.text("--part");
  const std::size_t slash = text.find('/');
  const auto index = parse_integer(text.substr(0, slash));
  const auto count = slash == std::string_view::npos ? std::nullopt : parse_integer(text.substr(slash + 1));
  if (!index || !count || *count < 1 || *count > kMostParts || *index < 1 || *index > *count) {
    refuse("--part", text, "K/N with K from 1 to N, such as 2/4");
  }
  part = {.index = static_cast<int>(*index), .count = static_cast<int>(*count)};
}

void read_grid(const Reader& reader, OperatorGrid& grid) {
  if (reader.has("--quick")) grid = quick_grid();
  reader.list("--hidden", grid.hidden);
  reader.list("--tp", grid.tp);
  reader.list("--microbatch", grid.microbatch);
  reader.list("--seq", grid.sequence);
  reader.list("--head-dim", grid.head_dim);
  reader.list("--heads", grid.heads);
  if (reader.has("--head-dim") && reader.has("--heads")) throw InputError("--heads: give it or --head-dim, not both");
  reader.list("--parameters", grid.parameters);
  reader.list("--layers", grid.layers);
  reader.list("--experts", grid.experts);
  reader.list("--expert-width", grid.expert_width);
  reader.list("--experts-per-token", grid.experts_per_token);
  require_valid(grid);
}

void refuse_options_of_others(const Reader& reader, SamplingSubject subject) {
  constexpr auto kOfOperators = std::to_array<std::string_view>(
      {"--operators", "--quick", "--hidden", "--tp", "--microbatch", "--seq", "--head-dim", "--heads", "--parameters",
       "--layers", "--experts", "--expert-width", "--experts-per-token", "--part"});
  constexpr std::array<std::string_view, 3> kOfCollectives = {"--collectives", "--min-bytes", "--max-bytes"};
  constexpr auto kOfBoth = std::to_array<std::string_view>({"--dtype", "--device", "--repeats", "--energy"});
  constexpr std::array<std::string_view, 1> kOfCurves = {"--fit"};
  const auto refuse_all = [&reader](std::span<const std::string_view> options, std::string_view subject_name) {
    for (const std::string_view option : options) {
      if (reader.has(option)) throw InputError(fmt::format("{}: can only be used with {}", option, subject_name));
    }
  };
  if (subject != SamplingSubject::collectives) refuse_all(kOfCollectives, "collectives");
  if (subject != SamplingSubject::operators) refuse_all(kOfOperators, "operators");
  if (subject == SamplingSubject::curve) refuse_all(kOfBoth, "operators and collectives");
  if (subject != SamplingSubject::curve) refuse_all(kOfCurves, "curve");
}

SamplingSubject subject_named(std::string_view word) {
  if (word == "operators") return SamplingSubject::operators;
  if (word == "collectives") return SamplingSubject::collectives;
  if (word == "curve") return SamplingSubject::curve;
  throw InputError(fmt::format("{} cannot be sampled; there are operators, collectives and curve", quote(word)));
}

SampleType type_named(const Reader& reader) {
  if (!reader.has("--dtype")) return SampleType::bf16;
  const std::optional<SampleType> type = sample_type(reader.text("--dtype"));
  if (!type) refuse("--dtype", reader.text("--dtype"), "bf16, fp16 or fp32");
  return *type;
}

bool is_gpu(const Reader& reader) {
  if (!reader.has("--device") || reader.text("--device") == "cuda") return true;
  if (reader.text("--device") != "cpu") refuse("--device", reader.text("--device"), "cuda or cpu");
  return false;
}

}  // namespace

std::span<const SamplingOption> sampling_options() { return kOptions; }

SamplingOptions parse_sampling_options(std::span<const std::string> words) {
  if (words.empty()) throw InputError("say what to sample: operators, collectives or curve");
  SamplingOptions options;
  options.subject = subject_named(words.front());
  const Values values = read_words(words.subspan(1));
  const Reader reader(values);
  refuse_options_of_others(reader, options.subject);
  options.folder = reader.text("--out");
  if (options.folder.empty()) throw InputError("--out: give the folder for the samples");
  options.operators = operators_named(reader.has("--operators") ? reader.text("--operators") : "all", "--operators");
  options.collectives =
      collectives_named(reader.has("--collectives") ? reader.text("--collectives") : "all", "--collectives");
  options.type = type_named(reader);
  options.gpu = is_gpu(reader);
  read_grid(reader, options.grid);
  reader.whole("--min-bytes", 1, kLargestMessage, options.sizes.smallest);
  reader.whole("--max-bytes", options.sizes.smallest, kLargestMessage, options.sizes.largest);
  read_part(reader, options.part);
  reader.whole("--repeats", 1, 1000, options.repeats);
  reader.whole("--energy", 0, 1000, options.energy_points);
  if (options.subject == SamplingSubject::curve) {
    options.window_s = 2.2;
    options.time_limit_s = 540;
  }
  options.fit_only = reader.has("--fit");
  reader.seconds("--window", 0.1, 600, options.window_s);
  reader.seconds("--time-limit", 1, 1e7, options.time_limit_s);
  options.json = reader.has("--json");
  return options;
}

}  // namespace lowgear::sampling
