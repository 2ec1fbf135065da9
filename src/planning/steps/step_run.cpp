#include "planning/steps/step_run.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace lowgear::steps {

namespace {

/// How finely a margin is found.
constexpr double kFineness = kMaxMargin / 60;
/// What sums of doubles in another order may differ by, as a share.
constexpr double kSumRounding = 1e-9;
/// Steps that the margin is found on, the last fitted ones.
constexpr std::size_t kMarginSteps = 32;

using ByReplica = std::vector<std::vector<double>>;

class Planning {
 public:
  Planning(const PredictedSteps& predicted, const schedule::PipelineDag& dag, const profile::StageProfile& profile,
           std::span<const double> blocking_power_w, const StepRunOptions& options, Progress& progress)
      : predicted_(predicted),
        dag_(dag),
        profile_(profile),
        power_w_(blocking_power_w),
        options_(options),
        progress_(progress),
        any_planner_(planner(0)) {}

  StepRun run() {
    StepRun result;
    if (predicted_.replicas == 1 || predicted_.deals_are_given) result.deals = result.deals.first(1);
    for (const Deal deal : result.deals) set_margin(deal, result);
    std::array<std::vector<std::vector<int>>, 2> before;  // clocks that the step before ends with
    const std::array planners{planner(result.margins[0]), planner(result.margins[1])};
    for (std::size_t i = 0; i < predicted_.steps.size(); ++i) {
      progress_.update("planning steps", static_cast<double>(i) / static_cast<double>(predicted_.steps.size()));
      const StepUnits& units = predicted_.steps[i];
      PlannedStep& step = result.steps.emplace_back(
          PlannedStep{units.number, units.fitted, units.fault, {}, {}, units.replayed_by_fit, units.not_replayed});
      if (!units.fault.empty()) {
        for (const Deal deal : result.deals) {
          if (!units.recorded_s.empty()) step.safe.push_back(safe_pair(units, before.at(place(deal))));
        }
        before = {};
        continue;
      }
      for (const Deal deal : result.deals) {
        const StepPlanner& with = planners.at(place(deal));
        PlannedDeal& dealt = step.deals.emplace_back(deal_of(units, deal));
        plan(with, before.at(place(deal)), dealt);
        bound(with, dealt);
      }
    }
    return result;
  }

 private:
  [[nodiscard]] StepPlanner planner(double margin) const {
    return {dag_, profile_, power_w_, {options_.clocks_per, margin, options_.late_by_s}};
  }

  [[nodiscard]] PlannedDeal deal_of(const StepUnits& units, Deal deal) const {
    PlannedDeal given;
    for (int r = 0; r < predicted_.replicas; ++r) {
      std::vector<Origin>& of_replica = given.origins.emplace_back();
      for (int m = 0; m < dag_.microbatches; ++m) of_replica.push_back({r, m});
    }
    set_times(units, given);
    given.predicted_busy = units.predicted_busy;
    given.recorded_busy = units.recorded_busy;
    return deal == Deal::balanced ? balanced(units, std::move(given)) : given;
  }

  /// Time of each microbatch on a typical worker, and how much slower than one each replica is.
  struct Loads {
    ByReplica load_s;
    std::vector<double> slowness;
  };
  [[nodiscard]] Loads loads_of(const StepUnits& units) const {
    Loads loads;
    for (int r = 0; r < predicted_.replicas; ++r) {
      std::vector<double>& load_s = loads.load_s.emplace_back(static_cast<std::size_t>(dag_.microbatches), 0.0);
      double own_s = 0;
      double typical_s = 0;
      for (std::size_t op = 0; op < dag_.ops.size(); ++op) {
        const double time_s = units.predicted_s[static_cast<std::size_t>(r)][op];
        const double at_typical_s = time_s / worker(r, op);
        load_s[static_cast<std::size_t>(dag_.ops[op].microbatch)] += at_typical_s;
        own_s += time_s;
        typical_s += at_typical_s;
      }
      loads.slowness.push_back(own_s / typical_s);
    }
    return loads;
  }

