/// What part of the certified gap is the bound's: small pipelines, whose best discrete plan is found by exhaustion. No
/// search can be nearer to the bound than that plan.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "measurement.h"
#include "pipelines.h"
#include "planning/planner/frontier/precedence.h"
#include "planning/planner/planners/at.h"
#include "planning/planner/planners/discrete_planner.h"

namespace lowgear::bench {
namespace {

using planner::at;

/// Every fifth of the 100 deadlines of gap_study.
constexpr std::size_t kStride = 5;
/// Most partial plans that are kept; beyond it a deadline counts as open.
constexpr std::size_t kMaxPartial = 8'000;
/// Flows that bound partial plans: those of the deadline and of deadlines that much later, in thousandths.
constexpr std::array kFlowOffsets{0, -5, 5, -15, 15, -30, 30};

/// Prices of a vertex of the frontier: for any plan, energy >= what `least` sums up to - value x makespan.
struct Flow {
  TimePs time_ps = 0;
  PowerNw value_nw = 0;
  std::vector<PowerNw> op_nw;
  std::vector<PowerNw> edge_nw;
};

class FlowRecorder final : public planner::FrontierObserver {
 public:
  void vertex(const planner::FrontierSolver& solver) override {
    const auto ops = solver.op_flow_nw();
    const auto edges = solver.edge_flow_nw();
    flows_.push_back(
        {solver.time_ps(), solver.flow_value_nw(), {ops.begin(), ops.end()}, {edges.begin(), edges.end()}});
  }
  /// Of the stretch in which the time is.
  [[nodiscard]] const Flow& at_time(TimePs time_ps) const {
    for (const Flow& flow : flows_) {
      if (flow.time_ps <= time_ps) return flow;
    }
    return flows_.back();
  }

 private:
  std::vector<Flow> flows_;  ///< slowest first
};

/// The first ops of the order have clocks.
struct Partial {
  std::vector<TimePs> finish_ps;  ///< of the ops that others still wait for, in their order; of all, after the last one
  EnergyZj energy_zj = 0;
};

/// Finds the least energy of any assignment of clocks that keeps a deadline. Goes through the ops in an order and keeps
/// every partial plan that no other one beats in all finishes and in energy, and that may become better than a given
/// plan. The schedule has one last op, as 1F1B has.
class Exhaustion {
 public:
  Exhaustion(const planner::PlanningModel& model, std::vector<std::int32_t> order, std::vector<const Flow*> flows,
             TimePs deadline_ps)
      : model_(&model),
        graph_(model.instance),
        order_(std::move(order)),
        flows_(std::move(flows)),
        deadline_ps_(deadline_ps),
        latest_finish_ps_(order_.size(), deadline_ps),
        place_(order_.size(), kNone),
        done_(order_.size(), 0) {
    for (std::size_t i = order_.size(); i-- > 0;) {
      const std::int32_t op = order_[i];
      for (const std::int32_t after : graph_.successors(op)) {
        const TimePs start_ps = latest_finish_ps_[at(after)] - model.choices_of(after).front().time_ps;
        latest_finish_ps_[at(op)] = std::min(latest_finish_ps_[at(op)], start_ps);
      }
    }
  }

  /// Least total energy, at most `known_zj`, which a plan reaches; none when there are too many partial plans.
  [[nodiscard]] std::optional<EnergyZj> least_zj(EnergyZj known_zj) {
    std::vector<Partial> partials(1);
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const std::vector<Partial> next = extended(partials, i, known_zj);
      if (next.empty()) return known_zj;
      partials = not_beaten(next);
      if (partials.size() > kMaxPartial) return std::nullopt;
    }
    EnergyZj least_zj = known_zj;
    for (const Partial& partial : partials) {
      const EnergyZj waiting_zj = static_cast<EnergyZj>(model_->instance.blocking_power_nw) * partial.finish_ps.front();
      least_zj = std::min(least_zj, partial.energy_zj + waiting_zj);
    }
    return least_zj;
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  [[nodiscard]] bool is_awaited(std::int32_t op) const {
    return std::ranges::any_of(graph_.successors(op), [&](std::int32_t after) { return done_[at(after)] == 0; });
  }

