#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/terminal/help.h"
#include "app/operations/commands/verbs.h"
#include "app/operations/text/machine_text.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/log.h"
#include "hardware/gpu/nvml_survey.h"
#include "hardware/gpu/rapl.h"
#include "hardware/measure/command.h"
#include "hardware/measure/energy_meter.h"

namespace lowgear::operations {
namespace {

struct MonitorArguments {
  std::vector<std::string> command;
  std::vector<std::string> gpus;
  std::string out;
  double period_ms = 47;
  bool json = false;
};

/// The GPUs of this machine; none, with a warning, where there is no driver: time and CPU energy are measured all the
/// same.
class NoGpus final : public gpu::GpuSystem {
 public:
  [[nodiscard]] const std::vector<std::unique_ptr<gpu::Gpu>>& gpus() const override { return gpus_; }
  [[nodiscard]] const std::string& driver_version() const override { return version_; }
  [[nodiscard]] bool simulated() const override { return false; }

 private:
  std::vector<std::unique_ptr<gpu::Gpu>> gpus_;
  std::string version_;
};

std::unique_ptr<gpu::GpuSystem> open_gpus(const MonitorArguments& arguments, cli::Console& console) {
  try {
    std::unique_ptr<gpu::GpuSystem> system = gpu::open_nvml();
    for (const std::string& problem : system->problems()) console.warn(problem);
    return system;
  } catch (const gpu::GpuError& error) {
    if (!arguments.gpus.empty()) throw InputError(error.what());
    console.warn(fmt::format("no GPU is measured: {}", error.what()));
    return std::make_unique<NoGpus>();
  }
}

std::vector<gpu::Gpu*> chosen_gpus(const gpu::GpuSystem& system, const std::vector<std::string>& names) {
  std::vector<gpu::Gpu*> gpus;
  for (const std::string& name : names) gpus.push_back(&find_gpu(system, name));
  if (!names.empty()) return gpus;
  for (const std::unique_ptr<gpu::Gpu>& gpu : system.gpus()) gpus.push_back(gpu.get());
  return gpus;
}

std::string reading_text(const measure::GpuSample& sample) {
  const auto value = [](const char* name, const auto& quantity, const char* unit) {
    return quantity ? fmt::format(", {} {} {}", name, *quantity, unit) : fmt::format(", no {}", name);
  };
  return fmt::format("{:.3f} s{}{}{}{}{}", sample.time_s, value("energy counter", sample.energy_j, "J"),
                     value("power", sample.power_w, "W"), value("SM clock", sample.sm_clock_mhz, "MHz"),
                     sample.problem.empty() ? "" : "; ", sample.problem);
}

measure::EnergyMeterOptions meter_options(const MonitorArguments& arguments, std::vector<std::string> uuids) {
  measure::EnergyMeterOptions options{.period_s = arguments.period_ms / 1e3};
  if (!logs_debug()) return options;
  log_debug(fmt::format("monitor: reads {} GPUs every {} ms", uuids.size(), arguments.period_ms));
  options.observer = [uuids = std::move(uuids)](std::size_t gpu, const measure::GpuSample& sample) {
    log_debug(fmt::format("monitor: {}: {}", uuids.at(gpu), reading_text(sample)));
  };
  return options;
}

void report(const MonitorArguments& arguments, const measure::WindowMeasurement& measurement,
            const measure::CommandResult& result, cli::Console& console) {
  Json json = measurement_json(measurement);
  json["exit_status"] = result.shell_status();
  if (arguments.json) {
    console.print_json(json);
  } else {
    console.print_aside(measurement_text(measurement));
  }
  if (arguments.out.empty()) return;
  // The status that counts is the command's.
  try {
    write_file_atomically(arguments.out, json.dump(2) + "\n");
  } catch (const Error& error) {
    console.warn(fmt::format("{}; the measurement is only in the output above", error.what()));
  }
}

cli::ExitCode run_monitor(const MonitorArguments& arguments, cli::Console& console) {
  if (!arguments.out.empty()) check_writable(arguments.out);
  measure::SignalGuard guard(arguments.command);
  const std::unique_ptr<gpu::GpuSystem> system = open_gpus(arguments, console);
  const std::vector<gpu::Gpu*> gpus = chosen_gpus(*system, arguments.gpus);
  std::vector<std::string> uuids;
  for (const gpu::Gpu* const gpu : gpus) uuids.push_back(gpu->identity().uuid);
  measure::EnergyMeter meter(*system, gpus, meter_options(arguments, std::move(uuids)), std::make_unique<gpu::Rapl>());
  const measure::EnergyMeter::WindowId window = meter.begin(arguments.command.front());
  const measure::CommandResult result = run_command(
      arguments.command,
      arguments.json ? measure::CommandOutput::standard_error : measure::CommandOutput::standard_output, guard);
  report(arguments, meter.end(window), result, console);
  return static_cast<cli::ExitCode>(result.shell_status());
}

}  // namespace

cli::VerbAction declare_monitor(CLI::App& app) {
  auto arguments = std::make_shared<MonitorArguments>();
  app.add_option("command", arguments->command, "Program to run, after --, with its arguments")
      ->required()
      ->type_name(cli::kProgramType);
  app.add_option("--gpu", arguments->gpus, "GPU to measure, by UUID or PCI address; may be repeated (default: all)")
      ->type_name("GPU");
  cli::add_quantity(app, "--period", Unit::millisecond, {.low = 5, .high = 1000}, cli::into(arguments->period_ms),
                    "Time between readings of the GPUs, in ms (default 47)");
  app.add_option("--out", arguments->out, "Also write the measurement to this file, as JSON")->type_name("FILE");
  cli::add_json_flag(app, arguments->json);
  return [arguments](cli::Console& console) { return run_monitor(*arguments, console); };
}

}  // namespace lowgear::operations
