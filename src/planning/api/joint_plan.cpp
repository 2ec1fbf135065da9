#include "planning/api/joint_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <utility>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "planning/api/plan_replays.h"
#include "planning/api/profile_fitting.h"
#include "planning/joint/bound/order_free_bound.h"
#include "planning/joint/orders/order_search.h"
#include "planning/planner/frontier/certificate.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/profile/example_profile.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"

namespace lowgear::api {
namespace {

/// Orders that need at most this much more energy than the best are done without: fewer orders are easier to follow.
constexpr double kOrderTolerance = 2e-4;

/// 1F1B; where the profile has no whole backwards, with each input gradient followed by its weight gradient.
schedule::Schedule reference_order(const joint::JointProblem& problem) {
  require_trained(problem);
  schedule::Schedule order = schedule::one_f_one_b_schedule(problem.ranks(), problem.microbatches);
  return problem.may_join() ? order : with_split_backwards(std::move(order));
}

ProfiledPipeline pipeline_in(const joint::JointProblem& problem, schedule::Schedule order) {
  ProfiledPipeline pipeline;
  pipeline.profile = problem.profile_of(order);
  pipeline.dag = build_dag(order);
  pipeline.schedule = std::move(order);
  pipeline.blocking_power_w = problem.blocking_power_w;
  pipeline.simulated = problem.simulated;
  return pipeline;
}

/// Times from the fastest to that of least energy at which orders are improved, and at which they are compared.
constexpr std::size_t kAnchors = 3;
constexpr std::size_t kCompared = 32;

/// An order that plans may have.
struct CandidateOrder {
  joint::RatedOrder rated;
  std::optional<std::size_t> number;  ///< of the solved order; empty before it is needed
};

/// An order whose frontier is solved.
struct SolvedOrder {
  planner::CertificateRecorder certificate;
  std::unique_ptr<planner::PipelinePlanner> planner;
};

ReplayConditions conditions_of(const PlanOptions& options) { return {options.planner.switch_latency_s, {}}; }

/// Everything at its highest clock in the reference order.
simulator::PipelineFigures full_clocks(const joint::JointProblem& problem, const ReplayConditions& conditions) {
  const ProfiledPipeline reference = pipeline_in(problem, reference_order(problem));
  const planner::PlanningProblem planning = reference.problem();
  return figures_of(replay_under(planning, max_clocks_mhz(planning), conditions));
}

/// Virtual stages are equal shares of a rank's layers, which whole layers cannot always be.
std::optional<std::string> half_layers(const JointPlanResult& result, const profile::Partition& layers) {
  for (const JointOrder& order : result.run.orders) {
    const bool is_whole = std::ranges::all_of(layers, [&](int count) { return count % order.stages_per_rank == 0; });
    if (is_whole) continue;
    return fmt::format(
        "order {}: its ranks have {} virtual stages each, planned as equal shares of their layers ({} by rank), which "
        "are no whole layers on all ranks: stages of whole layers take other times; give numbers of layers that {} "
        "divides, or plan without moving layers",
        order.name, order.stages_per_rank, fmt::join(layers, ","), order.stages_per_rank);
  }
  return std::nullopt;
}

/// One call of `plan_jointly`.
class JointPlanning {
 public:
  JointPlanning(const joint::JointProblem& problem, const PlanOptions& options, const PlanReceiver& receive,
                Progress* progress, const simulator::PipelineFigures& baseline)
      : problem_(&problem),
        options_(&options),
        receive_(&receive),
        progress_(progress),
        reference_(pipeline_in(problem, reference_order(problem))) {
    result_.profile = problem.profile;
    result_.run.memory_limit = to_string(problem_->memory);
    result_.run.reference = reference_.schedule.name;
    result_.run.baseline = baseline;
  }

  /// `layers`: by rank, where the planner chose them.
  JointPlanResult make(const std::optional<profile::Partition>& layers = {}) {
    search_orders();
    require_possible();
    make_all_plans();
    replay_late();
    note_divided_stages();
    find_faster_than_full_clocks();
    bound_all_orders();
    if (is_example_profile(problem_->profile)) result_.warnings.emplace_back(profile::kExampleProfileNotice);
    compare_with_others();
    if (layers) {
      if (const auto doubt = half_layers(result_, *layers)) find(*doubt);
    }
    return std::move(result_);
  }

