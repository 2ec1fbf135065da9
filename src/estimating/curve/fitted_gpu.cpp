#include <algorithm>

#include "estimating/curve/curve_fit.h"

namespace lowgear::curve {

std::size_t CurveFit::left_out() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(samples, [](const FittedSample& sample) { return !sample.left_out.empty(); }));
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
