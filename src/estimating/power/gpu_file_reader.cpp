#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/core/error.h"
#include "base/core/units.h"
#include "estimating/power/gpu_file.h"

namespace lowgear::power {
namespace {

/// Beyond these a file is in other units: GPUs draw some kilowatts, 1 pJ an operation and 100 pJ a byte.
constexpr double kMaxPowerW = 1e4;
constexpr double kMaxClockMhz = 1e5;
constexpr double kMaxPicojoulesPerOperation = 100;
constexpr double kMaxPicojoulesPerByte = 1000;
constexpr double kPico = 1e-12;
/// Share of the data sheet's bandwidth that kernels limited by memory reach on average.
constexpr double kReachedBandwidth = 0.8;
/// What an operation of a product in 16 bits reads: from the last-level cache where blocks of 128 x 256 elements share
/// one operand in pairs, from device memory where each element of matrices of 8192 rows is read or written once.
constexpr double kCacheBytesPerOperation = 2.0 * (128 + 256 / 2) / (2 * 128 * 256);
constexpr double kMemoryBytesPerOperation = 3 * 2.0 / (2 * 8192);
/// Share of the dynamic energy of products that does not follow the core's voltage, where a file does not show it: that
/// of an H200.
constexpr double kOffCoreShare = 0.13;

Estimated read_estimated(const JsonView& object, std::string_view value, std::string_view error, double low,
                         double high) {
  Estimated estimated{.value = number_in(object.at(value), low, high)};
  if (has_value(object, error)) estimated.error = number_in(object.at(error), 0, high);
  return estimated;
}

GpuFile::StaticPower read_static(const JsonView& object) {
  require_members(object, {"value", "error", "temperature_c", "per_k", "per_k_error", "clock_tree", "clock_tree_error",
                           "clock_tree_assumed"});
  GpuFile::StaticPower result;
  result.at_reference_w = read_estimated(object, "value", "error", 0, kMaxPowerW);
  result.reference_c = number_in(object.at("temperature_c"), 0, 150);
  result.per_k_w = read_estimated(object, "per_k", "per_k_error", -10, 100);
  result.clock_tree_w = read_estimated(object, "clock_tree", "clock_tree_error", 0, result.at_reference_w.value);
  if (object.has("clock_tree_assumed")) result.clock_tree_assumed = object.at("clock_tree_assumed").boolean();
  return result;
}

GpuFile::OperationEnergy read_operation(const JsonView& object) {
  require_members(object, {"type", "pj", "error", "ops_per_cycle_sm"});
  GpuFile::OperationEnergy result;
  result.type = object.at("type").text();
  if (result.type != "bf16" && result.type != "fp8" && result.type != "tf32") {
    object.at("type").fail(fmt::format("unknown type {}", quote(result.type)), "write bf16, fp8 or tf32");
  }
  result.at_max_clock_pj = read_estimated(object, "pj", "error", 1e-3, kMaxPicojoulesPerOperation);
  result.ops_per_cycle_sm = number_in(object.at("ops_per_cycle_sm"), 1, 1e6);
  return result;
}

void read_bytes(const JsonView& root, std::string_view member, Estimated& pj, Estimated& clock_share) {
  if (!has_value(root, member)) return;
  const JsonView object = root.at(member);
  require_members(object, {"pj_per_byte", "error", "clock_share", "clock_share_error"});
  pj = read_estimated(object, "pj_per_byte", "error", 0, kMaxPicojoulesPerByte);
  clock_share = read_estimated(object, "clock_share", "clock_share_error", 0, 1);
}

VoltageCurve read_voltage(const JsonView& object) {
  require_members(object, {"measured_from_mhz", "points"});
  const JsonView list = object.at("points");
  if (list.size() < 2) list.fail("one point is no curve", "give two or more");
  std::vector<VoltagePoint> points;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonView point = list.at(i);
    require_members(point, {"clock_mhz", "relative_v2", "error"});
    points.push_back({.clock_mhz = number_in(point.at("clock_mhz"), 0, kMaxClockMhz),
                      .relative_v2 = number_in(point.at("relative_v2"), 0, 1),
                      .error = point.has("error") ? number_in(point.at("error"), 0, 1) : 0});
  }
  try {
    return {points, number_in(object.at("measured_from_mhz"), 0, kMaxClockMhz)};
  } catch (const InputError& error) {
    list.fail(error.what());
  }
}

/// Power of multiprocessors at the highest clock, for work that draws the same at the same clock under the limit as by
/// another model: the clocks that products sustain were measured, and do not change with the curve.
double compute_w_as_by(const GpuPower& other, double share, double max_mhz, const GpuPower& power) {
  constexpr double kLowestShare = 0.1;
  const auto other_w = [&](double clock_mhz) {
    const double rate = Switching(other, clock_mhz, max_mhz).rate;
    return other.static_power_w(rate) + share * other.compute_w * rate;
  };
  const double clock_mhz = highest_clock_within(kLowestShare * max_mhz, max_mhz, other.limit_w, other_w);
  const double rate = Switching(power, clock_mhz, max_mhz).rate;
  return std::max(0.0, other_w(clock_mhz) - power.static_power_w(rate)) / rate;
}

/// Share of the dynamic energy of products that goes into cache and memory and does not follow the core's voltage.
double off_core_share(const GpuFile& file) {
  const auto product = std::ranges::find(file.operations, "bf16", &GpuFile::OperationEnergy::type);
  if (product == file.operations.end() || !(file.cache_pj.value > 0)) return kOffCoreShare;
  const double cache_pj = file.cache_pj.value * kCacheBytesPerOperation;
  const double memory_pj = file.byte_pj.value * kMemoryBytesPerOperation;
  return (cache_pj * (1 - file.cache_clock_share.value) + memory_pj * (1 - file.byte_clock_share.value)) /
         (product->at_max_clock_pj.value + cache_pj + memory_pj);
}

/// Energy of a cycle of products over the clock, from the square of the core's voltage. Products of `work_w` at the
/// highest clock, losses included, lose less in the delivery of their power at lower clocks.
VoltageCurve curve_of_products(const GpuFile& file, double work_w) {
  const double off_core = off_core_share(file);
  const double loss = file.loss_per_kw.value / 1e3;
  const double delivered_w = 2 * work_w / (1 + std::sqrt(1 + 4 * loss * work_w));
  std::vector<VoltagePoint> points(file.voltage.points().begin(), file.voltage.points().end());
  for (VoltagePoint& point : points) {
    const double energy = off_core + (1 - off_core) * point.relative_v2;
    const double rate = energy * point.clock_mhz / file.max_clock_mhz;
    const double lost_less = (1 + loss * delivered_w * rate) / (1 + loss * delivered_w);
    point.relative_v2 = energy * lost_less;
    point.error *= (1 - off_core) * lost_less;
  }
  points.back().relative_v2 = 1;
  return {points, file.voltage.measured_from_mhz()};
}

}  // namespace

