#include "rivals/published_estimator/published_sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/core/error.h"
#include "base/core/formats/yaml.h"
#include "estimating/sampling/sampled_operator.h"

namespace lowgear::published_estimator {
namespace {

using Values = std::vector<std::int64_t>;

constexpr std::int64_t kLargest = std::int64_t{1} << 40;
/// As many as an option of `lowgear sample` accepts.
constexpr std::size_t kMostValues = 128;

/// Whether steps of a size are multiplied. `operators` of `moe` is shorter than its sizes: those that it leaves out are
/// multiplied where that reaches their end exactly.
bool is_multiplied(const YamlView& file, std::size_t size, std::int64_t step) {
  const YamlView operators = file.at("operators");
  if (size < operators.size()) {
    const YamlView how = operators.at(size);
    if (how.text() != "mul" && how.text() != "add") how.fail("expected mul or add");
    return how.text() == "mul";
  }
  const std::int64_t end = file.at("ends").at(size).integer_in(1, kLargest);
  std::int64_t value = file.at("starts").at(size).integer_in(1, kLargest);
  while (step > 1 && value < end && value <= kLargest / step) value *= step;
  return value == end;
}

/// Values of one size: from its start by steps that are added or multiplied.
Values values_of(const YamlView& file, std::size_t size) {
  const auto number = [&](const char* key, std::int64_t low) {
    return file.at(key).at(size).integer_in(low, kLargest);
  };
  const std::int64_t end = number("ends", 1);
  const bool multiplied = is_multiplied(file, size, number("steps", 1));
  const std::int64_t step = number("steps", multiplied ? 2 : 1);
  Values values;
  for (std::int64_t value = number("starts", 1); value <= end; value = multiplied ? value * step : value + step) {
    if (values.size() == kMostValues) file.at("ends").at(size).fail("has more than 128 values from starts in steps");
    values.push_back(value);
  }
  if (values.empty()) file.at("ends").at(size).fail("is below starts");
  return values;
}

bool is_one_shape(const YamlView& file) {
  if (!file.has("run")) return false;
  const std::string run = file.at("run").text();
  return run == "get_one" || run == "get_profiler" || run == "run_function";
}

/// Says which sizes a list lacks.
void require_all_sizes(const YamlView& list, const sampling::OperatorDescription& sampled) {
  if (list.size() >= sampled.columns.size()) return;
  std::vector<std::string_view> missing;
  for (const sampling::ShapeColumn column : sampled.columns.subspan(list.size())) missing.push_back(name(column));
  list.fail(fmt::format("has {} sizes and none for {}", list.size(), fmt::join(missing, ", ")),
            fmt::format("{} has {} sizes", sampled.name, sampled.columns.size()));
}

/// Sizes by their columns, `mp`, `b`, `h`, `l`, `dim`.
std::map<std::string, Values> sizes_of(const YamlView& file, const sampling::OperatorDescription& sampled) {
  std::map<std::string, Values> sizes;
  const YamlView columns = file.at("columns_name");
  if (is_one_shape(file)) require_all_sizes(file.at("shapes"), sampled);
  for (std::size_t i = 0; i < sampled.columns.size(); ++i) {
    const std::string column = columns.at(i).text();
    if (column != name(sampled.columns[i])) columns.at(i).fail(fmt::format("expected {}", name(sampled.columns[i])));
    sizes[column] = is_one_shape(file) ? Values{file.at("shapes").at(i).integer_in(1, kLargest)} : values_of(file, i);
  }
  return sizes;
}

PublishedSampling operators_of(const YamlView& file, const std::string& kernel) {
  const auto all = sampling::sampled_operators();
  const auto sampled = std::ranges::find(all, kernel, &sampling::OperatorDescription::name);
  if (sampled == all.end()) {
    file.at("kernel_name")
        .fail(fmt::format(
            "lowgear sample does not have {}; `lowgear sample --help` and docs/estimating.md list what it has",
            quote(kernel)));
  }
  PublishedSampling result{"operators", {"--operators", kernel}};
  const std::map<std::string, Values> sizes = sizes_of(file, *sampled);
  const std::map<std::string, std::string> options{{"mp", "--tp"},
                                                   {"b", "--microbatch"},
                                                   {"h", "--heads"},
                                                   {"l", "--seq"},
                                                   {"dim", "--hidden"},
                                                   {"encoders", "--layers"},
                                                   {"moe_num_experts", "--experts"},
                                                   {"intermediate_size", "--expert-width"},
                                                   {"top_k", "--experts-per-token"}};
  for (const auto& [column, values] : sizes) {
    result.words.insert(result.words.end(), {options.at(column), fmt::format("{}", fmt::join(values, ","))});
  }
  return result;
}

PublishedSampling collectives_of(const YamlView& file, std::string kernel) {
  constexpr std::string_view kLarge = "_large";
  if (kernel.ends_with(kLarge)) kernel.resize(kernel.size() - kLarge.size());
  if (kernel == "reducescatter") kernel = "reduce_scatter";
  constexpr std::int64_t kBytes = 2;
  const char* const smallest = is_one_shape(file) ? "shapes" : "starts";
  const char* const largest = is_one_shape(file) ? "shapes" : "ends";
  const auto bytes = [&](const char* key) { return kBytes * file.at(key).at(0).integer_in(1, kLargest / kBytes); };
  return {"collectives",
          {"--collectives", kernel, "--min-bytes", fmt::to_string(bytes(smallest)), "--max-bytes",
           fmt::to_string(bytes(largest))}};
}

}  // namespace

PublishedSampling parse_published_sampling(std::string_view yaml, const std::string& source) {
  const YamlView file = YamlView::parse(yaml, source);
  const std::string kernel = file.at("kernel_name").text();
  const bool collective = file.has("module_name") && file.at("module_name").text() == "nccl_functions";
  return collective ? collectives_of(file, kernel) : operators_of(file, kernel);
}

}  // namespace lowgear::published_estimator