  /// The given deal where no other keeps its memory and takes no longer.
  [[nodiscard]] PlannedDeal balanced(const StepUnits& units, PlannedDeal given) const {
    const auto [load_s, slowness] = loads_of(units);
    const ByReplica& held = units.tokens.empty() ? load_s : units.tokens;
    const std::vector<double> most = most_in_flight(given.origins, held);
    PlannedDeal dealt;
    dealt.origins = balanced_deal(load_s, slowness);
    const auto fits = [&] {
      return std::ranges::equal(most_in_flight(dealt.origins, held), most,
                                [](double own, double of_given) { return own <= of_given * (1 + kSumRounding); });
    };
    if (!fits()) {
      for (std::vector<Origin>& of_replica : dealt.origins) of_replica = in_turns(of_replica);
    }
    set_times(units, dealt);
    return fits() && longest_s(dealt) <= longest_s(given) ? dealt : given;
  }

  /// Long and short ones of a list that has the longest first.
  [[nodiscard]] static std::vector<Origin> in_turns(const std::vector<Origin>& longest_first) {
    std::vector<Origin> order;
    for (std::size_t i = 0; i < longest_first.size(); ++i) {
      order.push_back(longest_first[i % 2 == 0 ? i / 2 : longest_first.size() - 1 - i / 2]);
    }
    return order;
  }

  /// By rank, the most of `held`, by origin, that any replica's microbatches between forward and backward add up to.
  [[nodiscard]] std::vector<double> most_in_flight(const std::vector<std::vector<Origin>>& origins,
                                                   const ByReplica& held) const {
    std::vector<double> most(static_cast<std::size_t>(dag_.ranks), 0);
    for (const std::vector<Origin>& of_replica : origins) {
      std::vector<double> now(most.size(), 0);
      for (const schedule::ComputeOp& op : dag_.ops) {
        const Origin& origin = of_replica[static_cast<std::size_t>(op.microbatch)];
        const double own = held[static_cast<std::size_t>(origin.replica)][static_cast<std::size_t>(origin.microbatch)];
        const auto rank = static_cast<std::size_t>(op.rank);
        now[rank] += op.kind == OpKind::forward ? own : -own;
        most[rank] = std::max(most[rank], now[rank]);
      }
    }
    return most;
  }

  [[nodiscard]] double worker(int replica, std::size_t op) const {
    return predicted_.model.worker(replica, dag_.ops[op].stage, dag_.ops[op].kind);
  }

  /// Times of the deal: those of each unit's origin, on the worker that runs it.
  void set_times(const StepUnits& units, PlannedDeal& dealt) const {
    std::map<std::tuple<int, OpKind, int>, std::size_t> place_of;  // ops of two microbatches may stand in other orders
    for (std::size_t op = 0; op < dag_.ops.size(); ++op) {
      place_of[{dag_.ops[op].stage, dag_.ops[op].kind, dag_.ops[op].microbatch}] = op;
    }
    const auto deal = [&](const ByReplica& times) {
      ByReplica result;
      for (std::size_t r = 0; r < times.size(); ++r) {
        std::vector<double>& of_replica = result.emplace_back();
        for (std::size_t op = 0; op < dag_.ops.size(); ++op) {
          const Origin& origin = dealt.origins[r][static_cast<std::size_t>(dag_.ops[op].microbatch)];
          const double factor = worker(static_cast<int>(r), op) / worker(origin.replica, op);
          const std::size_t from = place_of.at({dag_.ops[op].stage, dag_.ops[op].kind, origin.microbatch});
          of_replica.push_back(times[static_cast<std::size_t>(origin.replica)][from] * factor);
        }
      }
      return result;
    };
    dealt.predicted_s = deal(units.predicted_s);
    dealt.recorded_s = deal(units.recorded_s);
  }

