#include "server/job/reported_energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/core/energy/energy_check.h"

namespace lowgear::server {
namespace {

/// Of an energy counter: an iteration may be shorter.
constexpr double kCounterPeriodS = 0.1;
/// A measurement does not excuse itself by an error of its own size.
constexpr double kMostError = 0.1;
/// Energies in a row that are in order before a rank's are said to be so again.
constexpr int kGoodAgain = 20;
/// What NVIDIA calls an instance of a GPU, which has no energy counter: what is read there is that of the whole.
constexpr std::string_view kInstancePrefix = "MIG-";

/// `count`: how many the energy and time are the mean of. They follow each other, so that a step of the counter excuses
/// all of them once.
StatedEnergy stated_energy(double energy_j, double time_s, double error_j, std::optional<double> limit_w,
                           long long count = 1) {
  return {.energy_j = energy_j,
          .time_s = time_s,
          .error_j = std::min(error_j, kMostError * energy_j),
          .period_s = kCounterPeriodS / static_cast<double>(std::max(1LL, count)),
          .highest_power_w = highest_gpu_power_w(limit_w),
          .lasting_power_w = lasting_gpu_power_w(limit_w),
          .lowest_power_w = kLowestGpuPowerW};
}

/// The limit of the rank's GPU: its agent knows the GPU, and a rank could state any limit.
std::optional<double> limit_of(const RegisteredRank& rank) {
  return rank.agent_most_w ? rank.agent_most_w : rank.spec.power_limit_w;
}

/// The rest of a sentence about the report of an iteration.
std::string energy_reason(std::int64_t iteration, const EnergyRun::Judged& judged) {
  if (judged.verdict.usable()) return {};
  if (judged.first == iteration) return fmt::format("of iteration {} {}", iteration, judged.verdict.reason);
  return fmt::format("of iteration {}, together with those since iteration {}, {}", iteration, judged.first,
                     judged.verdict.reason);
}

/// Why an energy of this rank does not count, whatever it is: a word for metrics, and the rest of a sentence.
std::pair<std::string_view, std::string> foreign_energy(const RegisteredRank& rank) {
  if (rank.spec.gpu_uuid.starts_with(kInstancePrefix)) {
    return {"instance",
            fmt::format("has an energy of {}, an instance: a counter is that of the whole GPU", rank.spec.gpu_uuid)};
  }
  return {};
}

}  // namespace

JudgedReports judge(const protocol::RankReports& reports, RegisteredRank& rank, const ReportedBefore& before) {
  const std::optional<double> limit_w = limit_of(rank);
  JudgedReports judged{.reports = reports, .left_out = {}, .decision = {}};
  protocol::RankReports& good = judged.reports;
  if (good.gpu.power_w && !why_no_power(*good.gpu.power_w, highest_gpu_power_w(limit_w)).empty()) {
    good.gpu.power_w.reset();
  }
  const auto [foreign, foreign_reason] = foreign_energy(rank);
  const bool counts_elsewhere = rank.shared && !rank.shared->counts_here;
  std::string fault = rank.energy_fault;
  const auto leave_out = [&judged](protocol::IterationReport& report, std::string_view why) {
    if (!report.energy_j) return;
    judged.left_out.push_back(why);
    report.energy_j.reset();
    report.energy_error_j = 0;
  };
  for (protocol::IterationReport& report : good.reports) {
    // A version that was never issued counts as no plan.
    rank.unknown_plan = report.plan_version > before.plan_version ? report.plan_version : 0;
    if (rank.unknown_plan > 0) report.plan_version = 0;
    if (report.iteration <= before.iteration || !report.energy_j) continue;
    const EnergyRun::Judged energy = rank.energies.add(
        report.iteration, stated_energy(*report.energy_j, report.time_s, report.energy_error_j, limit_w));
    const std::string reason = energy.verdict.usable() ? foreign_reason : energy_reason(report.iteration, energy);
    rank.good_energies = reason.empty() ? rank.good_energies + 1 : 0;
    if (!reason.empty() || rank.good_energies >= kGoodAgain) fault = reason;
    if (!energy.verdict.usable()) {
      // Those that made the sum, as far as they have not been counted.
      for (protocol::IterationReport& other : good.reports) {
        if (other.iteration < energy.first || other.iteration > report.iteration) continue;
        if (other.iteration > before.iteration) leave_out(other, name(energy.verdict.fault));
      }
    } else if (!reason.empty() || counts_elsewhere) {
      leave_out(report, foreign.empty() ? "shared" : foreign);
    }
  }
  if (fault.empty() != rank.energy_fault.empty()) {
    judged.decision = fault.empty()
                          ? fmt::format("energies of rank {} count again", reports.rank)
                          : fmt::format("energies of rank {} are left out: the report {}", reports.rank, fault);
  }
  rank.energy_fault = std::move(fault);
  return judged;
}

JudgedCells judge(const protocol::RankCells& cells, const RegisteredRank& rank) {
  const std::optional<double> limit_w = limit_of(rank);
  const double highest_w = highest_gpu_power_w(limit_w);
  JudgedCells judged{.cells = cells, .decision = {}};
  std::string first;
  std::size_t left_out = std::erase_if(judged.cells.cells, [&](const protocol::ProfileCell& cell) {
    const EnergyVerdict verdict =
        check_energy(stated_energy(cell.energy_j, cell.time_s, cell.energy_error_j, limit_w, cell.units));
    if (!verdict.usable() && first.empty()) {
      first = fmt::format("{} of stage {} at {} MHz {}", name(cell.kind), cell.stage, cell.clock_mhz, verdict.reason);
    }
    return !verdict.usable();
  });
  left_out += std::erase_if(judged.cells.blocking, [&](const protocol::BlockingCell& cell) {
    const std::string why = why_no_power(cell.power_w, highest_w);
    if (!why.empty() && first.empty()) first = fmt::format("the power of stage {} while it waits {}", cell.stage, why);
    return !why.empty();
  });
  if (left_out > 0) {
    judged.decision = fmt::format("{} cells of rank {} are left out: {}", left_out, cells.rank, first);
  }
  return judged;
}

}  // namespace lowgear::server
