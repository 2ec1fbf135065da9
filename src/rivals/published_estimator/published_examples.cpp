#include "rivals/published_estimator/published_examples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "rivals/published_estimator/example_files.h"

namespace lowgear::published_estimator {

namespace {

constexpr std::array<std::string_view, 6> kNames{"mp", "b", "h", "l", "dim", "at"};
/// The table has a column `at` for the value, and one for its exponent.
constexpr std::string_view kAtExponent = "at_exponent";

double over(std::int64_t size, std::int64_t reference) {
  return static_cast<double>(size) / static_cast<double>(reference);
}

}  // namespace

FittedTimes::FittedTimes(std::string_view csv, std::string source) : source_(std::move(source)) {
  const CsvTable table(csv, source_);
  const auto text = [&](std::size_t row, std::string_view name) { return table.text(row, table.column(name)); };
  const auto number = [&](std::size_t row, std::string_view name) { return table.number(row, table.column(name)); };
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Fit fit{number(row, "at"), 1e-6 * number(row, "time(us)"), {}};
    if (!(fit.time_s > 0)) throw_input_error(table.where(row, table.column("time(us)")), "is not above 0", "");
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      fit.exponents[i] = number(row, kNames[i] == "at" ? kAtExponent : kNames[i]);
    }
    const Key key{text(row, "function"), text(row, "pass"), table.integer(row, table.column("nodes")),
                  table.integer(row, table.column("GPUsPerNode"))};
    fits_.insert_or_assign(key, fit);
  }
}

const FittedTimes::Fit& FittedTimes::find(const Key& key) const {
  const auto found = fits_.find(key);
  if (found != fits_.end()) return found->second;
  const auto& [function, pass, nodes, per_node] = key;
  const std::string group = nodes > 0 ? fmt::format(" among {} x {} GPUs", nodes, per_node) : "";
  throw InputError(fmt::format("{} has no fit of {}{}; give a folder of sampling files with --operators", source_,
                               printable(function), group));
}

double FittedTimes::scaled_s(const Key& key, const Fit& fit, const std::array<double, kSizes>& ratios) const {
  double time_s = fit.time_s;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    if (fit.exponents[i] == 0) continue;
    if (!(ratios[i] >= 1 / kReach && ratios[i] <= kReach)) {
      throw InputError(
          fmt::format("{}: {} of {} is {:.3g} times that of the example, and the fits hold within a factor of {}; give "
                      "a folder of sampling files with --operators",
                      source_, kNames[i] == "at" ? "the size" : kNames[i], std::get<0>(key), ratios[i], kReach));
    }
    time_s *= std::pow(ratios[i], fit.exponents[i]);
  }
  return time_s;
}

double FittedTimes::operator_s(const estimator::SampledFunction& function, const estimator::SampledShape& shape,
                               estimator::Pass pass) const {
  const char* const of_pass = pass == estimator::Pass::forward ? "fwd" : "bwd";
  const Key key{function.name, function.one_pass ? "dur" : of_pass, 0, 0};
  const Fit& fit = find(key);
  return scaled_s(key, fit,
                  {over(shape.ranks, kReference.ranks), over(shape.batch, kReference.batch),
                   over(shape.heads, kReference.heads), over(shape.sequence, kReference.sequence),
                   over(shape.hidden, kReference.hidden), fit.at > 0 ? static_cast<double>(shape.layers) / fit.at : 1});
}

double FittedTimes::collective_s(std::string_view function, std::int64_t elements, int nodes, int per_node) const {
  const Key key{function, "dur", nodes, per_node};
  const Fit& fit = find(key);
  return scaled_s(key, fit, {1, 1, 1, 1, 1, static_cast<double>(elements) / fit.at});
}

namespace {

constexpr auto kExamples = std::to_array<PublishedExample>(
    {{"llemma-7b-perlmutter", "llemma_7b_4_2_2_P", "Llemma 7B, pp 4, tp 2, dp 2, on 16 A100 80 GB in nodes of four"},
     {"llemma-7b-vista", "llemma_7b_4_2_2_V", "Llemma 7B, pp 4, tp 2, dp 2, on 16 GH200 in nodes of one"}});

constexpr std::string_view kPackaged = "packaged:";
constexpr std::array<std::string_view, 2> kPackages{"perlmutter", "vista"};

}  // namespace

std::span<const PublishedExample> published_examples() { return kExamples; }

const PublishedExample& published_example(std::string_view name) {
  const auto found = std::ranges::find_if(kExamples, [name](const PublishedExample& example) {
    return example.name == name || example.published_name == name;
  });
  if (found != kExamples.end()) return *found;
  std::string names;
  for (const PublishedExample& example : kExamples)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", example.name);
  throw InputError(fmt::format("{} is not an example; there are {}", quote(name), names));
}

std::string_view example_job(const PublishedExample& example) {
  return example_file(fmt::format("{}.yml", example.name));
}

std::optional<FittedTimes> packaged_times(std::string_view folder) {
  if (!folder.starts_with(kPackaged)) return std::nullopt;
  const std::string_view package = folder.substr(kPackaged.size());
  if (std::ranges::find(kPackages, package) == kPackages.end()) {
    throw InputError(
        fmt::format("{} is not packaged; there are packaged:{}", quote(folder), fmt::join(kPackages, ", packaged:")));
  }
  return FittedTimes(example_file(fmt::format("{}_fits.csv", package)), std::string(folder));
}

}  // namespace lowgear::published_estimator
