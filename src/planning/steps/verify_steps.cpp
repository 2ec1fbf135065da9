#include "planning/steps/verify_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/core/error.h"
#include "planning/planner/verifier/pipeline.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/torch_csv.h"
#include "planning/simulator/replay.h"
#include "planning/steps/step_folder.h"
#include "planning/steps/verify_amounts.h"

namespace lowgear::steps {

namespace {

/// Relative difference of sums of doubles in another order.
constexpr double kRoundingError = 1e-9;
constexpr double kPercentOf = 100;

bool differ(double a, double b) { return !(std::abs(a - b) <= kRoundingError * std::max(std::abs(a), std::abs(b))); }

using StepDeal = std::pair<int, Deal>;

class StepCheck {
 public:
  explicit StepCheck(const StepFolder& folder)
      : folder_(folder),
        file_(read_steps_file(folder.run)),
        profile_file_(
            profile::read_profile_file(folder.profile.text, folder.profile.name, profile::ImpossibleUnits::accept)),
        schedule_(schedule::read_torch_csv(folder.schedule.text, folder.schedule.name)),
        dag_(build_dag(schedule_)),
        pipeline_(schedule_, profile_, powers_for(schedule_)) {
    if (schedule_.microbatches != file_.microbatches) {
      throw_input_error({folder.schedule.name, 0, 0},
                        fmt::format("has {} microbatches, and {} states {}", schedule_.microbatches, folder.run.name,
                                    file_.microbatches),
                        "plan again");
    }
    const bool needs_amounts = file_.foresight != Foresight::own || file_.expert_ranks > 0;
    if (needs_amounts && !folder.amounts) {
      throw_input_error({"amounts.csv", 0, 0}, fmt::format("is missing, and {} plans by it", folder.run.name),
                        "plan again");
    }
    if (!needs_amounts) return;
    for (const auto& op : pipeline_.ops()) {
      if (file_.model.cells().contains({op.stage, op.kind})) continue;
      throw_input_error({folder.run.name, 0, 0},
                        fmt::format("has no coefficients of {} on stage {}", name(op.kind), op.stage), "plan again");
    }
    amounts_.emplace(*folder.amounts, file_, schedule_.stages);
  }

  StepVerifyReport check(Progress& progress) {
    report_.simulated = profile_file_.simulated;
    if (auto fault = planner::verifier::blocking_power_fault(file_.blocking_power_w, folder_.run.name,
                                                             profile_file_.columns.blocking_power_w,
                                                             folder_.profile.name, rank_of_stage(schedule_))) {
      report_.failures.push_back(std::move(*fault));
      return report_;
    }
    for (ReplicaRow& row : read_replicas_table(folder_.replicas)) {
      const std::string where = fmt::format("{}:{}", folder_.replicas.name, row.line);
      const StepDeal key{row.step, row.deal};
      if (static_cast<std::size_t>(row.replica) != rows_[key].size()) findings_.add(where + ": not the next replica");
      rows_[key].push_back(std::move(row));
    }
    const std::vector<StepRow> steps = read_steps_table(folder_.steps);
    std::set<StepDeal> met;
    std::map<int, bool> is_fitted;
    for (std::size_t i = 0; i < steps.size() && !findings_.full(); ++i) {
      progress.update(planner::kVerifying, static_cast<double>(i) / static_cast<double>(steps.size()));
      const StepRow& step = steps[i];
      where_ = fmt::format("{}:{}: step {}, {}", folder_.steps.name, step.line, step.step, name(step.deal));
      if (!met.emplace(step.step, step.deal).second) fail("is there already");
      if (is_fitted.try_emplace(step.step, step.fitted).first->second != step.fitted)
        fail("is fitted in one deal alone");
      check_step(step);
    }
    if (!findings_.full()) check_counts(met, is_fitted);
    for (const auto& [key, rows] : rows_) {
      if (!met.contains(key))
        findings_.add(fmt::format("{}: step {} is not in {}", folder_.replicas.name, key.first, folder_.steps.name));
    }
    report_.failures = findings_.list();
    return report_;
  }

