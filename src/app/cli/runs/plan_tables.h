#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/plan/plan.h"
#include "report/report/report_data.h"

namespace lowgear {

/// `frontier.csv`: `time_s,energy_j`, as short as numbers can be to be read back unchanged.
[[nodiscard]] std::string write_frontier_table(std::span<const ReportPoint> points);
/// Throws InputError at the cell that is wrong, and when there is no row.
[[nodiscard]] std::vector<ReportPoint> read_frontier_table(std::string_view text, const std::string& source);

/// A plan's row of `plans.csv`.
[[nodiscard]] ReportPlan plan_row(int number, const Plan& plan);

/// `plans.csv`: `plan,deadline_s,time_s,energy_j,lower_bound_j,gap_pct,switches`; bound and gap are empty where there
/// is none.
[[nodiscard]] std::string write_plans_table(std::span<const ReportPlan> plans);
/// Throws InputError at the cell that is wrong, and when there is no row.
[[nodiscard]] std::vector<ReportPlan> read_plans_table(std::string_view text, const std::string& source);

/// (energy - bound) / bound in per cent.
[[nodiscard]] std::optional<double> gap_pct(double energy_j, std::optional<double> lower_bound_j);

}  // namespace lowgear