  [[nodiscard]] double longest_s(const PlannedDeal& dealt) const {
    double longest_s = 0;
    for (const std::vector<double>& times_s : dealt.predicted_s) {
      longest_s = std::max(longest_s, any_planner_.full_time_s(any_planner_.work(times_s)));
    }
    return longest_s;
  }

  void for_each(std::size_t count, const std::function<void(std::size_t)>& work) const {
    if (!options_.runner) {
      for (std::size_t i = 0; i < count; ++i) work(i);
      return;
    }
    options_.runner(count, options_.threads, "planning steps", progress_,
                    [&](const ParallelTask& task) { work(task.index); });
  }

  /// Chooses clocks, and sets the deal's figures. `before` by replica and rank: the clocks that the step before ends
  /// with; then those of this one.
  void plan(const StepPlanner& with, std::vector<std::vector<int>>& before, PlannedDeal& dealt) const {
    const std::size_t replicas = dealt.predicted_s.size();
    before.resize(replicas);
    for (std::vector<int>& clocks : before) {
      if (clocks.empty()) clocks = last_clocks(with.full_clocks_mhz());
    }
    const double begin_s = options_.clock ? options_.clock() : 0;
    std::vector<std::vector<double>> work(replicas);
    double longest_s = 0;
    for (std::size_t r = 0; r < replicas; ++r) {
      work[r] = with.work(dealt.predicted_s[r]);
      longest_s = std::max(longest_s, with.full_time_s(work[r]));
    }
    std::vector<ReplicaPlan> plans(replicas);
    // A thread takes every n-th replica: one task each would cost more to start than it takes.
    const std::size_t tasks = options_.runner ? std::max<std::size_t>(options_.threads, 1) : 1;
    for_each(tasks, [&](std::size_t task) {
      for (std::size_t r = task; r < replicas; r += tasks) {
        plans[r] = with.plan(work[r], longest_s, before[r], of_replica(dealt.predicted_busy, r));
      }
    });
    if (options_.clock) dealt.planning_s = options_.clock() - begin_s;

    dealt.clocks_mhz.clear();
    for (ReplicaPlan& of_replica : plans) dealt.clocks_mhz.push_back(std::move(of_replica.clocks_mhz));
    dealt.predicted = replayed(with, dealt, {dealt.predicted_s, dealt.predicted_busy}, before);
    if (!dealt.recorded_s.empty()) {
      dealt.recorded = replayed(with, dealt, {dealt.recorded_s, dealt.recorded_busy}, before);
    }
    for (std::size_t r = 0; r < replicas; ++r) before[r] = last_clocks(dealt.clocks_mhz[r]);
  }

  /// Full clocks with recorded times; each rank begins with the clock `before`.
  [[nodiscard]] StepPair safe_pair(const StepUnits& units, std::vector<std::vector<int>> before) const {
    PlannedDeal dealt;
    dealt.clocks_mhz.assign(units.recorded_s.size(), any_planner_.full_clocks_mhz());
    before.resize(units.recorded_s.size(), last_clocks(any_planner_.full_clocks_mhz()));
    return replayed(any_planner_, dealt, {units.recorded_s, units.recorded_busy}, before);
  }

  void bound(const StepPlanner& with, PlannedDeal& dealt) const {
    const std::size_t replicas = dealt.predicted_s.size();
    dealt.bounds.resize(replicas);
    double sum_j = 0;
    for (std::size_t r = 0; r < replicas; ++r) {
      dealt.bounds[r] = with.bound(with.work(dealt.predicted_s[r]), dealt.predicted.full_clocks.time_s,
                                   of_replica(dealt.predicted_busy, r));
      sum_j += dealt.bounds[r].effective_energy_j;
    }
    dealt.bound_j = sum_j + static_cast<double>(replicas) * total_power_w() * dealt.predicted.plan.time_s;
  }

  [[nodiscard]] double total_power_w() const { return std::accumulate(power_w_.begin(), power_w_.end(), 0.0); }