 private:
  [[nodiscard]] const std::vector<double>& powers_for(const schedule::Schedule& schedule) const {
    if (schedule.rank_count() != file_.ranks) {
      throw_input_error(
          {folder_.schedule.name, 0, 0},
          fmt::format("has {} ranks, and {} states {}", schedule.rank_count(), folder_.run.name, file_.ranks),
          "plan again");
    }
    return file_.blocking_power_w;
  }

  void check_counts(const std::set<StepDeal>& met, const std::map<int, bool>& is_fitted) {
    const auto fitted = std::ranges::count_if(is_fitted, [](const auto& step) { return step.second; });
    if (is_fitted.size() != static_cast<std::size_t>(file_.steps) || fitted != file_.fitted_steps) {
      findings_.add(fmt::format("{}: has {} steps, of which {} were fitted, and {} states {} and {}",
                                folder_.steps.name, is_fitted.size(), fitted, folder_.run.name, file_.steps,
                                file_.fitted_steps));
    }
    for (const auto& [step, is_one] : is_fitted) {
      for (const Deal deal : kDeals) {
        if (met.contains({step, deal}) == (deal == Deal::given || (file_.replicas > 1 && !amounts_))) continue;
        findings_.add(fmt::format("{}: step {} has {} row of the deal {}", folder_.steps.name, step,
                                  met.contains({step, deal}) ? "a" : "no", name(deal)));
      }
    }
  }

  void fail(std::string_view what) { findings_.add(fmt::format("{}: {}", where_, what)); }

  void check_step(const StepRow& step) {
    const auto found = rows_.find({step.step, step.deal});
    if (!step.note.empty()) {
      if (found != rows_.end()) fail("runs at full clocks, and its replicas have plans");
      if (step.deal == Deal::given) ++report_.safe_steps;
      before_[step.deal].clear();
      return;
    }
    if (found == rows_.end() || found->second.size() != static_cast<std::size_t>(file_.replicas)) {
      return fail("lacks a replica");
    }
    const std::vector<ReplicaRow>& rows = found->second;
    if (!sizes_fit(rows)) return fail("a list of a replica is not as long as it has ops, microbatches or edges");
    const std::size_t failures = findings_.list().size();
    check_deal(step, rows);
    check_clocks(rows);
    if (amounts_) {
      if (const std::string fault = amounts_->fault(step, rows, pipeline_.ops()); !fault.empty()) fail(fault);
    }
    if (step.replayed_by_fit && (step.fitted || !step.recorded || file_.foresight == Foresight::own)) {
      fail("is replayed by the fit, and is fitted, has no replay, or is planned by its own amounts");
    }
    if (findings_.list().size() != failures) return;
    check_pair("predicted", step.predicted, rows, kPredicted, step.deal);
    if (step.recorded.has_value() == rows.front().recorded_s.empty())
      fail("recorded times without figures, or figures without times");
    if (step.recorded && !rows.front().recorded_s.empty()) {
      check_pair("recorded", *step.recorded, rows, kRecorded, step.deal);
    }
    const double lateness = step.predicted.plan.time_s / step.predicted.full_clocks.time_s - 1;
    report_.latest = std::max(report_.latest, lateness);
    if (file_.late_by_s == 0 && lateness > kRoundingError) fail("the plan ends later than full clocks");
    check_bound(step, rows);
    if (step.deal == Deal::given) ++report_.steps;
    report_.replicas += rows.size();
    std::vector<std::vector<int>>& before = before_[step.deal];
    before.clear();
    for (const ReplicaRow& row : rows) before.push_back(last_clocks(row.clocks_mhz));
  }

  [[nodiscard]] bool sizes_fit(const std::vector<ReplicaRow>& rows) const {
    const std::size_t ops = pipeline_.ops().size();
    return std::ranges::all_of(rows, [&](const ReplicaRow& row) {
      return row.origins.size() == static_cast<std::size_t>(file_.microbatches) && row.predicted_s.size() == ops &&
             row.recorded_s.size() == (rows.front().recorded_s.empty() ? 0 : ops) && row.clocks_mhz.size() == ops &&
             row.flow_nw.size() == 1 + ops + pipeline_.precedences().size() &&
             std::ranges::all_of(std::array{&row.predicted_busy, &row.recorded_busy},
                                 [&](const auto* busy) { return busy->empty() || busy->size() == ops; });
    });
  }

