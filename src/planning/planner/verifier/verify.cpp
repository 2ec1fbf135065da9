#include "planning/planner/verifier/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "planning/planner/verifier/pipeline.h"
#include "planning/planner/verifier/plan_check.h"
#include "planning/planner/verifier/proven_frontier.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/torch_csv.h"

namespace lowgear::planner {
namespace {

using verifier::Findings;
using verifier::Pipeline;
using verifier::PlanBasis;
using verifier::PlanRow;
using verifier::Point;
using verifier::ProvenFrontier;
using verifier::RunSettings;

/// Relative difference that a double written as text and read back may show after sums in another order.
constexpr double kRounding = 1e-9;
/// Relative distance that counts as none. In exact arithmetic it is 0; a compiler that fuses multiplications and
/// additions may round a slope to the next nanowatt, which is 1e-14 of the energy.
constexpr double kExact = 1e-12;

struct FrontierRow {
  double time_s = 0;
  double energy_j = 0;
};

/// Whether a table's time is that of a vertex. A double tells picoseconds apart up to 4096 s; beyond, it is the nearest
/// one to theirs.
bool is_time_of(double time_s, TimePs vertex_ps) {
  constexpr double kHalfPs = 0.5e-12;
  const double vertex_s = s_from_ps(vertex_ps);
  return std::abs(time_s - vertex_s) <= kHalfPs + std::numeric_limits<double>::epsilon() * vertex_s;
}

schedule::Schedule read_schedule(const PlanFolder& folder, const RunSettings& run) {
  schedule::Schedule schedule = schedule::read_torch_csv(folder.schedule.text, folder.schedule.name);
  if (schedule.rank_count() != run.ranks || schedule.microbatches != run.microbatches) {
    throw_input_error({folder.schedule.name, 0, 0},
                      fmt::format("has {} ranks and {} microbatches, but {} states {} and {}", schedule.rank_count(),
                                  schedule.microbatches, folder.run.name, run.ranks, run.microbatches),
                      "plan again");
  }
  return schedule;
}

std::vector<FrontierRow> read_frontier_rows(const PlanFolder::File& file) {
  const CsvTable table(file.text, file.name);
  const std::size_t time = table.column("time_s");
  const std::size_t energy = table.column("energy_j");
  std::vector<FrontierRow> rows;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const double time_s = table.number(row, time);
    if (time_s <= 0 || time_s > kMaxTimeS) {
      throw_input_error(table.where(row, time), fmt::format("{} s is not in 0 to {}", time_s, kMaxTimeS));
    }
    rows.push_back({time_s, table.number(row, energy)});
  }
  return rows;
}

/// The table must list the vertices of the chain, one by one.
void check_frontier_table(const PlanFolder::File& file, const ProvenFrontier& proven, Findings& findings) {
  const std::vector<FrontierRow> rows = read_frontier_rows(file);
  if (rows.size() != proven.chain().size()) {
    findings.add(
        fmt::format("{}: it has {} rows, but {} vertices are proven", file.name, rows.size(), proven.chain().size()));
  }
  for (std::size_t i = 0; i < std::min(rows.size(), proven.chain().size()); ++i) {
    const Point& vertex = proven.chain()[i];
    const double energy_j = proven.energy_j(vertex);
    if (is_time_of(rows[i].time_s, vertex.time_ps) && std::abs(rows[i].energy_j - energy_j) <= kRounding * energy_j)
      continue;
    findings.add(fmt::format("{}: row {} is {} s, {} J, but {} s, {} J are proven", file.name, i + 1, rows[i].time_s,
                             rows[i].energy_j, s_from_ps(vertex.time_ps), energy_j));
  }
}

/// The chain must begin at T_min, end at T*, and be as near to its bound as the run states.
void check_ends_and_distance(const PlanFolder& folder, const RunSettings& run, const Pipeline& pipeline,
                             const ProvenFrontier& proven, Findings& findings) {
  std::vector<TimePs> fastest_ps;
  for (std::size_t op = 0; op < pipeline.ops().size(); ++op) fastest_ps.push_back(pipeline.curve(op).fastest_ps());
  std::vector<TimePs> start_ps(fastest_ps.size());
  const auto possible_ps = pipeline.start_times<TimePs>(fastest_ps, start_ps);
  if (proven.chain().front().time_ps != possible_ps) {
    findings.add(fmt::format("{}: the fastest vertex takes {} s, but {} s is possible", folder.certificate.name,
                             s_from_ps(proven.chain().front().time_ps), s_from_ps(possible_ps)));
  }
  const double epsilon = proven.epsilon();
  const double allowed = run.exact ? kExact : run.epsilon + kRounding;
  if (std::isinf(epsilon)) {
    findings.add(fmt::format(
        "{}: the frontier is above its proven bound, which is not above 0 J, or missing for slower iterations",
        folder.certificate.name));
  } else if (!(epsilon <= allowed)) {
    findings.add(
        fmt::format("{}: the frontier is up to {} above its proven bound (as a share of it); at most {} is allowed",
                    folder.certificate.name, epsilon, allowed));
  }
}

void check_plans(const PlanFolder& folder, const PlanBasis& basis, Progress* progress, VerifyReport& report,
                 Findings& findings) {
  const std::vector<PlanRow> rows = verifier::read_plan_rows(folder.plans_table);
  if (rows.size() != folder.plans.size()) {
    findings.add(fmt::format("{}: it has {} rows, but there are {} plans", folder.plans_table.name, rows.size(),
                             folder.plans.size()));
  }
  for (std::size_t i = 0; i < std::min(rows.size(), folder.plans.size()); ++i) {
    if (progress != nullptr) progress->update(kVerifying, -1);
    verifier::check_plan(basis, folder.plans[i], rows[i], findings);
    report.max_gap_pct = std::max(report.max_gap_pct, rows[i].gap_pct.value_or(0));
    const auto asked_s = basis.run.asked_deadline_s;
    if (asked_s && rows[i].time_s > *asked_s * (1 + kRounding)) report.missed_deadline_s = asked_s;
  }
  report.plans = folder.plans.size();
}

}  // namespace

VerifyReport verify(const PlanFolder& folder, Progress* progress) {
  const RunSettings run = verifier::read_run_settings(folder.run.text, folder.run.name);
  const schedule::Schedule schedule = read_schedule(folder, run);
  const profile::ProfileFile file = profile::read_profile_file(folder.profile.text, folder.profile.name);
  const profile::StageProfile& profile = file.profile;
  const Pipeline pipeline(schedule, profile, run.blocking_power_w);

  VerifyReport report{.simulated = file.simulated};
  if (auto fault = verifier::blocking_power_fault(run.blocking_power_w, folder.run.name, file.columns.blocking_power_w,
                                                  folder.profile.name, rank_of_stage(schedule))) {
    report.failures.push_back(std::move(*fault));
    return report;
  }
  Findings findings;
  const std::optional<ProvenFrontier> proven =
      verifier::prove_frontier(pipeline, folder.certificate, findings, progress);
  if (proven) {
    check_ends_and_distance(folder, run, pipeline, *proven, findings);
    check_frontier_table(folder.frontier, *proven, findings);
    report.vertices = proven->chain().size();
    report.epsilon = proven->epsilon();
  }
  const PlanBasis basis{run, pipeline, profile, proven ? &*proven : nullptr};
  check_plans(folder, basis, progress, report, findings);
  report.failures = findings.list();
  return report;
}

}  // namespace lowgear::planner
