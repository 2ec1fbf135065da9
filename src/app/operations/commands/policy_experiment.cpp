#include "app/operations/commands/policy_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/cli/arguments/estimate_input.h"
#include "app/cli/terminal/process.h"
#include "app/cli/terminal/table.h"
#include "app/operations/text/arm_text.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/csv.h"
#include "base/core/version.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "planning/api/profile_fitting.h"
#include "planning/api/profiled_pipeline.h"

namespace lowgear::operations {
namespace {

namespace fs = std::filesystem;

estimator::TrainingJob read_job(const evaluation::PolicyJob& job, const fs::path& folder) {
  cli::JobArguments arguments{.file = (folder / job.job).string(), .settings = {}};
  for (const std::string& setting : job.settings) {
    const std::size_t equals = setting.find('=');
    arguments.settings.push_back(
        {.origin = printable(setting), .path = setting.substr(0, equals), .value = setting.substr(equals + 1)});
  }
  try {
    return cli::load_job(arguments, {});
  } catch (const InputError& error) {
    throw InputError(fmt::format("job {}: {}", quote(job.name), error.what()));
  }
}

}  // namespace

PolicyExperimentInput read_policy_experiment(const fs::path& path) {
  PolicyExperimentInput input{.file = evaluation::parse_policy_experiment(read_file(path), path.string()), .jobs = {}};
  for (const evaluation::PolicyJob& job : input.file.jobs) input.jobs.push_back(read_job(job, path.parent_path()));
  return input;
}

std::vector<evaluation::ReplayedJob> run_policy_experiment(const PolicyExperimentInput& input, Progress& progress) {
  std::vector<evaluation::ReplayedJob> results;
  for (std::size_t i = 0; i < input.jobs.size(); ++i) {
    const estimator::TrainingJob& job = input.jobs[i];
    api::require_planning_memory(job.parallel.pp, static_cast<int>(job.microbatches()), job.parallel.virtual_stages,
                                 cli::available_memory_bytes());
    results.push_back(replay_policies(input.file, input.file.jobs[i].name, estimate_job(job, {}), &progress));
  }
  return results;
}

namespace {

using evaluation::PolicyExperiment;
using evaluation::ReplayedArm;
using evaluation::ReplayedJob;

constexpr const char* kBasis = "replayed";
/// Less is not shown.
constexpr double kShownPct = 0.005;

const std::string& policy_of(const PolicyExperiment& file, const ReplayedArm& arm) {
  return std::ranges::find(file.arms, arm.name, &evaluation::PolicyArm::name)->policy;
}

std::vector<std::string> row_of(const ReplayedJob& job, const ReplayedArm& arm) {
  return {job.name,
          arm.name,
          fmt::format("{:.4g}", job.throughput_per_s(arm)),
          fmt::format("{:.4g} s", arm.time_s),
          cli::energy_text(arm.energy_j),
          change_text(-job.saving_pct(arm)),
          change_text(job.slowdown_pct(arm))};
}

constexpr const char* kColumns[] = {"job", "arm", "sequences/s", "time", "energy", "energy against", "time against"};

/// Energy or time of every arm against the baseline.
report::Intervals differences(const PolicyExperiment& file, const std::vector<ReplayedJob>& jobs, bool of_energy) {
  report::Intervals plot{
      .title = fmt::format("{} against {}", of_energy ? "Energy" : "Time", file.baseline),
      .basis = kBasis,
      .caption =
          fmt::format("Replayed on estimated profiles: one iteration of all GPUs. Less is better. Without intervals: "
                      "a replay has no spread, and the error of a job's estimate is not known.{}",
                      of_energy ? "" : " EnvPipe's own order may be faster than 1F1B."),
      .groups = {}};
  for (const ReplayedJob& job : jobs) {
    report::Intervals::Group group{.name = job.name, .rows = {}};
    for (const ReplayedArm& arm : job.arms) {
      if (arm.name == file.baseline) continue;
      const double pct = of_energy ? -job.saving_pct(arm) : job.slowdown_pct(arm);
      group.rows.push_back({.name = arm.name,
                            .mean = pct,
                            .low = std::nullopt,
                            .high = std::nullopt,
                            .sense = pct < -kShownPct  ? report::Intervals::Sense::better
                                     : pct > kShownPct ? report::Intervals::Sense::worse
                                                       : report::Intervals::Sense::none,
                            .text = change_text(pct)});
    }
    plot.groups.push_back(std::move(group));
  }
  return plot;
}

report::Table table_of(const PolicyExperiment& file, const std::vector<ReplayedJob>& jobs) {
  report::Table table{.title = "All arms",
                      .basis = kBasis,
                      .columns = {std::begin(kColumns), std::end(kColumns)},
                      .rows = {},
                      .chosen = std::nullopt};
  for (std::string& column : table.columns) {
    if (column.ends_with("against")) column += ' ' + file.baseline;
  }
  for (const ReplayedJob& job : jobs) {
    for (const ReplayedArm& arm : job.arms) table.rows.push_back(row_of(job, arm));
  }
  return table;
}

/// "-15.11 %", or "-15.11 to -17.72 %".
std::string range_text(const std::vector<double>& pct) {
  const auto [low, high] = std::ranges::minmax(pct);
  const std::string from = change_text(low);
  const std::string to = change_text(high);
  return from == to ? from : fmt::format("{} to {}", from.substr(0, from.rfind(' ')), to);
}

/// Energy and time of each arm against the baseline, over all jobs.
std::vector<report::Card> cards_of(const PolicyExperiment& file, const std::vector<ReplayedJob>& jobs) {
  std::vector<report::Card> cards;
  for (const evaluation::PolicyArm& policy : file.arms) {
    if (policy.name == file.baseline) continue;
    std::vector<double> energy_pct;
    std::vector<double> time_pct;
    for (const ReplayedJob& job : jobs) {
      const auto arm = std::ranges::find(job.arms, policy.name, &ReplayedArm::name);
      if (arm == job.arms.end()) continue;
      energy_pct.push_back(-job.saving_pct(*arm));
      time_pct.push_back(job.slowdown_pct(*arm));
    }
    if (energy_pct.empty()) continue;
    cards.push_back({.name = policy.name + ", energy, replayed",
                     .value = range_text(energy_pct),
                     .detail = fmt::format("time {} against {}", range_text(time_pct), file.baseline)});
  }
  return cards;
}

/// Notes of the estimates of all jobs, each once.
std::vector<std::string> notes_of(const std::vector<ReplayedJob>& jobs) {
  std::vector<std::string> notes;
  for (const ReplayedJob& job : jobs) {
    for (const std::string& note : job.notes) {
      if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
    }
  }
  return notes;
}

/// A note for each arm that is slower than the baseline.
std::string slow_arms_text(const PolicyExperiment& file, const std::vector<ReplayedJob>& jobs) {
  constexpr double kSlowPct = 0.5;
  std::string text;
  for (const ReplayedJob& job : jobs) {
    for (const ReplayedArm& arm : job.arms) {
      if (arm.name == file.baseline || job.slowdown_pct(arm) < kSlowPct || arm.note.empty()) continue;
      text += fmt::format("{}, {}: {}\n", job.name, arm.name, arm.note);
    }
  }
  return text.empty() ? "" : "\nSlower than " + file.baseline + ":\n" + text;
}

}  // namespace

std::string policy_experiment_text(const PolicyExperiment& file, const std::vector<ReplayedJob>& jobs) {
  std::vector<cli::Table::Column> columns;
  for (const std::string& name : table_of(file, {}).columns) {
    columns.push_back({name, columns.size() < 2 ? cli::Table::Align::left : cli::Table::Align::right});
  }
  cli::Table table(std::move(columns));
  for (const ReplayedJob& job : jobs) {
    for (const ReplayedArm& arm : job.arms) table.add_row(row_of(job, arm));
  }
  return table.text() + slow_arms_text(file, jobs) +
         "\nReplayed on profiles that lowgear estimate makes of each job: nothing was measured, and no training ran. "
         "One\niteration of all GPUs.\n";
}

Json policy_experiment_json(const PolicyExperiment& file, const std::vector<ReplayedJob>& jobs) {
  Json list = Json::array();
  for (const ReplayedJob& job : jobs) {
    Json arms = Json::array();
    for (const ReplayedArm& arm : job.arms) {
      arms.push_back({{"name", arm.name},
                      {"policy", policy_of(file, arm)},
                      {"throughput_per_s", job.throughput_per_s(arm)},
                      {"time_s", arm.time_s},
                      {"energy_j", arm.energy_j},
                      {"saving_pct", job.saving_pct(arm)},
                      {"slowdown_pct", job.slowdown_pct(arm)},
                      {"note", arm.note}});
    }
    list.push_back({{"name", job.name},
                    {"gpu", job.gpu},
                    {"gpus", job.gpus},
                    {"sequences", job.sequences},
                    {"microbatches", job.microbatches},
                    {"arms", std::move(arms)}});
  }
  return {{"format", "lowgear.replayed_arms/1"},
          {"basis", "replayed"},
          {"profiles", "estimated"},
          {"title", file.title},
          {"baseline", file.baseline},
          {"notes", notes_of(jobs)},
          {"jobs", std::move(list)}};
}

std::string policy_experiment_csv(const PolicyExperiment& file, const std::vector<ReplayedJob>& jobs) {
  std::string text = "job,arm,policy,microbatches,throughput_per_s,time_s,energy_j,saving_pct,slowdown_pct\n";
  for (const ReplayedJob& job : jobs) {
    for (const ReplayedArm& arm : job.arms) {
      text += fmt::format("{},{},{},{},{},{},{},{:.4f},{:.4f}\n", csv_cell(job.name), csv_cell(arm.name),
                          policy_of(file, arm), job.microbatches, job.throughput_per_s(arm), arm.time_s, arm.energy_j,
                          job.saving_pct(arm), job.slowdown_pct(arm));
    }
  }
  return text;
}

report::Page policy_experiment_page(const PolicyExperiment& file, const std::vector<ReplayedJob>& jobs,
                                    std::string command) {
  report::Page page;
  page.lowgear_version = version();
  page.command = std::move(command);
  page.title = file.title.empty() ? "Policies compared" : file.title;
  page.facts = {{"Compared with", file.baseline},
                {"Jobs", fmt::to_string(jobs.size())},
                {"Arms", fmt::to_string(file.arms.size())},
                {"Figures", kBasis},
                {"Profiles", "estimated"}};
  page.cards = cards_of(file, jobs);
  page.warnings = notes_of(jobs);
  page.tables = {table_of(file, jobs)};
  page.reading = {
      {"Estimated", "The profile of each job, memory and transfers: computed from data sheets. No job was run."},
      {"Replayed", "Each policy chose clocks on that profile; the pipeline simulator computed time and energy."},
      {"Energy", "Of all GPUs of the job in one iteration, without CPUs, network and cooling."}};
  page.intervals = {differences(file, jobs, true), differences(file, jobs, false)};
  return page;
}

}  // namespace lowgear::operations