  [[nodiscard]] double worker(int replica, const planner::verifier::PipelineOp& op) const {
    return file_.model.worker(replica, op.stage, op.kind);
  }

  /// Each microbatch once; its times are those of the given deal, on the worker that runs it.
  void check_deal(const StepRow& step, const std::vector<ReplicaRow>& rows) {
    std::set<Origin> met;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (std::size_t m = 0; m < rows[r].origins.size(); ++m) {
        const Origin& origin = rows[r].origins[m];
        if (origin.replica >= file_.replicas || origin.microbatch >= file_.microbatches)
          return fail("no such microbatch");
        if (!met.insert(origin).second)
          fail(fmt::format("microbatch {}:{} runs twice", origin.replica, origin.microbatch));
        if (step.deal == Deal::given && origin != Origin{static_cast<int>(r), static_cast<int>(m)})
          fail("is not as dealt");
      }
    }
    const auto given = rows_.find({step.step, Deal::given});
    if (step.deal == Deal::given || given == rows_.end() || given->second.size() != rows.size()) return;
    std::map<std::tuple<int, OpKind, int>, std::size_t> op_of;
    for (std::size_t i = 0; i < pipeline_.ops().size(); ++i) {
      const auto& op = pipeline_.ops()[i];
      op_of[{op.stage, op.kind, op.microbatch}] = i;
    }
    for (const ReplicaRow& row : rows) {
      for (std::size_t i = 0; i < pipeline_.ops().size(); ++i) {
        const auto& op = pipeline_.ops()[i];
        const Origin& origin = row.origins[static_cast<std::size_t>(op.microbatch)];
        const ReplicaRow& from = given->second[static_cast<std::size_t>(origin.replica)];
        const std::size_t at = op_of.at({op.stage, op.kind, origin.microbatch});
        const double factor = worker(row.replica, op) / worker(origin.replica, op);
        const bool moved = !differ(row.predicted_s[i], from.predicted_s[at] * factor) &&
                           (row.recorded_s.empty() || !differ(row.recorded_s[i], from.recorded_s[at] * factor));
        if (!moved) return fail(fmt::format("times of replica {} are not those of its microbatches", row.replica));
      }
    }
  }

  void check_clocks(const std::vector<ReplicaRow>& rows) {
    for (const ReplicaRow& row : rows) {
      bool is_full = true;
      for (std::size_t i = 0; i < row.clocks_mhz.size(); ++i) {
        const auto& op = pipeline_.ops()[i];
        if (profile_.find(op.stage, op.kind, row.clocks_mhz[i], "") == nullptr) {
          return fail(fmt::format("replica {}: {} of stage {} was not measured at {} MHz", row.replica, name(op.kind),
                                  op.stage, row.clocks_mhz[i]));
        }
        is_full = is_full && row.clocks_mhz[i] == profile_.at_max_clock(op.stage, op.kind).clock_mhz;
      }
      if (file_.clocks_per == ClocksPer::replica && !is_full &&
          std::ranges::any_of(row.clocks_mhz, [&](int clock) { return clock != row.clocks_mhz.front(); })) {
        fail(fmt::format("replica {} has several clocks", row.replica));
      }
    }
  }

  [[nodiscard]] std::vector<int> last_clocks(const std::vector<int>& clocks_mhz) const {
    std::vector<int> last(static_cast<std::size_t>(file_.ranks));
    for (std::size_t i = 0; i < clocks_mhz.size(); ++i)
      last[static_cast<std::size_t>(pipeline_.ops()[i].rank)] = clocks_mhz[i];
    return last;
  }

  /// Lists of a replica's row: times of ops, and shares of them in which a mean GPU computes.
  struct Columns {
    std::vector<double> ReplicaRow::*full_s;
    std::vector<double> ReplicaRow::*busy;
  };
  static constexpr Columns kPredicted{&ReplicaRow::predicted_s, &ReplicaRow::predicted_busy};
  static constexpr Columns kRecorded{&ReplicaRow::recorded_s, &ReplicaRow::recorded_busy};

