#include "server/http/csv_export.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/number.h"

namespace lowgear::server {
namespace {

constexpr auto kFiles = std::to_array<std::pair<std::string_view, ExportTable>>({
    {"usage.csv", ExportTable::usage},
    {"jobs.csv", ExportTable::jobs},
    {"decisions.csv", ExportTable::decisions},
    {"budgets.csv", ExportTable::budgets},
});

constexpr std::string_view kJobsHeader =
    "job,run,name,user,gpu,simulated,created_s,finished_s,iterations,measured_iterations,time_s,energy_j\n";
constexpr std::string_view kDecisionsHeader = "job,id,time_s,kind,plan_version,reason\n";
constexpr std::string_view kBudgetsHeader =
    "time_s,budget,limit_w,planned_w,assumed_w,measured_w,measured_gpus,held_w,kept\n";

std::string job_line(const UsedJob& job) {
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_cell(job.job), csv_cell(job.run), csv_cell(job.name),
                     csv_cell(job.user), csv_cell(job.gpu), job.simulated, job.created_s,
                     job.finished_s ? fmt::to_string(*job.finished_s) : "", job.iterations, job.measured_iterations,
                     job.time_s, job.energy_j);
}

/// A member of a document as a cell; empty where it is missing or null.
std::string cell(const Json& document, const char* member) {
  const auto found = document.find(member);
  if (found == document.end() || found->is_null()) return {};
  return csv_cell(found->is_string() ? found->get<std::string>() : found->dump());
}

/// Empty when its row is damaged.
std::string decision_line(const StoredDecision& decision) {
  const Json document = Json::parse(decision.document, nullptr, false);
  if (!document.is_object()) return {};
  return fmt::format("{},{},{},{},{},{}\n", csv_cell(decision.job), decision.id, decision.time_s,
                     cell(document, "kind"), cell(document, "plan_version"), cell(document, "reason"));
}

std::string optional_cell(const std::optional<double>& value) { return value ? fmt::to_string(*value) : ""; }

std::string budget_line(const StoredBudgetUse& use) {
  return fmt::format("{},{},{},{},{},{},{},{},{}\n", use.time_s, csv_cell(use.budget), use.limit_w, use.planned_w,
                     use.assumed_w, optional_cell(use.measured_w), use.measured_gpus, optional_cell(use.held_w),
                     use.kept);
}

std::string_view header_of(ExportTable table) {
  switch (table) {
    case ExportTable::usage:
      return usage::usage_header();
    case ExportTable::jobs:
      return kJobsHeader;
    case ExportTable::decisions:
      return kDecisionsHeader;
    case ExportTable::budgets:
      return kBudgetsHeader;
  }
  return {};
}

}  // namespace

std::optional<ExportTable> export_table(std::string_view file) {
  for (const auto& [name, table] : kFiles) {
    if (name == file) return table;
  }
  return std::nullopt;
}

void require_place(ExportTable table, const std::string& after) {
  const std::size_t dot = after.rfind('.');
  const auto is_number = [&](std::string_view part) { return parse_integer(part).has_value(); };
  const bool has_number = dot != std::string::npos && is_number(std::string_view(after).substr(dot + 1));
  const bool is_place = after.empty() || table == ExportTable::jobs ||
                        (has_number && (table == ExportTable::decisions || is_number(after.substr(0, dot))));
  if (!is_place)
    throw InputError("after: not a position in this file; use the address in the header Link of the previous page");
}

std::string export_csv(ExportTable table, const ExportPage& page, CsvHeader header) {
  std::string text(header == CsvHeader::with ? header_of(table) : std::string_view());
  for (const usage::UsageRow& row : page.hours) text += usage::usage_line(row);
  for (const UsedJob& job : page.jobs) text += job_line(job);
  for (const StoredDecision& decision : page.decisions) text += decision_line(decision);
  for (const StoredBudgetUse& use : page.budgets) text += budget_line(use);
  return text;
}

}  // namespace lowgear::server
