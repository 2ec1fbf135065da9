#include "app/cli/text/profile/profile_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/cli/terminal/amount_text.h"
#include "base/core/version.h"
#include "report/report/valley.h"

namespace lowgear::cli {
namespace {

/// One row: where an op uses least energy, and what that clock costs in time.
std::vector<std::string> least_row(const profile::StageProfile& profile, const profile::StageOp& op) {
  const profile::Measurement& fastest = profile.at_max_clock(op.stage, op.kind);
  const profile::Measurement& least = *std::ranges::min_element(op.measurements, {}, &profile::Measurement::energy_j);
  return {fmt::format("{} {}", op.stage, name(op.kind)),
          fmt::to_string(op.measurements.size()),
          fmt::format("{} MHz", fastest.clock_mhz),
          energy_text(fastest.energy_j),
          fmt::format("{} MHz", least.clock_mhz),
          energy_text(least.energy_j),
          fmt::format("{:+.2f} %", 100 * (least.energy_j / fastest.energy_j - 1)),
          fmt::format("{:+.2f} %", 100 * (least.time_s / fastest.time_s - 1))};
}

}  // namespace

report::EstimateReport profile_page(const profile::StageProfile& profile, const std::string& basis,
                                    std::string command) {
  report::EstimateReport page;
  page.lowgear_version = version();
  page.command = std::move(command);
  page.title = fmt::format("Stage profile: {} {}", profile.stages(), profile.stages() == 1 ? "stage" : "stages");
  page.facts = {{"Rows", basis}};
  page.valleys = report::valleys_of(profile);
  page.valley_basis = basis;
  report::Table table{.title = "Least energy of an op",
                      .basis = basis,
                      .columns = {"stage and op", "rows", "highest clock", "energy there", "clock of least energy",
                                  "energy there", "energy against the highest", "time against the highest"},
                      .rows = {},
                      .chosen = std::nullopt};
  for (const profile::StageOp& op : profile.ops()) table.rows.push_back(least_row(profile, op));
  page.tables.push_back(std::move(table));
  page.reading = {{"Energy", "Of one GPU while it runs the op once. Waiting for other ranks is not in it."},
                  {"Clock of least energy",
                   "Of the op alone. A plan often has a higher one: a GPU that is done earlier waits, and "
                   "draws blocking power while it does."}};
  return page;
}

}  // namespace lowgear::cli
