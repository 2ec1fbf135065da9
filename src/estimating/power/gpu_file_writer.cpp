#include "estimating/power/gpu_file_writer.h"

#include <cmath>

namespace lowgear::power {
namespace {

/// Digits beyond the sixth are noise.
double rounded(double value) {
  if (value == 0) return 0;
  const double scale = std::pow(10, 5 - std::floor(std::log10(std::fabs(value))));
  return std::round(value * scale) / scale;
}

Json bytes_json(const Estimated& pj, const Estimated& clock_share) {
  return {{"pj_per_byte", rounded(pj.value)},
          {"error", rounded(pj.error)},
          {"clock_share", rounded(clock_share.value)},
          {"clock_share_error", rounded(clock_share.error)}};
}

}  // namespace

Json to_json(const GpuFile& file) {
  const GpuFile::StaticPower& power = file.static_power;
  Json json = {{"format", "lowgear.gpu/1"},
               {"gpu", file.gpu},
               {"driver", file.driver},
               {"date", file.date},
               {"simulated", file.simulated},
               {"limit_w", file.limit_w},
               {"max_clock_mhz", file.max_clock_mhz},
               {"multiprocessors", file.multiprocessors}};
  json["static_w"] = {{"value", rounded(power.at_reference_w.value)},
                      {"error", rounded(power.at_reference_w.error)},
                      {"temperature_c", power.reference_c},
                      {"per_k", rounded(power.per_k_w.value)},
                      {"per_k_error", rounded(power.per_k_w.error)},
                      {"clock_tree", rounded(power.clock_tree_w.value)},
                      {"clock_tree_error", rounded(power.clock_tree_w.error)},
                      {"clock_tree_assumed", power.clock_tree_assumed}};
  json["operations"] = Json::array();
  for (const GpuFile::OperationEnergy& operation : file.operations) {
    json["operations"].push_back({{"type", operation.type},
                                  {"pj", rounded(operation.at_max_clock_pj.value)},
                                  {"error", rounded(operation.at_max_clock_pj.error)},
                                  {"ops_per_cycle_sm", rounded(operation.ops_per_cycle_sm)}});
  }
  json["memory"] = bytes_json(file.byte_pj, file.byte_clock_share);
  json["cache"] = bytes_json(file.cache_pj, file.cache_clock_share);
  json["delivery"] = {{"loss_per_kw", rounded(file.loss_per_kw.value)}, {"error", rounded(file.loss_per_kw.error)}};
  json["voltage"] = {{"measured_from_mhz", rounded(file.voltage.measured_from_mhz())}, {"points", Json::array()}};
  for (const VoltagePoint& point : file.voltage.points()) {
    json["voltage"]["points"].push_back({{"clock_mhz", rounded(point.clock_mhz)},
                                         {"relative_v2", rounded(point.relative_v2)},
                                         {"error", rounded(point.error)}});
  }
  return json;
}

}  // namespace lowgear::power