  [[nodiscard]] std::vector<int> last_clocks(const std::vector<int>& clocks_mhz) const {
    std::vector<int> last;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(dag_.ranks); ++rank) {
      last.push_back(clocks_mhz[static_cast<std::size_t>(dag_.rank_begin[rank + 1]) - 1]);
    }
    return last;
  }

  /// Times of ops at full clocks, and shares of them.
  struct Units {
    const ByReplica& times_s;
    const ByReplica& busy;
  };
  [[nodiscard]] static std::span<const double> of_replica(const ByReplica& busy, std::size_t replica) {
    return busy.empty() ? std::span<const double>() : busy[replica];
  }

  [[nodiscard]] StepPair replayed(const StepPlanner& with, const PlannedDeal& dealt, const Units& units,
                                  const std::vector<std::vector<int>>& before) const {
    const std::vector<int>& full = with.full_clocks_mhz();
    const std::vector<int> full_before = last_clocks(full);
    std::vector<ReplicaFigures> at_full, planned;
    for (std::size_t r = 0; r < units.times_s.size(); ++r) {
      const std::vector<double> work = with.work(units.times_s[r]);
      const std::span<const double> busy = of_replica(units.busy, r);
      at_full.push_back(with.replay(work, full, full_before, busy));
      planned.push_back(with.replay(work, dealt.clocks_mhz[r], before[r], busy));
    }
    return {sum_of(at_full), sum_of(planned)};
  }

  [[nodiscard]] StepFigures sum_of(const std::vector<ReplicaFigures>& replicas) const {
    StepFigures step;
    double busy_s = 0;
    double clock_s_mhz = 0;
    for (const ReplicaFigures& replica : replicas) {
      step.time_s = std::max(step.time_s, replica.time_s);
      step.energy_j += replica.effective_energy_j;
      busy_s += replica.busy_s;
      clock_s_mhz += replica.clock_s_mhz;
    }
    const auto count = static_cast<double>(replicas.size());
    step.energy_j += count * total_power_w() * step.time_s;
    step.waiting = 1 - busy_s / (count * static_cast<double>(dag_.ranks) * step.time_s);
    step.clock_mhz = clock_s_mhz / busy_s;
    return step;
  }

  void set_margin(Deal deal, StepRun& result) const {
    double& margin = result.margins.at(place(deal));
    bool& keeps = result.keeps_lateness.at(place(deal));
    keeps = true;
    std::vector<PlannedDeal> steps;
    for (const StepUnits& units : predicted_.steps) {
      if (units.fitted && units.fault.empty() && !units.recorded_s.empty()) steps.push_back(deal_of(units, deal));
    }
    if (steps.empty()) return;
    if (steps.size() > kMarginSteps) steps.erase(steps.begin(), steps.end() - kMarginSteps);
    const auto late_steps = [&](double with_margin) {
      progress_.update("finding the margin", -1);
      const StepPlanner with = planner(with_margin);
      std::vector<std::vector<int>> before;
      double late = 0;
      for (PlannedDeal& step : steps) {
        plan(with, before, step);
        if (step.recorded->plan.time_s > (1 + kLate) * step.recorded->full_clocks.time_s) ++late;
      }
      return late;
    };
    const double allowed = options_.late_share * static_cast<double>(steps.size());
    const double without = late_steps(0);
    if (without <= allowed) return;
    const double with_most = late_steps(kMaxMargin);
    keeps = with_most <= allowed;
    if (keeps || with_most < without) margin = kMaxMargin;
    for (double low = 0; keeps && margin - low > kFineness;) {
      const double middle = (low + margin) / 2;
      (late_steps(middle) <= allowed ? margin : low) = middle;
    }
  }

  const PredictedSteps& predicted_;
  const schedule::PipelineDag& dag_;
  const profile::StageProfile& profile_;
  std::span<const double> power_w_;
  const StepRunOptions& options_;
  Progress& progress_;
  StepPlanner any_planner_;  ///< for full clocks
};

