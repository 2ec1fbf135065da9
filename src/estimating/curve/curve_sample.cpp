#include "estimating/curve/curve_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/probability.h"

namespace lowgear::curve {
namespace {

constexpr std::array<std::string_view, 3> kTypes = {"bf16", "fp8", "tf32"};
constexpr std::array<std::string_view, 3> kData = {"bits", "numbers", "zeros"};

constexpr std::string_view kHeader =
    "sms,type,data,adds,reads,stream_sms,cached,begin_s,time_s,energy_j,energy_error_j,power_w,clock_mhz,lowest_clock_"
    "mhz,"
    "highest_clock_mhz,memory_clock_mhz,temperature_c,capped_s,thermal_s,limit_w,operations,bytes,cache_bytes\n";

int word_of(const CsvTable& table, std::size_t row, std::string_view column, std::span<const std::string_view> words) {
  const std::size_t index = table.column(column);
  const auto found = std::ranges::find(words, std::string_view(table.text(row, index)));
  if (found == words.end()) {
    throw_input_error(table.where(row, index), fmt::format("{} is not a known word; there are {}, {} and {}",
                                                           table.text(row, index), words[0], words[1], words[2]));
  }
  return static_cast<int>(found - words.begin());
}

int sms_of(const CsvTable& table, std::size_t row, std::string_view column) {
  constexpr long long kMost = 100'000;
  const std::size_t index = table.column(column);
  const long long value = table.integer(row, index);
  if (value < 0 || value > kMost)
    throw_input_error(table.where(row, index), "a number of multiprocessors is not negative");
  return static_cast<int>(value);
}

int reads_of(const CsvTable& table, std::size_t row) {
  const std::size_t index = table.column("reads");
  const long long value = table.integer(row, index);
  if (value < 0 || value > kMostReads) {
    throw_input_error(table.where(row, index), fmt::format("reads are 0 to {}", kMostReads));
  }
  return static_cast<int>(value);
}

double amount_of(const CsvTable& table, std::size_t row, std::string_view column) {
  const std::size_t index = table.column(column);
  const double value = table.number(row, index);
  if (value < 0) throw_input_error(table.where(row, index), fmt::format("{} is not negative", column));
  return value;
}

double positive(const CsvTable& table, std::size_t row, std::string_view column) {
  const double value = amount_of(table, row, column);
  if (value > 0) return value;
  throw_input_error(table.where(row, table.column(column)), fmt::format("{} is above 0", column));
}

CurveSample sample_of(const CsvTable& table, std::size_t row) {
  CurveSample sample;
  sample.load.product_sms = sms_of(table, row, "sms");
  sample.load.type = static_cast<ProductType>(word_of(table, row, "type", kTypes));
  sample.load.data = static_cast<ProductData>(word_of(table, row, "data", kData));
  sample.load.adds = sms_of(table, row, "adds") != 0;
  sample.load.reads = reads_of(table, row);
  sample.load.stream_sms = sms_of(table, row, "stream_sms");
  sample.load.cached = sms_of(table, row, "cached") != 0;
  sample.begin_s = amount_of(table, row, "begin_s");
  sample.time_s = positive(table, row, "time_s");
  sample.energy_j = positive(table, row, "energy_j");
  sample.energy_error_j = amount_of(table, row, "energy_error_j");
  sample.clock_mhz = positive(table, row, "clock_mhz");
  sample.lowest_clock_mhz = amount_of(table, row, "lowest_clock_mhz");
  sample.highest_clock_mhz = amount_of(table, row, "highest_clock_mhz");
  sample.memory_clock_mhz = amount_of(table, row, "memory_clock_mhz");
  sample.temperature_c = table.number(row, table.column("temperature_c"));
  sample.capped_s = amount_of(table, row, "capped_s");
  sample.thermal_s = amount_of(table, row, "thermal_s");
  sample.limit_w = amount_of(table, row, "limit_w");
  sample.operations = amount_of(table, row, "operations");
  sample.bytes = amount_of(table, row, "bytes");
  sample.cache_bytes = amount_of(table, row, "cache_bytes");
  return sample;
}

int share(int multiprocessors, int sixteenths) { return std::max(1, multiprocessors * sixteenths / 16); }

/// Loads by shares of the multiprocessors in sixteenths: of the products, and of the streams beside them.
class LoadList {
 public:
  explicit LoadList(int multiprocessors) : multiprocessors_(multiprocessors) {}

  void add(CurveLoad load, std::initializer_list<std::pair<int, int>> parts) {
    for (const auto& [products, streams] : parts) {
      load.product_sms = products > 0 ? share(multiprocessors_, products) : 0;
      load.stream_sms =
          streams > 0 ? std::min(share(multiprocessors_, streams), multiprocessors_ - load.product_sms) : 0;
      loads_.push_back(load);
    }
  }
  void add_idle(std::size_t count) { loads_.resize(loads_.size() + count); }
  [[nodiscard]] std::vector<CurveLoad> take() && { return std::move(loads_); }