  /// The replayed plan for one deadline; none where no order keeps it. Leaves no order solved: plans number the orders
  /// as they need them.
  std::optional<simulator::PipelineFigures> replayed_at(double deadline_s) {
    search_orders();
    deadline_s = exact_s(deadline_s);
    if (fastest_rated_s_ > rounded_s(deadline_s)) return std::nullopt;
    const std::size_t order = order_for(deadline_s);
    const plan::Plan made = plan_in(order, deadline_s);
    const ProfiledPipeline& pipeline = result_.orders[order].pipeline;
    const simulator::PipelineFigures figures =
        figures_of(replay_under(pipeline.problem(), choices_for(made, pipeline.dag), conditions_of(*options_)));
    for (CandidateOrder& candidate : candidates_) candidate.number.reset();
    solved_.clear();
    result_.orders.clear();
    result_.run.orders.clear();
    return figures;
  }

 private:
  /// Finds the few orders that plans may have. They are those of the problem, whatever deadlines were asked for: an
  /// order that is found for one of them competes at all. Searches once.
  void search_orders() {
    if (!candidates_.empty()) return;
    joint::OrderSearch search(*problem_, 0, progress_);
    joint::JointProblem smaller = *problem_;
    smaller.memory = problem_->whole_half_rounds();
    if (smaller.memory != problem_->memory) {
      joint::OrderSearch within(smaller, 0, progress_);
      for (joint::RatedOrder& order : few_orders(within, smaller)) search.consider(std::move(order.order));
    }
    for (joint::RatedOrder& order : few_orders(search, *problem_)) candidates_.push_back({std::move(order), {}});
    fastest_rated_s_ = search.fastest_s();
    require_lead_within(options_->clock_lead_s, fastest_rated_s_);
    slowest_rated_s_ = search.slowest_s();
  }

  /// Improves the orders of a search, and takes few that are good everywhere.
  std::vector<joint::RatedOrder> few_orders(joint::OrderSearch& search, const joint::JointProblem& problem) {
    const double fastest_s = search.fastest_s();
    const double slowest_s = search.slowest_s();
    const auto at = [&](std::size_t part, std::size_t parts) {
      return fastest_s + (slowest_s - fastest_s) * static_cast<double>(part) / static_cast<double>(parts);
    };
    for (std::size_t k = 0; k < kAnchors; ++k) search.improve_at(at(k, kAnchors), joint::solves_for(problem));
    std::vector<double> times_s;
    for (std::size_t k = 0; k <= kCompared; ++k) times_s.push_back(at(k, kCompared));
    times_s.front() = search.fastest_s();
    times_s.push_back(std::max(search.fastest_s(), rounded_s(result_.run.baseline.time_s)));
    result_.orders_tried += search.orders().size();
    std::vector<joint::RatedOrder> few;
    for (const std::size_t i : search.few_for(times_s, kOrderTolerance)) few.push_back(search.orders()[i]);
    return few;
  }

  /// With late clocks each order says itself what it can keep.
  void require_possible() const {
    const std::optional<double> deadline_s = options_->deadlines.deadline_s;
    if (!deadline_s || rounded_s(exact_s(*deadline_s)) >= fastest_rated_s_) return;
    throw InputError(fmt::format(
        "deadline {} s cannot be kept: T_min, the fastest iteration of the orders that were found, is {} s; "
        "give it or a later one",
        *deadline_s, rounded_up(fastest_rated_s_)));
  }

  /// The number of a candidate, whose frontier is solved when a deadline first needs it.
  std::size_t solved(CandidateOrder& candidate) {
    if (!candidate.number) {
      add_order(candidate.rated.order);
      candidate.number = solved_.size() - 1;
    }
    return *candidate.number;
  }

  void add_order(schedule::Schedule order) {
    const auto taken = [&](const std::string& name) {
      return std::ranges::any_of(result_.orders, [&](const PlannedOrder& other) { return other.name == name; });
    };
    const std::string name = order.name;
    for (int number = 2; taken(order.name); ++number) order.name = fmt::format("{}-{}", name, number);
    PlannedOrder planned{order.name, pipeline_in(*problem_, order), {}};
    auto solved = std::make_unique<SolvedOrder>();
    const std::array<planner::FrontierObserver*, 1> observers{&solved->certificate};
    solved->planner = std::make_unique<planner::PipelinePlanner>(
        order, planned.pipeline.profile, problem_->blocking_power_w, options_->planner, observers, progress_);
    const planner::PipelinePlanner& planner = *solved->planner;
    const bool exact = planner.method() == planner::FrontierMethod::exact;
    planned.frontier = {.method = planner.method(),
                        .vertices = frontier_points(planner.frontier()),
                        .lower_bound = lower_bound_points(planner.frontier(), planner.method()),
                        .epsilon = exact ? 0 : planner.frontier().epsilon(),
                        .certificate = solved->certificate.text()};
    result_.run.orders.push_back({order.name, joint::chunks_of(order), peak_in_flight_activations(order)});
    result_.orders.push_back(std::move(planned));
    solved_.push_back(std::move(solved));
  }