void add(const StepFigures& figures, StepFigures& sum) {
  sum.time_s += figures.time_s;
  sum.energy_j += figures.energy_j;
  sum.waiting += figures.waiting;
  sum.clock_mhz += figures.clock_mhz;
}

}  // namespace

std::string_view name(Deal deal) { return deal == Deal::given ? "given" : "balanced"; }

std::vector<std::vector<Origin>> balanced_deal(const std::vector<std::vector<double>>& load_s,
                                               std::span<const double> slowness) {
  std::vector<std::pair<double, Origin>> longest_first;
  for (std::size_t r = 0; r < load_s.size(); ++r) {
    for (std::size_t m = 0; m < load_s[r].size(); ++m) {
      longest_first.emplace_back(load_s[r][m], Origin{static_cast<int>(r), static_cast<int>(m)});
    }
  }
  std::ranges::sort(longest_first, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<std::vector<Origin>> origins(load_s.size());
  std::vector<double> dealt_s(load_s.size(), 0);
  for (const auto& [time_s, origin] : longest_first) {
    std::size_t least = load_s.size();
    for (std::size_t r = 0; r < load_s.size(); ++r) {
      if (origins[r].size() == load_s[r].size()) continue;
      const auto ends_s = [&](std::size_t at) { return (dealt_s[at] + time_s) * slowness[at]; };
      if (least == load_s.size() || ends_s(r) < ends_s(least)) least = r;
    }
    origins[least].push_back(origin);
    dealt_s[least] += time_s;
  }
  return origins;
}

StepRun plan_steps(const PredictedSteps& predicted, const schedule::PipelineDag& dag,
                   const profile::StageProfile& profile, std::span<const double> blocking_power_w,
                   const StepRunOptions& options, Progress& progress) {
  return Planning(predicted, dag, profile, blocking_power_w, options, progress).run();
}

const StepPair* figures(const PlannedStep& step, Deal deal, Times times) {
  const bool is_replay = times != Times::predicted;
  if (is_replay && times != Times::replayed && step.replayed_by_fit != (times == Times::by_fit)) return nullptr;
  if (step.deals.empty()) return is_replay && place(deal) < step.safe.size() ? &step.safe[place(deal)] : nullptr;
  if (place(deal) >= step.deals.size()) return nullptr;
  const PlannedDeal& dealt = step.deals[place(deal)];
  if (!is_replay) return &dealt.predicted;
  return dealt.recorded ? &*dealt.recorded : nullptr;
}

StepTotals totals(const StepRun& run, Deal deal, Times times, Which which) {
  StepTotals result;
  for (const PlannedStep& step : run.steps) {
    const StepPair* const pair = figures(step, deal, times);
    if (pair == nullptr || (which != Which::all && step.fitted != (which == Which::fitted))) continue;
    ++result.steps;
    add(pair->full_clocks, result.sums.full_clocks);
    add(pair->plan, result.sums.plan);
    if (step.deals.empty()) {
      ++result.safe_steps;
      result.bound_j += pair->plan.energy_j;
      result.bound_full_j += pair->full_clocks.energy_j;
    } else {
      result.bound_j += step.deals[place(deal)].bound_j;
      result.bound_full_j += step.deals[place(deal)].predicted.full_clocks.energy_j;
    }
    const double lateness = pair->plan.time_s / pair->full_clocks.time_s - 1;
    result.mean_lateness += std::max(0.0, lateness);
    if (lateness > kLate) ++result.late_steps;
  }
  if (result.steps == 0) return result;
  const auto count = static_cast<double>(result.steps);
  for (StepFigures* const figures : {&result.sums.full_clocks, &result.sums.plan}) {
    figures->waiting /= count;
    figures->clock_mhz /= count;
  }
  result.mean_lateness /= count;
  result.late_share = result.late_steps / count;
  return result;
}

}  // namespace lowgear::steps