 private:
  int multiprocessors_;
  std::vector<CurveLoad> loads_;
};

/// Those that reach the lowest clocks, from the lowest up: products on all multiprocessors, and beside them nearly as
/// many reads of device memory as they leave time for, and fewer. With all of them, the clock swings.
std::vector<CurveLoad> lowest_loads(int multiprocessors, std::span<const ProductType> types) {
  LoadList loads(multiprocessors);
  for (const int reads : {14, 12, 10, 8, 6}) {
    for (const ProductType type : types.first(std::min<std::size_t>(types.size(), 2))) {
      loads.add({.type = type, .reads = reads}, {{16, 0}});
    }
  }
  return std::move(loads).take();
}

/// Most samples are of the first type. Additions and streams beside the products reach clocks between; loads of the
/// cache and of device memory at several clocks show which part of their energy follows the core's voltage.
std::vector<CurveLoad> other_loads(int multiprocessors, std::span<const ProductType> types) {
  using enum ProductData;
  LoadList loads(multiprocessors);
  loads.add_idle(2);
  for (const ProductType type : types) {
    loads.add({.type = type, .data = numbers}, {{2, 0}, {5, 0}, {10, 0}, {16, 0}});
    if (types.size() > 2 && type == types.back()) continue;
    loads.add({.type = type, .data = numbers}, {{13, 0}});
    loads.add({.type = type, .data = numbers, .adds = true},
              {{2, 0}, {5, 0}, {8, 0}, {10, 0}, {13, 0}, {16, 0}, {12, 4}});
  }
  if (types.empty()) return std::move(loads).take();
  const ProductType first = types.front();
  loads.add({.type = first, .data = numbers, .adds = true}, {{4, 0}, {12, 0}});
  loads.add({.type = first, .data = numbers, .reads = kMostReads / 2}, {{2, 0}, {5, 0}, {10, 0}});
  loads.add({.type = first, .data = numbers, .reads = kMostReads / 4}, {{16, 0}});
  loads.add({.type = first, .data = bits}, {{5, 0}, {10, 0}});
  loads.add({.type = first, .data = zeros}, {{2, 0}, {5, 0}, {10, 0}, {16, 0}});
  loads.add({.type = first}, {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}});
  loads.add({.type = first, .cached = true}, {{0, 2}, {0, 5}, {0, 10}, {0, 16}, {4, 12}, {8, 8}, {12, 4}});
  loads.add({.type = first, .adds = true, .cached = true}, {{12, 4}});
  return std::move(loads).take();
}

void add_shuffled(std::vector<CurveLoad>& plan, std::span<const CurveLoad> loads, int round) {
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    order.emplace_back(random_bits(static_cast<std::uint64_t>(round) * loads.size() + i), i);
  }
  std::ranges::sort(order);
  for (const auto& [bits, i] : order) plan.push_back(loads[i]);
}

}  // namespace

std::string_view name(ProductType type) { return kTypes.at(static_cast<std::size_t>(type)); }
std::string_view name(ProductData data) { return kData.at(static_cast<std::size_t>(data)); }

std::string describe(const CurveLoad& load) {
  if (load.product_sms == 0 && load.stream_sms == 0) return "idle";
  std::string text;
  if (load.product_sms > 0) {
    text = fmt::format("{} {}{}", name(load.type), name(load.data), load.adds ? " + adds" : "");
    if (load.reads > 0) text += fmt::format(" + {}/{} reads", load.reads, kMostReads);
    text += fmt::format(" on {} SMs", load.product_sms);
  }
  if (load.stream_sms > 0)
    text += fmt::format("{}{}stream on {}", text.empty() ? "" : ", ", load.cached ? "cached " : "", load.stream_sms);
  return text;
}

std::string curve_header() { return std::string(kHeader); }

std::string curve_row(const CurveSample& sample) {
  const CurveLoad& load = sample.load;
  return fmt::format(
      "{},{},{},{},{},{},{},{:.3f},{:.4f},{:.3f},{:.3f},{:.2f},{:.1f},{:.0f},{:.0f},{:.0f},{:.2f},{:.3f},{:.3f},{},{:."
      "6e},"
      "{:."
      "6e},{:.6e}\n",
      load.product_sms, name(load.type), name(load.data), load.adds ? 1 : 0, load.reads, load.stream_sms,
      load.cached ? 1 : 0, sample.begin_s, sample.time_s, sample.energy_j, sample.energy_error_j, sample.power_w(),
      sample.clock_mhz, sample.lowest_clock_mhz, sample.highest_clock_mhz, sample.memory_clock_mhz,
      sample.temperature_c, sample.capped_s, sample.thermal_s, sample.limit_w, sample.operations, sample.bytes,
      sample.cache_bytes);
}

std::vector<CurveSample> parse_curve_samples(std::string_view text, const std::string& source) {
  const CsvTable table(text, source);
  std::vector<CurveSample> samples;
  for (std::size_t row = 0; row < table.rows(); ++row) samples.push_back(sample_of(table, row));
  return samples;
}

std::vector<CurveLoad> plan_curve(int multiprocessors, std::span<const ProductType> types, int rounds) {
  std::vector<CurveLoad> plan = lowest_loads(multiprocessors, types);
  const std::size_t lowest = plan.size();
  std::vector<CurveLoad> loads = other_loads(multiprocessors, types);
  if (rounds > 0) add_shuffled(plan, loads, 0);
  loads.insert(loads.end(), plan.begin(), plan.begin() + static_cast<std::ptrdiff_t>(lowest));
  for (int round = 1; round < rounds; ++round) add_shuffled(plan, loads, round);
  return plan;
}

}  // namespace lowgear::curve
