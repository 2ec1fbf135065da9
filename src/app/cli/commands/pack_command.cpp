#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/commands/verbs.h"
#include "app/cli/terminal/table.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "planning/sharing/packing.h"

namespace lowgear::cli {
namespace {

/// Inputs of a packing, for its texts.
struct PackingReport {
  sharing::JobTable table;
  std::string gpu_name;
  sharing::GpuFacts gpu;
  sharing::PackOptions options;
  sharing::Packing packing;
};

using sharing::Bounded;
using sharing::Group;
using sharing::JobLoad;
using sharing::Slowdown;

constexpr double kPctPerShare = 100;

double slower_pct(double slowdown) { return kPctPerShare * (slowdown - 1); }

std::vector<std::string> names_of(const PackingReport& report, const std::vector<std::size_t>& jobs) {
  std::vector<std::string> names;
  names.reserve(jobs.size());
  for (const std::size_t job : jobs) names.push_back(report.table.jobs[job].name);
  return names;
}

std::string percent_cell(double value) { return fmt::format("{:.1f} %", value); }

std::string iteration_cell(const JobLoad& job, const Slowdown& slowdown) {
  return job.iteration_s ? fmt::format("{:.4g}", *job.iteration_s * slowdown.predicted) : "-";
}

void add_group(const PackingReport& report, std::size_t number, Table& table) {
  const Group& group = report.packing.groups[number];
  const bool shared = group.jobs.size() > 1;
  for (std::size_t i = 0; i < group.jobs.size(); ++i) {
    const JobLoad& job = report.table.jobs[group.jobs[i]];
    const Slowdown& slowdown = group.slowdowns[i];
    const bool first = i == 0;
    table.add_row(
        {first ? std::to_string(number + 1) : "", first ? std::to_string(group.gpus) : "", job.name,
         percent_cell(kPctPerShare * job.busy), job.sm_active ? percent_cell(kPctPerShare * *job.sm_active) : "-",
         fmt::format("{:.1f}", job.memory_gib), shared ? fmt::format("+{:.1f} %", slower_pct(slowdown.predicted)) : "-",
         shared ? fmt::format("+{:.1f} to +{:.1f} %", slower_pct(slowdown.low), slower_pct(slowdown.high)) : "",
         iteration_cell(job, slowdown), first && shared ? fmt::format("{:.1f} W", group.saved_w.predicted) : ""});
  }
}

std::string groups_table(const PackingReport& report) {
  Table table({{"group"},
               {"GPUs"},
               {"job", Table::Align::left},
               {"busy"},
               {"SMs"},
               {"GiB"},
               {"slower"},
               {"bounds"},
               {"iteration s"},
               {"saved"}});
  for (std::size_t number = 0; number < report.packing.groups.size(); ++number) add_group(report, number, table);
  return table.text();
}

double share_pct(double part, double whole) { return whole > 0 ? kPctPerShare * part / whole : 0; }

std::string freed_text(const PackingReport& report) {
  return report.options.freed == sharing::FreedGpus::idle
             ? fmt::format("stay in the node at {:.0f} W each", report.gpu.idle_w)
             : "are switched off or used by other work";
}

std::string summary_text(const PackingReport& report) {
  const sharing::Packing& packing = report.packing;
  const Bounded& saved = packing.saved_w;
  if (!packing.refused.empty()) return fmt::format("no GPU can be shared: {}\n", packing.refused);
  if (packing.gpus_packed == packing.gpus_apart) {
    return fmt::format("no jobs should share a GPU by {}\n", name(report.options.mode));
  }
  return fmt::format(
      "{} GPUs in place of {}, by {}; {} freed, which {}\n"
      "saved {:.1f} W of {:.1f} W ({:.1f} %) at equal work; bounds {:.1f} to {:.1f} W ({:.1f} to {:.1f} %)\n",
      packing.gpus_packed, packing.gpus_apart, name(report.options.mode), packing.gpus_apart - packing.gpus_packed,
      freed_text(report), saved.predicted, packing.apart_w, share_pct(saved.predicted, packing.apart_w), saved.low,
      saved.high, share_pct(saved.low, packing.apart_w), share_pct(saved.high, packing.apart_w));
}

std::string refusals_text(const PackingReport& report) {
  constexpr std::size_t kMostLines = 12;
  const auto& refusals = report.packing.refusals;
  std::string text;
  for (std::size_t i = 0; i < std::min(refusals.size(), kMostLines); ++i) {
    text += fmt::format("  {}: {}\n", fmt::join(names_of(report, refusals[i].jobs), " + "), refusals[i].reason);
  }
  if (refusals.size() > kMostLines) {
    text += fmt::format("  and {} more pairs: --json\n", refusals.size() - kMostLines);
  }
  return text.empty() ? text : "\nnot together\n" + text;
}

bool any_without_sm(const PackingReport& report) {
  return std::ranges::any_of(report.table.jobs, [](const JobLoad& job) { return !job.sm_active; });
}

std::string packing_notes(const PackingReport& report) {
  std::string text = "\nPlanned from each job alone; not measured together. docs/sharing.md states the model.\n";
  if (report.table.simulated) text += "Some loads were measured on SIMULATED GPUs.\n";
  if (report.options.mode == sharing::SharingMode::mps && any_without_sm(report)) {
    text +=
        "A job without sm_active_pct is taken to fill all SMs while a kernel runs: the slowdown is then too high "
        "rather\n"
        "than too low.\n";
  }
  return text;
}

Json bounded_json(const Bounded& value) {
  return {{"low", value.low}, {"predicted", value.predicted}, {"high", value.high}};
}

Json group_json(const PackingReport& report, const Group& group) {
  Json jobs = Json::array();
  for (std::size_t i = 0; i < group.jobs.size(); ++i) {
    const JobLoad& job = report.table.jobs[group.jobs[i]];
    const Slowdown& slowdown = group.slowdowns[i];
    Json json = {{"job", job.name},
                 {"gpus", job.gpus},
                 {"slowdown_pct",
                  {{"low", slower_pct(slowdown.low)},
                   {"predicted", slower_pct(slowdown.predicted)},
                   {"high", slower_pct(slowdown.high)}}}};
    if (job.iteration_s) json["iteration_s"] = *job.iteration_s * slowdown.predicted;
    jobs.push_back(std::move(json));
  }
  return {{"gpus", group.gpus},
          {"memory_gib", group.memory_gib},
          {"apart_w", group.apart_w},
          {"saved_w", bounded_json(group.saved_w)},
          {"jobs", std::move(jobs)}};
}

/// A line per job with its group, a summary, and why other pairs do not share.
std::string packing_text(const PackingReport& report) {
  return groups_table(report) + '\n' + summary_text(report) + refusals_text(report) + packing_notes(report);
}

/// The same as one object, with all groups and refusals.
Json packing_json(const PackingReport& report) {
  const sharing::Packing& packing = report.packing;
  Json groups = Json::array();
  for (const Group& group : packing.groups) groups.push_back(group_json(report, group));
  Json refusals = Json::array();
  for (const sharing::Refusal& refusal : packing.refusals) {
    refusals.push_back({{"jobs", names_of(report, refusal.jobs)}, {"reason", refusal.reason}});
  }
  return {{"figures", "planned"},
          {"simulated_loads", report.table.simulated},
          {"by", std::string(name(report.options.mode))},
          {"freed_gpus", report.options.freed == sharing::FreedGpus::idle ? "idle" : "used"},
          {"margin_pct", kPctPerShare * report.options.margin.value_or(default_margin(report.options.mode))},
          {"max_slowdown_pct", kPctPerShare * report.options.max_slowdown},
          {"gpu",
           {{"name", report.gpu_name},
            {"memory_gib", report.gpu.memory_gib},
            {"idle_w", report.gpu.idle_w},
            {"awake_w", report.gpu.awake_w},
            {"limit_w", report.gpu.limit_w}}},
          {"refused", packing.refused.empty() ? Json(nullptr) : Json(packing.refused)},
          {"gpus_apart", packing.gpus_apart},
          {"gpus_packed", packing.gpus_packed},
          {"apart_w", packing.apart_w},
          {"saved_w", bounded_json(packing.saved_w)},
          {"groups", std::move(groups)},
          {"not_together", std::move(refusals)}};
}

constexpr auto kModes = std::to_array<std::string_view>({"mps", "time-slicing"});
constexpr auto kFreed = std::to_array<std::string_view>({"idle", "used"});
constexpr auto kComputeModes = std::to_array<std::string_view>({"default", "exclusive-process", "prohibited"});
constexpr NumberRange<double> kMemoryRange{1, 1e4};
constexpr NumberRange<double> kPowerRange{0, 1e4};
constexpr NumberRange<double> kSlowdownRange{0, 300};
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
  add_quantity(app, "--gpu-memory", Unit::gibibyte, kMemoryRange, into(arguments.memory_gib),
               "Memory of a GPU in GiB (default: that of --gpu)");
  add_quantity(app, "--idle-power", Unit::watt, kPowerRange, into(arguments.idle_w),
               "Power of a GPU that no process uses, in W (default: that of --gpu)");
  add_quantity(app, "--awake-power", Unit::watt, kPowerRange, into(arguments.awake_w),
               "Power of a GPU with a process and no kernel, in W (default: that of --gpu)");
  add_quantity(app, "--power-limit", Unit::watt, kPowerRange, into(arguments.limit_w),
               "Power limit of a GPU in W (default: that of --gpu)");
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
      "State of the GPUs that become free: they draw their idle power (idle, the default), or are "
      "switched off or used by other work (used)");
  add_whole_number(app, "--jobs-per-gpu", {2, sharing::kMaxJobsPerGpu}, into(options.max_jobs_per_gpu),
                   "Largest number of jobs per GPU (default 2)")
      ->type_name("N");
  add_quantity(
      app, "--max-slowdown", Unit::percent, kSlowdownRange,
      [&options](double pct) { options.max_slowdown = pct / kPctPerShare; },
      "Largest predicted slowdown of a job, in per cent (default 5)");
  add_quantity(
      app, "--margin", Unit::percent, kSlowdownRange, [&options](double pct) { options.margin = pct / kPctPerShare; },
      "Cost of sharing beyond the model, in per cent; part of the upper bound (default 43 for mps, 5 for "
      "time-slicing)");
  add_quantity(app, "--reserve", Unit::gibibyte, {0, 1e4}, into(options.reserve_gib),
               "Memory of each GPU that stays free, in GiB (default 1)");
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
