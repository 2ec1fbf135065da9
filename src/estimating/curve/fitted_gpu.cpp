#include <algorithm>

#include "base/core/units.h"
#include "estimating/curve/clock_by_rate.h"
#include "estimating/curve/curve_fit.h"
#include "estimating/curve/curve_power.h"

namespace lowgear::curve {

std::size_t CurveFit::left_out() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(samples, [](const FittedSample& sample) { return !sample.left_out.empty(); }));
}

double power_w(const CurveFit& fit, const CurveSample& sample) {
  const double v2 = fit.voltage.relative_v2(sample.clock_mhz);
  const auto& still = fit.static_power;
  const double still_w = still.at_reference_w.value + still.per_k_w.value * (sample.temperature_c - still.reference_c) -
                         still.clock_tree_w.value * (1 - v2 * sample.clock_mhz / fit.max_clock_mhz);
  const double tera_bytes = sample.bytes / sample.time_s / kTera;
  const double tera_cache_bytes = sample.cache_bytes / sample.time_s / kTera;
  const double cached_pj = fit.cache_pj.value * fit.cache_clock_share.value;
  double work_w = (fit.byte_clocked_pj * tera_bytes + cached_pj * tera_cache_bytes) * v2;
  const auto load = std::ranges::find(fit.loads, kind_of(sample.load), &LoadEnergy::load);
  if (sample.load.product_sms > 0 && load != fit.loads.end()) {
    work_w += load->pj.value * v2 * sample.operations / sample.time_s / kTera;
  }
  return still_w + fit.byte_fixed_pj * tera_bytes + fit.awake_memory_w.value * awake_share(tera_bytes) +
         (fit.cache_pj.value - cached_pj) * tera_cache_bytes + work_w + fit.loss_per_kw.value * work_w * work_w / 1e3;
}

power::GpuFile gpu_file(const CurveFit& fit, const CurveOrigin& origin) {
  power::GpuFile file;
  file.gpu = origin.gpu;
  file.driver = origin.driver;
  file.date = origin.date;
  file.simulated = origin.simulated;
  file.limit_w = origin.limit_w;
  file.multiprocessors = origin.multiprocessors;
  file.max_clock_mhz = fit.max_clock_mhz;
  file.static_power = fit.static_power;
  file.byte_pj = fit.byte_pj;
  file.byte_clock_share = fit.byte_clock_share;
  file.cache_pj = fit.cache_pj;
  file.cache_clock_share = fit.cache_clock_share;
  file.loss_per_kw = fit.loss_per_kw;
  file.voltage = fit.voltage;
  for (const ProductType type : {ProductType::bf16, ProductType::fp8, ProductType::tf32}) {
    for (const ProductData data : {ProductData::numbers, ProductData::bits}) {
      const auto load = std::ranges::find(fit.loads, CurveLoad{.type = type, .data = data}, &LoadEnergy::load);
      if (load == fit.loads.end()) continue;
      file.operations.push_back(
          {.type = std::string(name(type)), .at_max_clock_pj = load->pj, .ops_per_cycle_sm = load->ops_per_cycle_sm});
      break;
    }
  }
  return file;
}

}  // namespace lowgear::curve