GpuFile parse_gpu_file(std::string_view text, const std::string& source) {
  const Json document = parse_json(text, source);
  const JsonView root(document, source);
  require_format(root, "lowgear.gpu/1");
  require_members(root, {"format", "gpu", "driver", "date", "simulated", "limit_w", "max_clock_mhz", "multiprocessors",
                         "static_w", "operations", "memory", "cache", "delivery", "voltage"});
  GpuFile file;
  file.gpu = root.at("gpu").text();
  if (has_value(root, "driver")) file.driver = root.at("driver").text();
  if (has_value(root, "date")) file.date = root.at("date").text();
  if (has_value(root, "simulated")) file.simulated = root.at("simulated").boolean();
  file.limit_w = number_in(root.at("limit_w"), 0, kMaxPowerW);
  file.max_clock_mhz = number_in(root.at("max_clock_mhz"), 1, kMaxClockMhz);
  file.multiprocessors = root.at("multiprocessors").integer_in(1, 10'000);
  file.static_power = read_static(root.at("static_w"));
  const JsonView operations = root.at("operations");
  for (std::size_t i = 0; i < operations.size(); ++i) file.operations.push_back(read_operation(operations.at(i)));
  read_bytes(root, "memory", file.byte_pj, file.byte_clock_share);
  read_bytes(root, "cache", file.cache_pj, file.cache_clock_share);
  if (has_value(root, "delivery")) {
    const JsonView delivery = root.at("delivery");
    require_members(delivery, {"loss_per_kw", "error"});
    file.loss_per_kw = read_estimated(delivery, "loss_per_kw", "error", 0, 10);
  }
  file.voltage = read_voltage(root.at("voltage"));
  if (file.voltage.points().back().clock_mhz != file.max_clock_mhz) {
    root.at("max_clock_mhz").fail("it is not the clock of the last point of voltage");
  }
  return file;
}

std::vector<GpuFile> one_error_off(const GpuFile& file) {
  std::vector<GpuFile> files;
  const auto off = [&](Estimated& (*figure)(GpuFile&), double most) {
    GpuFile changed = file;
    Estimated& value = figure(changed);
    if (!(value.error > 0)) return;
    value.value = std::min(most, value.value + value.error);
    files.push_back(std::move(changed));
  };
  off([](GpuFile& f) -> Estimated& { return f.static_power.at_reference_w; }, kMaxPowerW);
  off([](GpuFile& f) -> Estimated& { return f.static_power.clock_tree_w; }, file.static_power.at_reference_w.value);
  off([](GpuFile& f) -> Estimated& { return f.byte_pj; }, kMaxPicojoulesPerByte);
  off([](GpuFile& f) -> Estimated& { return f.byte_clock_share; }, 1);
  off([](GpuFile& f) -> Estimated& { return f.cache_clock_share; }, 1);
  off([](GpuFile& f) -> Estimated& { return f.loss_per_kw; }, 10);
  std::vector<VoltagePoint> points(file.voltage.points().begin(), file.voltage.points().end());
  const std::vector<VoltageBounds> bounds = file.voltage.bounds();
  for (std::size_t i = 0; i < points.size(); ++i) points[i].relative_v2 = bounds[i].high;
  files.push_back(file);
  files.back().voltage = VoltageCurve(points, file.voltage.measured_from_mhz());
  return files;
}

void replace(GpuPower& power, const GpuFile& file, double max_clock_mhz, double memory_bytes_per_s) {
  if (file.max_clock_mhz != max_clock_mhz) {
    throw InputError(
        fmt::format("the GPU file's highest clock is {} MHz, that of this GPU {} MHz; name a file that was "
                    "measured on the same model",
                    file.max_clock_mhz, max_clock_mhz));
  }
  const GpuPower before = power;
  power.static_per_k_w = file.static_power.per_k_w.value;
  power.static_w =
      file.static_power.at_reference_w.value + power.static_per_k_w * (kReferenceC - file.static_power.reference_c);
  power.clock_tree_w = std::min(file.static_power.clock_tree_w.value, power.static_w);
  power.blocking_w = power.static_w + (before.blocking_w - before.static_w);
  power.idle_w = std::min(power.idle_w, power.static_w);
  if (file.byte_pj.value > 0) {
    const double memory_w = file.byte_pj.value * kPico * kReachedBandwidth * memory_bytes_per_s;
    power.memory_sm_w = memory_w * file.byte_clock_share.value;
    power.memory_w = memory_w - power.memory_sm_w;
  }
  power.voltage = curve_of_products(file, before.compute_w);
  power.voltage_basis = Basis::measured;
  power.compute_w = compute_w_as_by(before, 1, max_clock_mhz, power);
  if (!(power.compute_w > 0)) {
    throw InputError(fmt::format("the GPU file's static power of {} W leaves none for work under the limit of {} W",
                                 file.static_power.at_reference_w.value, power.limit_w));
  }
  power.fp8_share = compute_w_as_by(before, before.fp8_share, max_clock_mhz, power) / power.compute_w;
  power.attention_share = compute_w_as_by(before, before.attention_share, max_clock_mhz, power) / power.compute_w;
}

std::string describe(const GpuFile& file) {
  return fmt::format("measured on {}{}{} from {:.0f} MHz up{}", file.simulated ? "a simulated " : "one ", file.gpu,
                     file.date.empty() ? "" : ", " + file.date + ",", file.voltage.measured_from_mhz(),
                     file.voltage.is_measured(file.voltage.points().front().clock_mhz)
                         ? ""
                         : fmt::format(", extrapolated to {:.0f} MHz", file.voltage.points().front().clock_mhz));
}

}  // namespace lowgear::power
