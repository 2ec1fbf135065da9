#include "app/operations/text/machine_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/terminal/table.h"
#include "app/cli/text/profile_text.h"
#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "hardware/gpu/gpu.h"

namespace lowgear::operations {
namespace {

constexpr std::size_t kLineLimit = 1000;  ///< characters of a finding, some of which are others' words

const gpu::GpuFeatureStatus& status_of(const gpu::GpuSurvey& gpu, gpu::GpuFeature feature) {
  return gpu.features[static_cast<std::size_t>(feature)];
}

Json smoothing_json(const gpu::PowerSmoothing& smoothing) {
  return {{"enabled", smoothing.enabled},          {"active_preset", or_null(smoothing.active_preset)},
          {"presets", or_null(smoothing.presets)}, {"ceiling_w", or_null(smoothing.ceiling_w)},
          {"floor_w", or_null(smoothing.floor_w)}, {"lifetime_left_percent", or_null(smoothing.lifetime_left_percent)}};
}

Json gpu_json(const gpu::GpuSurvey& gpu) {
  Json json = {{"index", gpu.identity.index},
               {"uuid", gpu.identity.uuid},
               {"pci_address", gpu.identity.pci_address},
               {"name", gpu.identity.name},
               {"mig", gpu.identity.mig_enabled},
               {"compute_mode", gpu.compute_mode ? Json(std::string(name(*gpu.compute_mode))) : Json(nullptr)},
               {"counts_whole_module", gpu.identity.counts_whole_module},
               {"supported_sm_clocks_mhz", gpu.supported_sm_clocks_mhz}};
  if (gpu.persistence_mode) json["persistence_mode"] = *gpu.persistence_mode;
  if (gpu.power_limits) {
    const gpu::PowerLimits& limits = *gpu.power_limits;
    json["power_limits_w"] = {{"min", limits.min_w},
                              {"max", limits.max_w},
                              {"default", limits.default_w},
                              {"current", limits.current_w},
                              {"enforced", limits.enforced_w}};
  }
  if (const auto& profiles = gpu.workload_power_profiles) {
    json["workload_power_profiles"] = {{"supported", gpu::names(profiles->supported)},
                                       {"requested", gpu::names(profiles->requested)},
                                       {"enforced", gpu::names(profiles->enforced)}};
  }
  if (gpu.power_smoothing) json["power_smoothing"] = smoothing_json(*gpu.power_smoothing);
  for (int index = 0; index < gpu::kGpuFeatureCount; ++index) {
    const auto feature = static_cast<gpu::GpuFeature>(index);
    const gpu::GpuFeatureStatus& status = status_of(gpu, feature);
    Json& entry = json["features"][std::string(name(feature))];
    entry["works"] = status.works;
    if (status.works) continue;
    entry["code"] = std::string(name(status.code));
    entry["reason"] = status.reason;
  }
  return json;
}

Json framework_json(const doctor::FrameworkFacts& framework) {
  return {
      {"name", framework.name},     {"version", framework.version},   {"verdict", std::string(name(framework.verdict))},
      {"reason", framework.reason}, {"observed", framework.observed}, {"decorated", framework.decorated}};
}

Json python_json(const doctor::PythonFacts& python) {
  Json json = {{"program", python.program},
               {"problem", python.problem},
               {"attaching_is_off", python.attaching_is_off},
               {"report", nullptr}};
  if (!python.report) return json;
  const doctor::PythonReport& report = *python.report;
  Json frameworks = Json::array();
  for (const doctor::FrameworkFacts& framework : report.frameworks) frameworks.push_back(framework_json(framework));
  json["report"] = {{"executable", report.executable},
                    {"version", report.version},
                    {"hook", report.hook},
                    {"importable", report.importable},
                    {"library", {{"path", report.library}, {"problem", report.library_problem}}},
                    {"checked", report.checked},
                    {"not_checked", report.not_checked},
                    {"frameworks", frameworks}};
  return json;
}

/// Null where it was not asked for.
Json switch_latencies_json(const doctor::MachineFacts& facts) {
  if (!facts.switch_latencies) return nullptr;
  Json list = Json::array();
  for (const doctor::GpuSwitchLatency& measured : *facts.switch_latencies) {
    Json json = measured.latency ? cli::switch_latency_json(*measured.latency) : Json{{"problem", measured.problem}};
    json["uuid"] = measured.uuid;
    list.push_back(std::move(json));
  }
  return list;
}

Json nvml_json(const doctor::MachineFacts& facts) {
  if (!facts.nvml) {
    return {{"found", false}, {"code", std::string(name(facts.nvml_code))}, {"problem", facts.nvml_problem}};
  }
  Json gpus = Json::array();
  for (const gpu::GpuSurvey& gpu : facts.nvml->gpus) gpus.push_back(gpu_json(gpu));
  return {{"found", true},
          {"library", facts.nvml->library_path},
          {"driver_version", facts.nvml->driver_version},
          {"simulated", facts.nvml->simulated},
          {"gpus", gpus},
          {"problems", facts.nvml->problems}};
}

std::string_view name(doctor::AgentReach reach) {
  switch (reach) {
    case doctor::AgentReach::answers:
      return "answers";
    case doctor::AgentReach::absent:
      return "absent";
    case doctor::AgentReach::not_socket:
      return "not_socket";
    case doctor::AgentReach::refused:
      return "refused";
    case doctor::AgentReach::forbidden:
      return "forbidden";
    case doctor::AgentReach::failed:
      break;
  }
  return "failed";
}

std::string_view name(doctor::MpsDaemon daemon) {
  switch (daemon) {
    case doctor::MpsDaemon::absent:
      return "absent";
    case doctor::MpsDaemon::runs:
      return "runs";
    case doctor::MpsDaemon::not_seen:
      return "not_seen";
    case doctor::MpsDaemon::forbidden:
      break;
  }
  return "forbidden";
}

std::string_view name(doctor::GreenContexts contexts) {
  switch (contexts) {
    case doctor::GreenContexts::no_library:
      return "no_library";
    case doctor::GreenContexts::missing:
      return "missing";
    case doctor::GreenContexts::there:
      break;
  }
  return "there";
}

struct Mark {
  std::string_view text;
  std::string_view colour;  ///< of ECMA-48
};

Mark mark_of(doctor::FindingLevel level) {
  switch (level) {
    case doctor::FindingLevel::works:
      return {"ok", "32"};
    case doctor::FindingLevel::limited:
      return {"limited", "33"};
    case doctor::FindingLevel::broken:
      break;
  }
  return {"BROKEN", "31"};
}

}  // namespace

std::string diagnosis_text(const std::vector<doctor::Finding>& findings, Colours colours) {
  constexpr std::size_t kMarkWidth = 9;
  constexpr std::size_t kTopicWidth = 12;
  std::string text;
  for (const doctor::Finding& finding : findings) {
    const Mark mark = mark_of(finding.level);
    const std::string padded = fmt::format("{:<{}}", mark.text, kMarkWidth);
    text += colours == Colours::on ? fmt::format("\x1b[{}m{}\x1b[0m", mark.colour, padded) : padded;
    text += fmt::format("{:<{}}{}\n", finding.topic, kTopicWidth, printable(finding.text, kLineLimit));
    if (finding.fix.empty()) continue;
    // A remedy of several findings stands at the first.
    const auto first = std::ranges::find(findings, finding.fix, &doctor::Finding::fix);
    const std::string fix = &*first == &finding ? finding.fix : fmt::format("as for {}, above", first->topic);
    text += fmt::format("{:{}}-> {}\n", "", kMarkWidth + kTopicWidth, fix);
  }
  if (can_measure(findings)) {
    const bool agent_answers = std::ranges::any_of(findings, [](const doctor::Finding& finding) {
      return finding.topic == "agent" && finding.level == doctor::FindingLevel::works;
    });
    return text + (agent_answers ? "\nLowgear can measure and set clocks here.\n" : "\nLowgear can measure here.\n");
  }
  std::string broken;
  for (const doctor::Finding& finding : findings) {
    if (finding.level != doctor::FindingLevel::broken) continue;
    broken += fmt::format("{}{}", broken.empty() ? "" : ", ", finding.topic);
  }
  return text + fmt::format("\nLowgear cannot measure here because of: {}; the BROKEN lines say why.\n", broken);
}

Json sharing_json(const doctor::SharingFacts& sharing) {
  return {{"mps",
           {{"program", sharing.mps_program},
            {"pipe_directory", sharing.mps_pipe_directory},
            {"daemon", std::string(name(sharing.mps))}}},
          {"green_contexts", std::string(name(sharing.green_contexts))}};
}

Json diagnosis_json(const doctor::MachineFacts& facts, const doctor::PythonFacts& python,
                    const std::vector<doctor::Finding>& findings) {
  Json list = Json::array();
  for (const doctor::Finding& finding : findings) {
    list.push_back({{"level", std::string(name(finding.level))},
                    {"topic", finding.topic},
                    {"text", finding.text},
                    {"fix", finding.fix}});
  }
  Json kernel = {{"release", facts.kernel_release}, {"pidfd", facts.pidfd}, {"sealed_memory", facts.sealed_memory}};
  if (facts.memory_lock_bytes) kernel["memory_lock_bytes"] = *facts.memory_lock_bytes;
  return {{"can_measure", can_measure(findings)},
          {"nvml", nvml_json(facts)},
          {"nvidia_pci_gpus", facts.nvidia_pci_gpus},
          {"kernel_module_version", facts.kernel_module_version},
          {"root", facts.root},
          {"cap_sys_admin", facts.cap_sys_admin},
          {"container", facts.container},
          {"cpu_energy", {{"zones", facts.rapl_zones}, {"problem", facts.rapl_problem}}},
          {"switch_latencies", switch_latencies_json(facts)},
          {"agent", {{"socket", facts.agent_socket}, {"state", std::string(name(facts.agent))}}},
          {"kernel", kernel},
          {"python", python_json(python)},
          {"findings", list}};
}

namespace {

Json gpu_json(const measure::GpuMeasurement& gpu) {
  Json json = {{"uuid", gpu.identity.uuid}, {"pci_address", gpu.identity.pci_address}, {"name", gpu.identity.name}};
  if (gpu.energy_j) json["energy_source"] = std::string(name(gpu.source));
  set_if(json, "energy_j", gpu.energy_j);
  set_if(json, "energy_uncertainty_j", gpu.energy_uncertainty_j);
  json["covered_s"] = gpu.covered_s;
  set_if(json, "integrated_power_j", gpu.integrated_power_j);
  set_if(json, "mean_power_w", gpu.mean_power_w);
  set_if(json, "peak_power_w", gpu.peak_power_w);
  set_if(json, "mean_sm_clock_mhz", gpu.mean_sm_clock_mhz);
  set_if(json, "min_sm_clock_mhz", gpu.min_sm_clock_mhz);
  set_if(json, "max_sm_clock_mhz", gpu.max_sm_clock_mhz);
  set_if(json, "max_temperature_c", gpu.max_temperature_c);
  set_if(json, "mean_utilisation_percent", gpu.mean_utilisation_percent);
  set_if(json, "power_capped_s", gpu.power_capped_s);
  set_if(json, "thermally_throttled_s", gpu.thermally_throttled_s);
  json["readings"] = gpu.readings;
  if (!gpu.problem.empty()) json["problem"] = gpu.problem;
  return json;
}

template <typename Value>
std::string cell(const std::optional<Value>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

std::string energy_cell(const measure::GpuMeasurement& gpu) {
  if (!gpu.energy_j) return "-";
  if (!gpu.energy_uncertainty_j) return fmt::format("{:.1f} J", *gpu.energy_j);
  return fmt::format("{:.1f} +-{:.1f} J", *gpu.energy_j, *gpu.energy_uncertainty_j);
}

/// `, 410.7 J on 2 GPUs (+- unknown for 1, 1 not read all the time)`; empty when no GPU reported.
std::string total_text(const measure::WindowMeasurement& measurement) {
  const std::optional<double> energy_j = measurement.gpu_energy_j();
  if (!energy_j) return "";
  const auto count = [&](const auto& is) { return std::ranges::count_if(measurement.gpus, is); };
  const auto without_energy = count([](const measure::GpuMeasurement& gpu) { return !gpu.energy_j; });
  const auto without_error =
      count([](const measure::GpuMeasurement& gpu) { return gpu.energy_j && !gpu.energy_uncertainty_j; });
  const auto partly_read = count([](const measure::GpuMeasurement& gpu) { return gpu.energy_j && !gpu.covers_all(); });
  const auto gpus = static_cast<std::ptrdiff_t>(measurement.gpus.size());
  const std::optional<double> uncertainty_j = measurement.gpu_energy_uncertainty_j();
  std::vector<std::string> remarks;
  if (without_error > 0) remarks.push_back(fmt::format("+- unknown for {}", without_error));
  if (partly_read > 0) remarks.push_back(fmt::format("{} not read all the time", partly_read));
  return fmt::format(", {:.1f}{} J on {}{} {}GPU{}{}", *energy_j,
                     uncertainty_j ? fmt::format(" +-{:.1f}", *uncertainty_j) : "",
                     without_energy > 0 ? fmt::format("{} of ", gpus - without_energy) : "", gpus,
                     measurement.simulated ? "simulated " : "", gpus == 1 ? "" : "s",
                     remarks.empty() ? "" : fmt::format(" ({})", fmt::join(remarks, ", ")));
}

std::string throttled_cell(const measure::GpuMeasurement& gpu, double time_s) {
  if (!gpu.power_capped_s || time_s <= 0) return "-";
  return fmt::format("{:.0f} % power, {:.0f} % heat", 100 * *gpu.power_capped_s / time_s,
                     100 * gpu.thermally_throttled_s.value_or(0) / time_s);
}

std::string gpu_table(const measure::WindowMeasurement& measurement) {
  cli::Table table({{"GPU", cli::Table::Align::left},
                    {"model", cli::Table::Align::left},
                    {"energy"},
                    {"mean power"},
                    {"peak"},
                    {"SM clock"},
                    {"hottest"},
                    {"busy"},
                    {"held back by"}});
  for (const measure::GpuMeasurement& gpu : measurement.gpus) {
    table.add_row({gpu.identity.pci_address, gpu.identity.name, energy_cell(gpu), cell(gpu.mean_power_w, "{:.1f} W"),
                   cell(gpu.peak_power_w, "{:.0f} W"), cell(gpu.mean_sm_clock_mhz, "{:.0f} MHz"),
                   cell(gpu.max_temperature_c, "{} C"), cell(gpu.mean_utilisation_percent, "{:.0f} %"),
                   throttled_cell(gpu, measurement.time_s)});
  }
  return table.text();
}

}  // namespace

Json measurement_json(const measure::WindowMeasurement& measurement) {
  Json json = {{"name", measurement.name},
               {"time_s", measurement.time_s},
               {"simulated", measurement.simulated},
               {"gpus", Json::array()},
               {"cpus", Json::array()}};
  for (const measure::GpuMeasurement& gpu : measurement.gpus) json["gpus"].push_back(gpu_json(gpu));
  for (const measure::CpuMeasurement& cpu : measurement.cpus) {
    json["cpus"].push_back({{"zone", cpu.zone}, {"energy_j", or_null(cpu.energy_j)}});
    if (!cpu.problem.empty()) json["cpus"].back()["problem"] = cpu.problem;
  }
  if (const std::optional<double> energy_j = measurement.gpu_energy_j()) {
    json["gpu_energy_j"] = *energy_j;
    json["gpu_energy_covers_all"] = measurement.gpu_energy_covers_all();
    set_if(json, "gpu_energy_uncertainty_j", measurement.gpu_energy_uncertainty_j());
  }
  return json;
}

std::string measurement_text(const measure::WindowMeasurement& measurement) {
  std::string text = fmt::format("{}: {:.3f} s", measurement.name, measurement.time_s);
  text += total_text(measurement) + '\n';
  if (!measurement.gpus.empty()) text += gpu_table(measurement);
  for (const measure::CpuMeasurement& cpu : measurement.cpus) {
    if (!cpu.energy_j) {
      text += fmt::format("CPU {}: energy not known: {}\n", cpu.zone, cpu.problem);
      continue;
    }
    text += fmt::format("CPU {}: {:.1f} J, {:.1f} W\n", cpu.zone, *cpu.energy_j,
                        measurement.time_s > 0 ? *cpu.energy_j / measurement.time_s : 0);
  }
  for (const measure::GpuMeasurement& gpu : measurement.gpus) {
    if (gpu.energy_j && !gpu.covers_all()) {
      text += fmt::format("GPU {}: its energy covers {:.3f} s of {:.3f} s, as not every reading succeeded\n",
                          gpu.identity.pci_address, gpu.covered_s, gpu.time_s);
    }
    if (!gpu.problem.empty()) text += fmt::format("GPU {}: {}\n", gpu.identity.pci_address, gpu.problem);
  }
  return text;
}

}  // namespace lowgear::operations