  /// Deadlines keep what is later by rounding only: T_min of an order is made of times rounded up.
  static double rounded_s(double deadline_s) { return deadline_s * (1 + kDeadlineRounding); }

  /// A deadline that was asked for as it is printed: the time of full clocks, or T_min.
  [[nodiscard]] double exact_s(double deadline_s) const {
    return deadline_or_fastest_s(deadline_or_fastest_s(deadline_s, result_.run.baseline.time_s), fastest_rated_s_);
  }

  plan::Plan plan_in(std::size_t order, double deadline_s) {
    planner::PipelinePlanner& planner = *solved_[order]->planner;
    plan::Plan made = planner.plan(std::max(deadline_s, std::min(planner.fastest_s(), rounded_s(deadline_s))));
    made.deadline_s = deadline_s;
    return made;
  }

  /// The order of least energy among those that can keep the deadline, by the curves that rated them; the fastest where
  /// none can, which says so.
  [[nodiscard]] std::size_t order_for(double deadline_s) {
    std::vector<CandidateOrder*> by_energy;
    for (CandidateOrder& candidate : candidates_) by_energy.push_back(&candidate);
    std::ranges::stable_sort(
        by_energy, {}, [&](const CandidateOrder* one) { return one->rated.curve.energy_j_at(rounded_s(deadline_s)); });
    for (CandidateOrder* candidate : by_energy) {
      const std::size_t order = solved(*candidate);
      if (solved_[order]->planner->fastest_s() <= rounded_s(deadline_s)) return order;
    }
    const auto fastest_s = [&](const CandidateOrder* one) { return solved_[*one->number]->planner->fastest_s(); };
    return *(*std::ranges::min_element(by_energy, {}, fastest_s))->number;
  }

  /// From the least time of the orders to the one of least energy; the first of equal ones.
  std::vector<double> all_deadlines() {
    if (options_->deadlines.deadline_s) return {exact_s(*options_->deadlines.deadline_s)};
    const double fastest_s = solved_[order_for(fastest_rated_s_)]->planner->fastest_s();
    const bool only_from_fastest = options_->deadlines.slowdown_pct || options_->deadlines.plans == 1;
    if (only_from_fastest) return deadlines_s(options_->deadlines, {fastest_s, fastest_s});
    const double slowest_s = solved_[order_for(slowest_rated_s_)]->planner->slowest_s();
    return deadlines_s(options_->deadlines, {fastest_s, std::max(fastest_s, slowest_s), result_.run.baseline.time_s});
  }

  void make_all_plans() {
    const std::vector<double> deadlines = all_deadlines();
    std::vector<std::size_t> orders;
    for (const double deadline_s : deadlines) orders.push_back(order_for(deadline_s));
    std::vector<std::vector<simulator::PipelineFigures>> frontiers;
    for (const PlannedOrder& order : result_.orders) frontiers.push_back(order.frontier.vertices);
    result_.frontier = joint_frontier(frontiers);
    if (deadlines.size() == 1) {
      const double slowest_s = solved_[orders.front()]->planner->slowest_s();
      if (const auto late = beyond_least_energy(deadlines.front(), slowest_s)) find(*late);
    }
    for (std::size_t i = 0; i < deadlines.size(); ++i) {
      if (progress_ != nullptr) {
        progress_->update("planning clocks", static_cast<double>(i) / static_cast<double>(deadlines.size()));
      }
      keep_plan(orders[i], plan_in(orders[i], deadlines[i]));
    }
  }

  /// Keeps a plan unless it equals the one before, which keeps the earlier deadline.
  void keep_plan(std::size_t order, plan::Plan made) {
    if (has_same_clocks(made, last_)) return;
    made.gpu_name = options_->gpu_name;
    made.simulated = problem_->simulated;
    made.clock_lead_s = options_->clock_lead_s;
    last_ = made;
    const auto number = static_cast<int>(result_.plans.size());
    result_.plans.push_back(plan_row(number, made));
    result_.plans.back().order = static_cast<int>(order);
    if (*receive_) (*receive_)(result_.orders[order].pipeline, number, made);
    if (number != 0 && !keeps_time(made.time_s, result_.run.baseline.time_s)) return;
    result_.shown_plan = number;
    result_.shown = std::move(made);
  }

