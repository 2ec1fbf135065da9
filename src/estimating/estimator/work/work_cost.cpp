#include "estimating/estimator/work/work_cost.h"

namespace lowgear::estimator {

WorkCost& WorkCost::operator+=(const WorkCost& other) {
  core_s += other.core_s;
  memory_s += other.memory_s;
  link_s += other.link_s;
  flops += other.flops;
  memory_bytes += other.memory_bytes;
  link_bytes += other.link_bytes;
  error_s += other.error_s;
  return *this;
}

WorkCost operator*(double factor, const WorkCost& cost) {
  return {.core_s = factor * cost.core_s,
          .memory_s = factor * cost.memory_s,
          .link_s = factor * cost.link_s,
          .flops = factor * cost.flops,
          .memory_bytes = factor * cost.memory_bytes,
          .link_bytes = factor * cost.link_bytes,
          .error_s = factor * cost.error_s};
}

WorkCost taking(const WorkCost& cost, double time_s) {
  const double factor = time_s / cost.time_s();
  WorkCost result = cost;
  result.core_s *= factor;
  result.memory_s *= factor;
  result.link_s *= factor;
  result.error_s *= factor;
  return result;
}

}  // namespace lowgear::estimator
