#include <optional>
#include <string>
#include <variant>

#include "agent/http/http_routes.h"

namespace lowgear::agent {
namespace {

Json to_json(const gpu::ThrottleReasons& reasons) {
  Json names = Json::array();
  if (reasons.power_cap()) names.push_back("power_cap");
  if (reasons.thermal()) names.push_back("thermal");
  if (reasons.hardware_slowdown()) names.push_back("hardware_slowdown");
  return names;
}

Json to_json(const GpuAssignment& assignment) {
  Json json = {{"uid", assignment.uid}, {"job", assignment.job}};
  if (!assignment.sluid.empty()) json["sluid"] = assignment.sluid;
  return json;
}

Json to_json(const gpu::PowerLimits& limits) {
  return {{"min_w", limits.min_w},
          {"max_w", limits.max_w},
          {"default_w", limits.default_w},
          {"current_w", limits.current_w},
          {"enforced_w", limits.enforced_w}};
}

Json to_json(const gpu::WorkloadPowerProfiles& profiles) {
  return {{"supported", gpu::names(profiles.supported)},
          {"requested", gpu::names(profiles.requested)},
          {"enforced", gpu::names(profiles.enforced)}};
}

Json to_json(const gpu::PowerSmoothing& smoothing) {
  return {{"enabled", smoothing.enabled},
          {"active_preset", or_null(smoothing.active_preset)},
          {"presets", or_null(smoothing.presets)},
          {"ceiling_w", or_null(smoothing.ceiling_w)},
          {"floor_w", or_null(smoothing.floor_w)},
          {"floor_percent", or_null(smoothing.floor_percent)},
          {"ramp_up_w_per_s", or_null(smoothing.ramp_up_w_per_s)},
          {"ramp_down_w_per_s", or_null(smoothing.ramp_down_w_per_s)},
          {"ramp_down_delay_ms", or_null(smoothing.ramp_down_delay_ms)},
          {"lifetime_left_percent", or_null(smoothing.lifetime_left_percent)}};
}

/// A document, or null where there is nothing to say.
template <typename Value>
Json document_or_null(const std::optional<Value>& value) {
  return value ? to_json(*value) : Json(nullptr);
}

}  // namespace

Json to_json(const GpuReading& reading) {
  Json json = {{"time_s", static_cast<double>(reading.time_ns) * 1e-9}};
  for (const gpu::GpuSensor& sensor : gpu::gpu_sensors()) {
    for (const gpu::GpuQuantity& quantity : sensor.quantities) {
      json[std::string(quantity.name)] =
          std::visit([&](const auto member) { return or_null(reading.*member); }, quantity.value);
    }
  }
  json["throttle_reasons"] = document_or_null(reading.throttle_reasons);
  return json;
}

Json to_json(const GpuStatus& gpu) {
  return {{"uuid", gpu.identity.uuid},
          {"index", gpu.identity.index},
          {"pci_address", gpu.identity.pci_address},
          {"name", gpu.identity.name},
          {"mig_enabled", gpu.identity.mig_enabled},
          {"counts_whole_module", gpu.identity.counts_whole_module},
          {"controlled", gpu.controlled},
          {"healthy", gpu.healthy},
          {"problem", gpu.problem.empty() ? Json(nullptr) : Json(gpu.problem)},
          {"energy_problem", gpu.energy_counter.problem.empty() ? Json(nullptr) : Json(gpu.energy_counter.problem)},
          {"lease", or_null(gpu.lease_id)},
          {"assigned_to", gpu.assignment ? to_json(*gpu.assignment) : Json(nullptr)},
          {"clocks",
           {{"state", std::string(name(gpu.clock_state))},
            {"requested_min_mhz", or_null(gpu.requested_min_mhz)},
            {"requested_max_mhz", or_null(gpu.requested_max_mhz)},
            {"writes", gpu.clock_writes},
            {"write_errors", gpu.clock_write_errors},
            {"late_units", gpu.late_units}}},
          {"power_limits", document_or_null(gpu.power_limits)},
          {"persistence_mode", or_null(gpu.persistence_mode)},
          {"workload_power_profiles", document_or_null(gpu.workload_power_profiles)},
          {"power_smoothing", document_or_null(gpu.power_smoothing)},
          {"reading", to_json(gpu.reading)},
          {"reading_age_s", or_null(gpu.reading_age_s)}};
}

Json to_json(const UnattendedGpu& gpu) {
  return {{"gpu", gpu.name.empty() ? Json(nullptr) : Json(gpu.name)},
          {"configured", gpu.configured},
          {"left_changed", gpu.left_changed},
          {"problem", gpu.problem}};
}

Json to_json(const LeaseStatus& lease) {
  return {{"id", lease.id},
          {"gpu_uuid", lease.gpu_uuid},
          {"uid", lease.owner.uid},
          {"gid", lease.owner.gid},
          {"pid", lease.owner.pid},
          {"other_pids", lease.other_pids},
          {"user", lease.user},
          {"job", lease.job},
          {"rank", or_null(lease.rank)},
          {"has_plan", lease.has_plan},
          {"suspended", lease.suspended},
          {"age_s", lease.age_s},
          {"units", lease.units},
          {"lost", lease.lost},
          {"unplanned_units", lease.unplanned_units}};
}

Json answer(const Service& service) { return {{"simulated", service.simulated()}, {"dry_run", service.dry_run()}}; }

}  // namespace lowgear::agent