  void note_divided_stages() {
    if (!problem_->may_divide_stages()) {
      const double longer_pct = 100 * problem_->longer_last_stage();
      result_.warnings.push_back(fmt::format(
          "orders with several stages on a rank are left out, as equal parts of the profile's last stage are "
          "unlikely: it takes {:.0f} % {} than the middle one; profile the stages of such an order and name "
          "its schedule (interleaved, zb-v) to plan it",
          std::abs(longer_pct), longer_pct > 0 ? "more" : "less"));
    }
    for (const PlannedOrder& order : result_.orders) {
      auto note = divided_stages_note(problem_->ranks(), order.pipeline.schedule);
      if (!note) continue;
      result_.warnings.push_back(std::move(*note));
      return;
    }
  }

  /// The baseline changes no clock.
  void replay_late() {
    if (!options_->late_s) return;
    const auto order =
        static_cast<std::size_t>(result_.plans[static_cast<std::size_t>(result_.shown_plan)].order.value());
    const ProfiledPipeline& pipeline = result_.orders[order].pipeline;
    const plan::OpChoices choices = choices_for(result_.shown, pipeline.dag);
    result_.late = {.switch_latency_s = *options_->late_s,
                    .plan = figures_of(replay_under(pipeline.problem(), choices, {*options_->late_s, {}})),
                    .baseline = result_.run.baseline};
  }

  /// Another order may be faster than the reference; clocks alone cannot be.
  void find_faster_than_full_clocks() {
    std::optional<std::string> finding;
    for (std::size_t order = 0; order < result_.orders.size() && !finding; ++order) {
      const planner::PlanningProblem problem = result_.orders[order].pipeline.problem();
      const double full_clocks_s = replay_under(problem, max_clocks_mhz(problem), conditions_of(*options_)).time_s;
      for (const PlanFigures& plan : result_.plans) {
        if (plan.order != static_cast<int>(order) || finding) continue;
        finding = faster_than_full_clocks(plan.time_s, full_clocks_s);
      }
    }
    if (finding) find(*finding);
  }

  void find(const std::string& what) {
    result_.warnings.push_back(what);
    result_.findings.push_back(what);
  }

  /// With prices for the times of the plans: at most as many as `lowgear plan` makes.
  void bound_all_orders() {
    planner::WorkReport work(progress_);
    work.begin("bounding all orders", -1);
    std::vector<double> times_s;
    for (const PlanFigures& plan : result_.plans) times_s.push_back(plan.time_s);
    const joint::JointBound bound = joint_bound(*problem_, times_s, &work);
    for (PlanFigures& plan : result_.plans) plan.joint_bound_j = bound.lower_bound_j_at(plan.time_s);
    draw_bound(bound);
    result_.bound_prices = write_joint_bound(bound);
  }

  /// From the least time that any order can reach, which may be before the frontier begins.
  void draw_bound(const joint::JointBound& bound) {
    constexpr int kPointsBefore = 32;  // so close to each other that lines between them are the curve
    const double least_s = s_from_ps(bound.least_time_ps());
    const double first_s = result_.frontier.front().time_s;
    const double last_s = result_.frontier.back().time_s;
    std::vector<double> times_s;
    for (int i = 0; i < kPointsBefore && least_s < first_s; ++i) {
      times_s.push_back(least_s + (first_s - least_s) * i / kPointsBefore);
    }
    for (const JointPoint& point : result_.frontier) times_s.push_back(point.time_s);
    for (const joint::LayoutBound& layout : bound.layouts()) {  // where it falls, as one more layout is fast enough
      const double fall_s = s_from_ps(layout.least_time_ps);
      if (fall_s <= least_s || fall_s >= last_s) continue;
      times_s.push_back(s_from_ps(layout.least_time_ps - 1));
      times_s.push_back(fall_s);
    }
    std::ranges::sort(times_s);
    for (const double time_s : times_s) {
      if (!result_.lower_bound.empty() && result_.lower_bound.back().time_s >= time_s) continue;
      result_.lower_bound.push_back({time_s, bound.lower_bound_j_at(time_s)});
    }
  }

