#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "app/operations/text/machine_text.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::operations {
namespace {

using cli::ProgramResult;
using cli::run_lowgear;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// `lowgear monitor` on a machine without a GPU.
ProgramResult monitor(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "monitor");
  return run_lowgear(std::move(arguments), [] { ::setenv("LOWGEAR_NVML", "/no/such/library", 1); });
}

TEST(MonitorCommand, ChecksItsOutputBeforeTheCommandRuns) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal_of(monitor({"--out", folder / "none" / "x.json", "--", "touch", folder / "it_ran"})),
              HasSubstr("x.json: cannot be written: No such file or directory"));
  EXPECT_FALSE(std::filesystem::exists(folder / "it_ran"));
}

TEST(MonitorCommand, WritesItsOutput) {
  const TemporaryFolder folder;
  const ProgramResult result = monitor({"--out", folder / "x.json", "--", "sh", "-c", "exit 7"});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(parse_json(read_file(folder / "x.json"), "x.json")["exit_status"], 7);
}

TEST(MonitorCommand, LogsWhatItReads) {
  EXPECT_THAT(monitor({"--log-level", "debug", "--", "true"}).err, HasSubstr("monitor: reads 0 GPUs every 47 ms"));
  EXPECT_THAT(monitor({"--", "true"}).err, ::testing::Not(HasSubstr("monitor: reads")));
}

TEST(MonitorCommand, KeepsMeasurementAndStatusWhenItsOutputCannotBeWrittenAfterAll) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "gone");
  const ProgramResult result = monitor(
      {"--out", folder / "gone" / "x.json", "--", "sh", "-c", "rmdir " + (folder / "gone").string() + "; exit 7"});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.err, HasSubstr("sh: 0.")) << "the measurement";
  EXPECT_THAT(result.err, HasSubstr("x.json: cannot be written"));
  EXPECT_THAT(result.err, HasSubstr("in the output above"));
}

/// A GPU that drew 100 J in the time that it could be read, of 2 s.
measure::GpuMeasurement measured(double covered_s, std::optional<double> uncertainty_j) {
  measure::GpuMeasurement gpu;
  gpu.identity.pci_address = "0000:01:00.0";
  gpu.time_s = 2;
  gpu.covered_s = covered_s;
  gpu.energy_j = 100;
  gpu.energy_uncertainty_j = uncertainty_j;
  return gpu;
}

TEST(MonitorCommand, SaysWhyAnEnergyIsNotTheCounters) {
  measure::WindowMeasurement window{
      .name = "train", .time_s = 2, .simulated = false, .gpus = {measured(2, 8)}, .cpus = {}};
  window.gpus[0].source = measure::EnergySource::integrated_power;
  window.gpus[0].problem = "the energy counter shows 57 J in 2 s, and the power readings make 100 J: -43 %";
  window.cpus = {
      {.zone = "package-0", .energy_j = 80, .problem = ""},
      {.zone = "package-0/dram", .energy_j = {}, .problem = "energy_uj: the counter shows no energy for 2 s"}};
  const std::string text = measurement_text(window);
  EXPECT_THAT(text, HasSubstr("100.0 +-8.0 J"));
  EXPECT_THAT(text, HasSubstr("GPU 0000:01:00.0: " + window.gpus[0].problem));
  EXPECT_THAT(text, HasSubstr("CPU package-0: 80.0 J, 40.0 W\n"));
  EXPECT_THAT(text,
              HasSubstr("CPU package-0/dram: energy not known: energy_uj: the counter shows no energy for 2 s\n"));
  const Json json = measurement_json(window);
  EXPECT_EQ(json["gpus"][0]["energy_source"], "integrated power");
  EXPECT_EQ(json["gpus"][0]["problem"], window.gpus[0].problem);
  EXPECT_TRUE(json["cpus"][1]["energy_j"].is_null());
  EXPECT_EQ(json["cpus"][1]["problem"], window.cpus[1].problem);
}

TEST(MonitorCommand, SaysWhatItsTotalLeavesOut) {
  measure::WindowMeasurement window{
      .name = "train", .time_s = 2, .simulated = false, .gpus = {measured(2, 1.5)}, .cpus = {}};
  EXPECT_THAT(measurement_text(window), StartsWith("train: 2.000 s, 100.0 +-1.5 J on 1 GPU\n"));
  EXPECT_EQ(measurement_json(window)["gpu_energy_covers_all"], true);

  window.gpus = {measured(2, 1.5), measured(1, 1.5), measure::GpuMeasurement{}};
  EXPECT_THAT(measurement_text(window),
              StartsWith("train: 2.000 s, 200.0 +-3.0 J on 2 of 3 GPUs (1 not read all the time)\n"));
  EXPECT_THAT(measurement_text(window), HasSubstr("its energy covers 1.000 s of 2.000 s"));
  EXPECT_EQ(measurement_json(window)["gpu_energy_covers_all"], false);
  EXPECT_EQ(measurement_json(window)["gpus"][1]["covered_s"], 1);

  window.gpus = {measured(2, 1.5), measured(2, std::nullopt)};
  EXPECT_THAT(measurement_text(window), StartsWith("train: 2.000 s, 200.0 J on 2 GPUs (+- unknown for 1)\n"));
  EXPECT_FALSE(measurement_json(window).contains("gpu_energy_uncertainty_j"));
}

}  // namespace
}  // namespace lowgear::operations
