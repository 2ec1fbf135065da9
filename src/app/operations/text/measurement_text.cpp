#include "app/operations/text/measurement_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "app/cli/terminal/table.h"
#include "base/core/formats/json.h"

namespace lowgear::operations {
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
      text += fmt::format("GPU {}: its energy is that of {:.3f} s of {:.3f} s: it could not be read all the time\n",
                          gpu.identity.pci_address, gpu.covered_s, gpu.time_s);
    }
    if (!gpu.problem.empty()) text += fmt::format("GPU {}: {}\n", gpu.identity.pci_address, gpu.problem);
  }
  return text;
}

}  // namespace lowgear::operations