  /// Each of `partials` with each clock of the next op, but for those that `known_zj` beats already.
  [[nodiscard]] std::vector<Partial> extended(const std::vector<Partial>& partials, std::size_t i, EnergyZj known_zj) {
    const std::int32_t op = order_[i];
    const std::vector<std::int32_t> awaited_before = awaited_;
    const std::vector<std::size_t> place_before = place_;
    done_[at(op)] = 1;
    awaited_.push_back(op);
    std::erase_if(awaited_, [&](std::int32_t it) { return !is_awaited(it); });
    const bool is_last = awaited_.empty();
    if (is_last) awaited_.push_back(op);
    place_.assign(order_.size(), kNone);
    for (std::size_t k = 0; k < awaited_.size(); ++k) place_[at(awaited_[k])] = k;
    crossing_.clear();
    for (std::size_t e = 0; e < model_->instance.edges.size(); ++e) {
      const schedule::DagEdge& edge = model_->instance.edges[e];
      if (done_[at(edge.from)] != 0 && done_[at(edge.to)] == 0) crossing_.emplace_back(e, place_[at(edge.from)]);
    }
    const std::vector<EnergyZj> base_zj = least_of_rest_zj(i + 1);
    std::vector<Partial> next;
    for (const Partial& partial : partials) {
      TimePs start_ps = 0;
      for (const std::int32_t before : graph_.predecessors(op)) {
        start_ps = std::max(start_ps, partial.finish_ps[place_before[at(before)]]);
      }
      for (const planner::ClockChoice& choice : model_->choices_of(op)) {
        const TimePs finish_ps = start_ps + choice.time_ps;
        if (finish_ps > latest_finish_ps_[at(op)]) break;
        Partial longer;
        longer.energy_zj = partial.energy_zj + choice.effective_energy_zj;
        for (const std::int32_t it : awaited_) {
          longer.finish_ps.push_back(it == op ? finish_ps : partial.finish_ps[place_before[at(it)]]);
        }
        if (!is_last) raise(longer);
        if (bound_zj(longer, base_zj) < known_zj) next.push_back(std::move(longer));
      }
    }
    return next;
  }

  /// Finishes that no op waits for yet, as all that wait for them also wait for a later one, count as that one.
  void raise(Partial& partial) const {
    for (std::size_t k = 0; k < awaited_.size(); ++k) {
      TimePs needed_ps = deadline_ps_;
      for (const std::int32_t after : graph_.successors(awaited_[k])) {
        if (done_[at(after)] != 0) continue;
        TimePs start_ps = 0;
        for (const std::int32_t before : graph_.predecessors(after)) {
          if (done_[at(before)] != 0) start_ps = std::max(start_ps, partial.finish_ps[place_[at(before)]]);
        }
        needed_ps = std::min(needed_ps, start_ps);
      }
      partial.finish_ps[k] = std::max(partial.finish_ps[k], needed_ps);
    }
  }

  /// By flow: the least that the ops from the `first` one on use, with their time at its price, and the deadline's.
  [[nodiscard]] std::vector<EnergyZj> least_of_rest_zj(std::size_t first) const {
    std::vector<EnergyZj> sums_zj;
    for (const Flow* flow : flows_) {
      const PowerNw beyond_waiting_nw = flow->value_nw - model_->instance.blocking_power_nw;
      EnergyZj sum_zj = -static_cast<EnergyZj>(beyond_waiting_nw) * deadline_ps_;
      for (std::size_t i = first; i < order_.size(); ++i) {
        const auto priced_zj = [&](const planner::ClockChoice& choice) {
          return choice.effective_energy_zj + static_cast<EnergyZj>(flow->op_nw[at(order_[i])]) * choice.time_ps;
        };
        const auto& choices = model_->choices_of(order_[i]);
        EnergyZj least_zj = priced_zj(choices.front());
        for (const planner::ClockChoice& choice : choices) least_zj = std::min(least_zj, priced_zj(choice));
        sum_zj += least_zj;
      }
      sums_zj.push_back(sum_zj);
    }
    return sums_zj;
  }

  /// No plan that begins so and keeps the deadline uses less.
  [[nodiscard]] EnergyZj bound_zj(const Partial& partial, const std::vector<EnergyZj>& base_zj) const {
    EnergyZj highest_zj = 0;
    for (std::size_t k = 0; k < flows_.size(); ++k) {
      EnergyZj sum_zj = partial.energy_zj + base_zj[k];
      for (const auto& [edge, place] : crossing_) {
        sum_zj += static_cast<EnergyZj>(flows_[k]->edge_nw[edge]) * partial.finish_ps[place];
      }
      if (awaited_.size() == 1 && graph_.successors(awaited_.front()).empty()) {
        sum_zj += static_cast<EnergyZj>(flows_[k]->value_nw) * partial.finish_ps.front();
      }
      highest_zj = k == 0 ? sum_zj : std::max(highest_zj, sum_zj);
    }
    return highest_zj;
  }

  [[nodiscard]] static std::vector<Partial> not_beaten(std::vector<Partial> partials) {
    std::ranges::sort(partials, {}, &Partial::energy_zj);
    std::vector<Partial> kept;
    for (Partial& partial : partials) {
      const bool is_beaten = std::ranges::any_of(kept, [&](const Partial& other) {
        return std::ranges::equal(other.finish_ps, partial.finish_ps, std::less_equal<>());
      });
      if (!is_beaten) kept.push_back(std::move(partial));
      if (kept.size() > kMaxPartial) break;
    }
    return kept;
  }