  /// Costs of a replica's ops at these clocks.
  [[nodiscard]] std::vector<simulator::OpCost> costs(const std::vector<double>& full_s,
                                                     const std::vector<int>& clocks_mhz,
                                                     const std::vector<int>& clocks_before_mhz) const {
    std::vector<double> work;
    std::vector<simulator::OpCost> costs;
    for (std::size_t i = 0; i < full_s.size(); ++i) {
      const auto& op = pipeline_.ops()[i];
      work.push_back(full_s[i] / profile_.at_max_clock(op.stage, op.kind).time_s);
      const profile::Measurement& row = profile_.at_clock(op.stage, op.kind, clocks_mhz[i]);
      costs.push_back({work[i] * row.time_s, work[i] * row.energy_j});
    }
    if (file_.late_by_s == 0) return costs;
    return simulator::costs_with_switch_latency(dag_, profile_, {clocks_mhz, {}}, file_.late_by_s,
                                                {work, clocks_before_mhz});
  }

  [[nodiscard]] std::vector<int> full_clocks() const {
    std::vector<int> clocks;
    for (const auto& op : pipeline_.ops()) clocks.push_back(profile_.at_max_clock(op.stage, op.kind).clock_mhz);
    return clocks;
  }

  /// A step's figures, replayed.
  [[nodiscard]] StepFigures replayed(const std::vector<std::vector<simulator::OpCost>>& replicas,
                                     const std::vector<ReplicaRow>& rows, const Columns& columns) const {
    StepFigures step;
    double busy_s = 0;
    double busy_j = 0;
    double clock_s_mhz = 0;
    std::vector<double> busy_of_rank_s(static_cast<std::size_t>(file_.ranks), 0);
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      const std::vector<simulator::OpCost>& of_replica = replicas[r];
      std::vector<double> times_s;
      for (std::size_t i = 0; i < of_replica.size(); ++i) {
        const std::vector<double>& shares = rows[r].*columns.busy;
        const double share = shares.empty() ? 1 : shares[i];
        times_s.push_back(of_replica[i].time_s);
        busy_j += share * of_replica[i].energy_j;
        busy_s += share * of_replica[i].time_s;
        clock_s_mhz += share * of_replica[i].time_s * rows[r].clocks_mhz[i];
        busy_of_rank_s[static_cast<std::size_t>(pipeline_.ops()[i].rank)] += share * of_replica[i].time_s;
      }
      std::vector<double> start_s(times_s.size());
      step.time_s = std::max(step.time_s, pipeline_.start_times<double>(times_s, start_s));
    }
    const auto count = static_cast<double>(replicas.size());
    step.energy_j = busy_j;
    for (std::size_t rank = 0; rank < busy_of_rank_s.size(); ++rank) {
      step.energy_j += file_.blocking_power_w[rank] * (count * step.time_s - busy_of_rank_s[rank]);
    }
    step.waiting = 1 - busy_s / (count * file_.ranks * step.time_s);
    step.clock_mhz = clock_s_mhz / busy_s;
    return step;
  }