  /// That fit, by rank.
  [[nodiscard]] std::vector<int> activations_beyond_1f1b() const {
    const int ranks = problem_->ranks();
    std::vector<int> fit = most_activations(problem_->memory, ranks, problem_->microbatches, 1);
    const std::vector<int> held = joint::most_activations({}, ranks, problem_->microbatches, 1);
    for (std::size_t rank = 0; rank < fit.size(); ++rank) fit[rank] = std::max(fit[rank] - held[rank], 0);
    return fit;
  }

  /// Other policies run the reference order, or one of their own under the same limit of memory.
  void compare_with_others() {
    if (!is_quick_to_compare(reference_) || !problem_->may_join()) return;
    planner::PipelinePlanner planner(reference_.schedule, reference_.profile, reference_.blocking_power_w,
                                     options_->planner, {}, progress_);
    ComparisonOptions comparison = comparison_with_others(*options_, planner.method());
    comparison.extra_activations = activations_beyond_1f1b();
    result_.policies = compare_policies(reference_, planner, comparison, progress_).rows;
  }

  const joint::JointProblem* problem_;
  const PlanOptions* options_;
  const PlanReceiver* receive_;
  Progress* progress_;  ///< may be null
  ProfiledPipeline reference_;
  std::vector<CandidateOrder> candidates_;
  double fastest_rated_s_ = 0;  ///< of all orders that were rated
  double slowest_rated_s_ = 0;
  std::vector<std::unique_ptr<SolvedOrder>> solved_;  ///< by number of the order
  plan::Plan last_;                                   ///< that was kept
  JointPlanResult result_;
};

void require_own_policy(const PlanOptions& options) {
  if (options.request.power_cap || !options.request.slow.empty()) {
    throw InputError("power caps and slow ranks are planned for a given order: name a schedule");
  }
  if (options.request.policy == planner::kLowgearPolicy) return;
  throw InputError(
      fmt::format("the policy {} plans clocks for a given order: name a schedule", options.request.policy));
}

}  // namespace

JointPlanResult plan_jointly(const joint::JointProblem& problem, const PlanOptions& options,
                             const PlanReceiver& receive, Progress* progress) {
  require_own_policy(options);
  return JointPlanning(problem, options, receive, progress, full_clocks(problem, conditions_of(options))).make();
}

JointPlanResult plan_jointly(const joint::JointProblem& problem, const FreeLayers& free, const PlanOptions& options,
                             const PlanReceiver& receive, Progress* progress) {
  require_own_policy(options);
  const simulator::PipelineFigures baseline = full_clocks(problem, conditions_of(options));
  const double deadline_s = options.deadlines.deadline_s.value_or(baseline.time_s);
  JointPlanning given(problem, options, receive, progress, baseline);
  const auto energy_j_of = [&](const joint::JointProblem& tried) {
    const auto figures = &tried == &problem
                             ? given.replayed_at(deadline_s)
                             : JointPlanning(tried, options, receive, progress, baseline).replayed_at(deadline_s);
    return figures ? figures->energy_j : std::numeric_limits<double>::infinity();
  };
  const joint::PartitionChoice choice =
      choose_partition(problem, free.layers, free.given, deadline_s, energy_j_of, progress);
  const profile::Partition& partition = choice.chosen.partition;
  PartitionRun run{.given = free.given, .chosen = partition, .tried = choice.tried, .deadline_s = deadline_s};
  JointPlanResult result;
  if (partition == free.given) {
    result = given.make(partition);
  } else {
    const joint::JointProblem moved = with_partition(problem, free.layers, partition);
    result = JointPlanning(moved, options, receive, progress, baseline).make(partition);
    run.given_plan = given.replayed_at(result.plans.at(static_cast<std::size_t>(result.shown_plan)).deadline_s);
  }
  result.run.partition = std::move(run);
  return result;
}

RunFile run_file_of(const JointPlanResult& result, const PlanOptions& options) {
  RunFile run = run_file_of(result.orders.front(), options);
  run.schedule = "auto";
  const bool all_exact = std::ranges::all_of(
      result.orders, [](const PlannedOrder& order) { return order.frontier.method == planner::FrontierMethod::exact; });
  run.method = all_exact ? planner::FrontierMethod::exact : planner::FrontierMethod::sandwich;
  run.policies = result.policies;
  run.warnings = result.warnings;
  run.joint = result.run;
  return run;
}

RunFile run_file_of(const PlannedOrder& order, const PlanOptions& options) {
  return run_file_of(order.pipeline, order.frontier.method, options);
}

}  // namespace lowgear::api