  const planner::PlanningModel* model_;
  planner::PrecedenceGraph graph_;
  std::vector<std::int32_t> order_;
  std::vector<const Flow*> flows_;
  TimePs deadline_ps_;
  std::vector<TimePs> latest_finish_ps_;                       ///< by op, with all after it at their fastest
  std::vector<std::size_t> place_;                             ///< by op: in a partial plan's finishes
  std::vector<std::int32_t> awaited_;                          ///< ops with a clock that others without one wait for
  std::vector<char> done_;                                     ///< by op: whether it has a clock
  std::vector<std::pair<std::size_t, std::size_t>> crossing_;  ///< edges from awaited ops on, and those ops' places
};

/// The first stages of a given profile and its last one.
profile::StageProfile some_stages(const GivenProfile& given, int stages) {
  const profile::StageProfile whole = given.read();
  profile::StageProfile some(stages);
  for (int stage = 0; stage < stages; ++stage) {
    const int from = stage + 1 == stages ? whole.stages() - 1 : stage;
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      for (const profile::Measurement& m : whole.measurements(from, kind)) some.add(stage, kind, m);
    }
  }
  return some;
}

struct Gaps {
  Extent ours_pct;
  Extent best_pct;
  int open = 0;
};

Gaps gaps_of(const Pipeline& pipeline) {
  const planner::PlanningModel model =
      planner::make_planning_model(pipeline.dag(), pipeline.profile(), pipeline.blocking_power_w());
  FlowRecorder flows;
  planner::Checkpoints checkpoints(model.instance);
  const planner::Frontier frontier =
      solve_frontier(model.instance, std::array<planner::FrontierObserver*, 2>{&flows, &checkpoints});
  planner::DeadlineSolver solver(model.instance, &checkpoints);
  planner::DiscretePlanner planner(model, solver);
  planner.prepare(frontier);
  Gaps gaps;
  const std::vector<double> deadlines_s =
      even_deadlines_s(s_from_ps(frontier.fastest_ps()), s_from_ps(frontier.slowest_ps()));
  for (std::size_t i = 0; i < deadlines_s.size(); i += kStride) {
    const TimePs deadline_ps = std::clamp(ps_from_s(deadlines_s[i]), frontier.fastest_ps(), frontier.slowest_ps());
    const planner::ContinuousPlan continuous = solver.solve(deadline_ps);
    const planner::PrecedenceGraph graph(model.instance);
    std::vector<std::int32_t> order(graph.order().begin(), graph.order().end());
    std::ranges::stable_sort(order, {}, [&](std::int32_t op) { return continuous.start_by_ps[at(op)]; });
    std::vector<const Flow*> near;
    for (const int offset : kFlowOffsets) near.push_back(&flows.at_time(deadline_ps + deadline_ps / 1000 * offset));
    const EnergyZj ours_zj = planner.plan(deadline_ps).total_energy_zj(model.instance.blocking_power_nw);
    const std::optional<EnergyZj> best_zj = Exhaustion(model, order, near, deadline_ps).least_zj(ours_zj);
    if (!best_zj) {
      ++gaps.open;
      continue;
    }
    const double bound_j = frontier.lower_bound_j_at(deadline_ps);
    gaps.ours_pct.add((j_from_zj(ours_zj) / bound_j - 1) * 100);
    gaps.best_pct.add((j_from_zj(*best_zj) / bound_j - 1) * 100);
  }
  return gaps;
}

void run() {
  constexpr std::array<std::pair<int, int>, 3> kSizes{{{2, 4}, {2, 8}, {3, 4}}};
  fmt::print(
      "| profile | stages | M | deadlines | best possible plan from the bound: mean, largest | ours: mean, largest | "
      "open |\n|---|---|---|---|---|---|---|\n");
  for (const GivenProfile* given : kGivenProfiles) {
    for (const auto& [stages, microbatches] : kSizes) {
      const Gaps gaps = gaps_of(Pipeline(some_stages(*given, stages), given->blocking_power_w, microbatches));
      if (gaps.best_pct.count() == 0) continue;
      fmt::print("| {} | {} | {} | {} | {:.3f}, {:.3f} % | {:.3f}, {:.3f} % | {} |\n", given->name, stages,
                 microbatches, gaps.best_pct.count(), gaps.best_pct.mean(), gaps.best_pct.max(), gaps.ours_pct.mean(),
                 gaps.ours_pct.max(), gaps.open);
    }
  }
}

}  // namespace
}  // namespace lowgear::bench

int main() {
  if (lowgear::bench::require_given_data("integrality_study")) lowgear::bench::run();
  return 0;
}