  void check_pair(std::string_view times, const StepPair& stated, const std::vector<ReplicaRow>& rows,
                  const Columns& columns, Deal deal) {
    const std::vector<int> full = full_clocks();
    const std::vector<int> full_before = last_clocks(full);
    const std::vector<std::vector<int>>& before = before_[deal];
    std::vector<std::vector<simulator::OpCost>> at_full, planned;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      at_full.push_back(costs(rows[r].*columns.full_s, full, full_before));
      planned.push_back(costs(rows[r].*columns.full_s, rows[r].clocks_mhz, before.empty() ? full_before : before[r]));
    }
    const auto compare = [&](std::string_view what, const StepFigures& figures, const StepFigures& own) {
      if (!differ(figures.time_s, own.time_s) && !differ(figures.energy_j, own.energy_j) &&
          std::abs(figures.waiting - own.waiting) <= kRoundingError) {
        return;
      }
      fail(fmt::format("{} with {} times is stated as {:.9g} s, {:.9g} J and replays to {:.9g} s, {:.9g} J", what,
                       times, figures.time_s, figures.energy_j, own.time_s, own.energy_j));
    };
    compare("full clocks", stated.full_clocks, replayed(at_full, rows, columns));
    const StepFigures plan = replayed(planned, rows, columns);
    compare("the plan", stated.plan, plan);
    if (differ(stated.plan.clock_mhz, plan.clock_mhz)) {
      fail(fmt::format("the mean clock with {} times is stated as {:.9g} MHz and replays to {:.9g} MHz", times,
                       stated.plan.clock_mhz, plan.clock_mhz));
    }
  }

  void check_bound(const StepRow& step, const std::vector<ReplicaRow>& rows) {
    double bound_j = 0;
    for (const ReplicaRow& row : rows) {
      if (!conserves(row.flow_nw)) return fail(fmt::format("the flow of replica {} is not conserved", row.replica));
      for (std::size_t i = 0; i < row.predicted_s.size(); ++i) {
        const auto& op = pipeline_.ops()[i];
        const double work = row.predicted_s[i] / profile_.at_max_clock(op.stage, op.kind).time_s;
        const double price_w = w_from_nw(row.flow_nw[1 + i]);
        const double blocking_w = file_.blocking_power_w[static_cast<std::size_t>(op.rank)];
        const double share = row.predicted_busy.empty() ? 1 : row.predicted_busy[i];
        const auto priced_j = [&](const profile::Measurement& m) {
          return share * (m.energy_j - blocking_w * m.time_s) + price_w * m.time_s;
        };
        const auto options = profile_.measurements(op.stage, op.kind);
        double least_j = priced_j(options.front());
        for (const profile::Measurement& m : options) least_j = std::min(least_j, priced_j(m));
        bound_j += work * least_j;
      }
      bound_j -= w_from_nw(row.flow_nw[0]) * step.predicted.full_clocks.time_s;
    }
    const double power_w = std::accumulate(file_.blocking_power_w.begin(), file_.blocking_power_w.end(), 0.0);
    bound_j += static_cast<double>(rows.size()) * power_w * step.predicted.plan.time_s;
    if (differ(bound_j, step.bound_j)) {
      fail(fmt::format("the bound is stated as {:.9g} J, and its flows prove {:.9g} J", step.bound_j, bound_j));
    }
    if (bound_j <= 0) return fail("its bound is not above 0 J");
    const double energy_j = step.predicted.plan.energy_j;
    const double gap_pct = kPercentOf * (energy_j / bound_j - 1);
    report_.max_gap_pct = std::max(report_.max_gap_pct, gap_pct);
    if (!(std::abs(gap_pct - step.gap_pct) <= kPercentOf * 4 * kRoundingError)) {
      fail(fmt::format("the gap is stated as {:.9g} %, and is {:.9g} %", step.gap_pct, gap_pct));
    }
    if (file_.late_by_s == 0 && energy_j < bound_j * (1 - kRoundingError)) fail("the plan uses less than its bound");
  }

  [[nodiscard]] bool conserves(const std::vector<PowerNw>& flow) const {
    const std::size_t ops = pipeline_.ops().size();
    std::vector<PowerNw> in(ops, 0), out(ops, 0);
    for (std::size_t i = 0; i < pipeline_.precedences().size(); ++i) {
      const auto& [before, after] = pipeline_.precedences()[i];
      out[before] += flow[1 + ops + i];
      in[after] += flow[1 + ops + i];
    }
    PowerNw begun = 0, ended = 0;
    for (std::size_t op = 0; op < ops; ++op) {
      const PowerNw own = flow[1 + op];
      if (!pipeline_.has_predecessor(op)) begun += own;
      if (!pipeline_.has_successor(op)) ended += own;
      if (pipeline_.has_predecessor(op) && in[op] != own) return false;
      if (pipeline_.has_successor(op) && out[op] != own) return false;
    }
    return begun == flow[0] && ended == flow[0];
  }

  const StepFolder& folder_;
  StepsFile file_;
  profile::ProfileFile profile_file_;
  const profile::StageProfile& profile_ = profile_file_.profile;
  schedule::Schedule schedule_;
  schedule::PipelineDag dag_;
  planner::verifier::Pipeline pipeline_;
  std::optional<AmountsCheck> amounts_;
  std::map<StepDeal, std::vector<ReplicaRow>> rows_;
  std::map<Deal, std::vector<std::vector<int>>> before_;
  planner::verifier::Findings findings_;
  std::string where_;
  StepVerifyReport report_;
};

}  // namespace

StepVerifyReport verify_steps(const StepFolder& folder, Progress& progress) {
  return StepCheck(folder).check(progress);
}

}  // namespace lowgear::steps
