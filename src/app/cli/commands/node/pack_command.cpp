#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "app/cli/arguments/options.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/text/packing_text.h"
#include "base/core/files/file.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "planning/sharing/packing.h"

namespace lowgear::cli {
namespace {

constexpr auto kModes = std::to_array<std::string_view>({"mps", "time-slicing"});
constexpr auto kFreed = std::to_array<std::string_view>({"idle", "used"});
constexpr auto kComputeModes = std::to_array<std::string_view>({"default", "exclusive-process", "prohibited"});
constexpr NumberRange<double> kMemoryRange{1, 1e4};
constexpr NumberRange<double> kPowerRange{0, 1e4};
constexpr NumberRange<double> kSlowdownRange{0, 300};
constexpr double kPctPerShare = 100;
constexpr double kBytesPerGib = 1024.0 * 1024 * 1024;

struct PackArguments {
  std::string table;
  std::string gpu;
  std::optional<double> memory_gib;
  std::optional<double> idle_w;
  std::optional<double> awake_w;
  std::optional<double> limit_w;
  sharing::ComputeMode compute_mode = sharing::ComputeMode::shared;
  bool mig = false;
  sharing::PackOptions options;
  bool json = false;
};

sharing::GpuFacts gpu_facts(const PackArguments& arguments, const estimator::GpuModel& model) {
  return {.memory_gib = arguments.memory_gib.value_or(model.memory_bytes / kBytesPerGib),
          .idle_w = arguments.idle_w.value_or(model.power.idle_w),
          .awake_w = arguments.awake_w.value_or(model.power.static_w),
          .limit_w = arguments.limit_w.value_or(model.power.limit_w),
          .compute_mode = arguments.compute_mode,
          .mig = arguments.mig};
}

sharing::JobTable load_table(const std::filesystem::path& path) {
  const auto measurement = [&path](const std::string& file) {
    const std::filesystem::path place = path.parent_path() / file;
    return sharing::read_monitored_load(read_file(place), place.string());
  };
  return sharing::read_job_table(read_file(path), path.string(), measurement);
}

ExitCode run_pack(const PackArguments& arguments, Console& console) {
  PackingReport report;
  const estimator::GpuModel model = estimator::named_gpu(arguments.gpu);
  report.table = load_table(arguments.table);
  report.gpu_name = model.name;
  report.gpu = gpu_facts(arguments, model);
  report.options = arguments.options;
  report.packing = pack_jobs(report.table.jobs, report.gpu, report.options);
  if (arguments.json) {
    console.print_json(packing_json(report));
  } else {
    console.print(packing_text(report));
  }
  return report.packing.refused.empty() ? ExitCode::ok : ExitCode::failed;
}

void add_gpu_options(CLI::App& app, PackArguments& arguments) {
  app.add_option("--gpu", arguments.gpu, "GPU of the node, by the names of lowgear estimate: its memory and power")
      ->type_name("NAME")
      ->required();
  add_number(app, "--gpu-memory", kMemoryRange, into(arguments.memory_gib), "Memory of a GPU instead, in GiB")
      ->type_name("GIB");
  add_number(app, "--idle-power", kPowerRange, into(arguments.idle_w),
             "Power of a GPU that no process uses instead, in W")
      ->type_name("W");
  add_number(app, "--awake-power", kPowerRange, into(arguments.awake_w),
             "Power of a GPU with a process and no kernel instead, in W")
      ->type_name("W");
  add_number(app, "--power-limit", kPowerRange, into(arguments.limit_w), "Power limit of a GPU instead, in W")
      ->type_name("W");
  add_choice(
      app, "--compute-mode", kComputeModes,
      [&arguments](std::size_t place) { arguments.compute_mode = static_cast<sharing::ComputeMode>(place); },
      "Compute mode of the GPUs, as lowgear doctor shows it");
  app.add_flag("--mig", arguments.mig, "The GPUs are in MIG mode, as lowgear doctor shows it");
}

void add_sharing_options(CLI::App& app, sharing::PackOptions& options) {
  add_choice(
      app, "--by", kModes,
      [&options](std::size_t place) {
        options.mode = place == 0 ? sharing::SharingMode::mps : sharing::SharingMode::time_slicing;
      },
      "How processes share a GPU (default mps)");
  add_choice(
      app, "--freed", kFreed,
      [&options](std::size_t place) {
        options.freed = place == 0 ? sharing::FreedGpus::idle : sharing::FreedGpus::used;
      },
      "What becomes of GPUs that are not needed any more: they draw their idle power (idle, the default), or are "
      "switched off or used by other work (used)");
  add_whole_number(app, "--jobs-per-gpu", {2, sharing::kMaxJobsPerGpu}, into(options.max_jobs_per_gpu),
                   "Most jobs that share a GPU (default 2)")
      ->type_name("N");
  add_number(
      app, "--max-slowdown", kSlowdownRange, [&options](double pct) { options.max_slowdown = pct / kPctPerShare; },
      "Largest predicted slowdown of a job, in per cent (default 5)")
      ->type_name("PCT");
  add_number(
      app, "--margin", kSlowdownRange, [&options](double pct) { options.margin = pct / kPctPerShare; },
      "What sharing may cost beyond the model, in per cent; part of the upper bound (default 43 for mps, 5 for "
      "time-slicing)")
      ->type_name("PCT");
  add_number(app, "--reserve", {0, 1e4}, into(options.reserve_gib),
             "Memory of each GPU that stays free, in GiB (default 1)")
      ->type_name("GIB");
}

}  // namespace

VerbAction declare_pack(CLI::App& app) {
  auto arguments = std::make_shared<PackArguments>();
  app.add_option(
         "table", arguments->table,
         "CSV with a row per job: job, memory_gib, and measurement (a file of lowgear monitor --out) or busy_pct, "
         "power_w and gpus; optional sm_active_pct, iteration_s")
      ->type_name("FILE")
      ->required();
  add_gpu_options(app, *arguments);
  add_sharing_options(app, arguments->options);
  add_json_flag(app, arguments->json);
  return [arguments](Console& console) { return run_pack(*arguments, console); };
}

}  // namespace lowgear::cli
