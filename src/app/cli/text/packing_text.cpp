#include "app/cli/text/packing_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "app/cli/terminal/table.h"

namespace lowgear::cli {
namespace {

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

}  // namespace

std::string packing_text(const PackingReport& report) {
  return groups_table(report) + '\n' + summary_text(report) + refusals_text(report) + packing_notes(report);
}

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

}  // namespace lowgear::cli
