#include "estimating/curve/curve_power.h"

#include <algorithm>
#include <cmath>

#include "base/core/units.h"
#include "estimating/curve/clock_by_rate.h"
#include "estimating/power/gpu_power.h"

namespace lowgear::curve {
namespace {

/// Rate of reads at which memory draws half of what it draws for being awake.
constexpr double kHalfAwake = 0.5;

}  // namespace

double awake_share(double tera_bytes) { return tera_bytes / (tera_bytes + kHalfAwake); }

PowerModel::Terms PowerModel::terms(std::size_t i) const {
  const CurveSample& sample = samples[i];
  const double last_s = std::max(1.0, samples.back().begin_s);
  Terms terms = {.static_time = sample.begin_s / last_s - 0.5,
                 .kelvin = sample.temperature_c - power::kReferenceC,
                 .clock = clocks[i] / max_mhz,
                 .tera_ops = sample.operations / sample.time_s / kTera,
                 .tera_bytes = sample.bytes / sample.time_s / kTera,
                 .tera_cache_bytes = sample.cache_bytes / sample.time_s / kTera};
  terms.v2 = v2_at(clocks[i]);
  const auto kind = std::ranges::find(kinds, kind_of(sample.load));
  if (sample.load.product_sms > 0 && kind != kinds.end()) terms.load = kLoads + (kind - kinds.begin());
  return terms;
}

double PowerModel::v2_at(double clock_mhz) const {
  double v2 = 0;
  for (const VoltageTable::Weight& weight : table.weights(clock_mhz)) {
    v2 += weight.weight * (weight.knot < 0 ? 1 : values[first_knot() + weight.knot]);
  }
  return v2;
}

double PowerModel::fixed_w(const Terms& terms) const {
  return values[kStatic] + values[kPerKelvin] * terms.kelvin + values[kDrift] * terms.static_time - values[kTree] +
         values[kByteFixed] * terms.tera_bytes + values[kAwake] * awake_share(terms.tera_bytes) +
         values[kCacheFixed] * terms.tera_cache_bytes;
}

double PowerModel::work_w(const Terms& terms) const {
  const double operations_w = terms.load > 0 ? values[terms.load] * terms.tera_ops : 0;
  return operations_w + values[kByteClocked] * terms.tera_bytes + values[kCacheClocked] * terms.tera_cache_bytes;
}

double PowerModel::fitted_w(const Terms& terms) const {
  const double work_w = this->work_w(terms) * terms.v2;
  return fixed_w(terms) + values[kTree] * terms.clock * terms.v2 + work_w + values[kLoss] * work_w * work_w / 1e3;
}

double PowerModel::fitted_w(std::size_t i) const { return fitted_w(terms(i)); }

double PowerModel::delivery(const Terms& terms) const { return 1 + 2 * values[kLoss] * work_w(terms) * terms.v2 / 1e3; }

double PowerModel::slope_w(const Terms& terms) const {
  return values[kTree] * terms.clock + work_w(terms) * delivery(terms);
}

Eigen::VectorXd PowerModel::gradient(std::size_t i) const {
  const Terms now = terms(i);
  Eigen::VectorXd row = Eigen::VectorXd::Zero(unknowns());
  row[kStatic] = 1;
  row[kPerKelvin] = now.kelvin;
  row[kDrift] = now.static_time;
  row[kTree] = now.clock * now.v2 - 1;
  row[kByteFixed] = now.tera_bytes;
  row[kByteClocked] = now.tera_bytes * now.v2 * delivery(now);
  row[kAwake] = awake_share(now.tera_bytes);
  row[kCacheFixed] = now.tera_cache_bytes;
  row[kCacheClocked] = now.tera_cache_bytes * now.v2 * delivery(now);
  row[kLoss] = std::pow(work_w(now) * now.v2, 2) / 1e3;
  if (now.load > 0) row[now.load] = now.tera_ops * now.v2 * delivery(now);
  for (const VoltageTable::Weight& weight : table.weights(clocks[i])) {
    if (weight.knot >= 0) row[first_knot() + weight.knot] = weight.weight * slope_w(now);
  }
  return row;
}

}  // namespace lowgear::curve
