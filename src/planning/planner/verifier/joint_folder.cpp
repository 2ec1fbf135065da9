#include "planning/planner/verifier/joint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"
#include "planning/planner/verifier/layer_sums.h"
#include "planning/planner/verifier/order_free_proof.h"
#include "planning/planner/verifier/pipeline.h"
#include "planning/planner/verifier/plan_check.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/torch_csv.h"

namespace lowgear::planner {
namespace {

using verifier::Findings;
using verifier::OrderFreeProof;
using verifier::RunSettings;

/// Relative difference of doubles that were written, read and interpolated.
constexpr double kTextRounding = 1e-9;

struct FrontierPoint {
  double time_s = 0;
  double energy_j = 0;
  std::size_t order = 0;
};

std::size_t order_in(const CsvTable& table, std::size_t row, std::size_t column, std::size_t orders) {
  const long long number = table.integer(row, column);
  if (number < 0 || static_cast<std::size_t>(number) >= orders) {
    throw_input_error(table.where(row, column), fmt::format("there is no order {}; there are {}", number, orders));
  }
  return static_cast<std::size_t>(number);
}

std::vector<FrontierPoint> read_points(const PlanFolder::File& file, std::optional<std::size_t> orders) {
  const CsvTable table(file.text, file.name);
  const std::size_t time = table.column("time_s");
  const std::size_t energy = table.column("energy_j");
  std::vector<FrontierPoint> points;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::size_t order = orders ? order_in(table, row, table.column("order"), *orders) : 0;
    points.push_back({table.number(row, time), table.number(row, energy), order});
  }
  const auto in_time = [](const FrontierPoint& a, const FrontierPoint& b) { return a.time_s < b.time_s; };
  if (points.empty()) throw_input_error({file.name, 0, 0}, "has no rows", "plan again");
  if (!std::ranges::is_sorted(points, in_time)) {
    throw_input_error({file.name, 0, 0}, "its times do not rise", "plan again");
  }
  return points;
}

/// Least energy at a time on the line through the points: the lower one where several have the same time, that of the
/// last after them, infinite before the first.
double energy_j_at(const std::vector<FrontierPoint>& points, double time_s) {
  if (time_s < points.front().time_s * (1 - kTextRounding)) return std::numeric_limits<double>::infinity();
  double energy_j = std::numeric_limits<double>::infinity();
  const auto first = std::ranges::lower_bound(points, time_s * (1 - kTextRounding), {}, &FrontierPoint::time_s);
  const auto before = static_cast<std::size_t>(first - points.begin());
  for (std::size_t i = before == 0 ? 0 : before - 1; i < points.size(); ++i) {
    if (points[i].time_s > time_s * (1 + kTextRounding)) break;
    if (std::abs(points[i].time_s - time_s) <= kTextRounding * time_s)
      energy_j = std::min(energy_j, points[i].energy_j);
    if (i + 1 == points.size() || points[i].time_s > time_s || points[i + 1].time_s <= time_s) continue;
    const double share = (time_s - points[i].time_s) / (points[i + 1].time_s - points[i].time_s);
    energy_j = std::min(energy_j, points[i].energy_j + share * (points[i + 1].energy_j - points[i].energy_j));
  }
  return time_s > points.back().time_s ? std::min(energy_j, points.back().energy_j) : energy_j;
}

/// The run's memory limit: microbatches on each rank.
std::vector<int> stated_limits(const JsonView& joint, const RunSettings& run) {
  const std::string text = joint.at("memory_limit").text();
  std::vector<int> limits;
  if (text == "1f1b") {
    for (int rank = 0; rank < run.ranks; ++rank) limits.push_back(run.ranks - rank);
    return limits;
  }
  std::istringstream numbers(text);
  for (std::string part; std::getline(numbers, part, ',');) {
    int count = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), count);
    if (error != std::errc() || end != part.data() + part.size() || count < 1) {
      joint.at("memory_limit").fail("expected 1f1b or numbers of microbatches");
    }
    limits.push_back(count);
  }
  if (limits.size() == 1) limits.assign(static_cast<std::size_t>(run.ranks), limits.front());
  if (limits.size() != static_cast<std::size_t>(run.ranks)) {
    joint.at("memory_limit").fail(fmt::format("expected one number, or one for each of {} ranks", run.ranks));
  }
  return limits;
}

/// Counts what a rank keeps: from a forward to the op that ends its backward.
void check_memory(const std::string& name, const schedule::Schedule& schedule, const std::vector<int>& limits,
                  Findings& findings) {
  for (std::size_t rank = 0; rank < schedule.ranks.size() && rank < limits.size(); ++rank) {
    std::vector<int> stages;
    long long held = 0;
    long long most = 0;
    for (const schedule::Action& action : schedule.ranks[rank]) {
      if (action.kind != schedule::ActionKind::compute) continue;
      if (std::ranges::find(stages, action.stage) == stages.end()) stages.push_back(action.stage);
      if (action.op == OpKind::forward) most = std::max(most, ++held);
      if (action.op == OpKind::backward || action.op == OpKind::weight_gradient) --held;
    }
    const long long allowed = static_cast<long long>(limits[rank]) * static_cast<long long>(stages.size());
    if (most <= allowed) continue;
    findings.add(
        fmt::format("{}: rank {} holds up to {} stage-microbatches, but {} fit into the memory that the run "
                    "states",
                    name, rank, most, allowed));
  }
}

/// All orders must be of the run: ranks, microbatches and power.
void check_order_run(const PlanFolder& order, const RunSettings& run, Findings& findings) {
  const RunSettings own = verifier::read_run_settings(order.run.text, order.run.name);
  const bool same = own.policy == run.policy && own.ranks == run.ranks && own.microbatches == run.microbatches &&
                    own.blocking_power_w == run.blocking_power_w && own.per_stage_kind == run.per_stage_kind &&
                    own.late_by_s == run.late_by_s;
  if (!same) findings.add(fmt::format("{}: its settings are not those of the whole run", order.run.name));
}

/// 1F1B; where the profile has no whole backwards, with each input gradient followed by its weight gradient.
schedule::Schedule reference_order(const profile::StageProfile& profile, int microbatches) {
  schedule::Schedule order = schedule::one_f_one_b_schedule(profile.stages(), microbatches);
  bool has_whole = true;
  for (int rank = 0; rank < profile.stages(); ++rank) has_whole = has_whole && profile.has(rank, OpKind::backward);
  return has_whole ? order : with_split_backwards(std::move(order));
}

/// What savings are stated against: every op at its highest clock, in the reference order. With late clocks, changes
/// between kinds with different highest clocks would take time, which is not derived here.
void check_baseline(const JsonView& joint, const profile::StageProfile& profile, const RunSettings& run,
                    Findings& findings) {
  if (run.late_by_s > 0) return;
  const schedule::PipelineDag dag = build_dag(reference_order(profile, run.microbatches));
  std::vector<double> start_s(dag.ops.size(), 0);
  std::vector<std::vector<int>> after(dag.ops.size());
  for (const schedule::DagEdge& edge : dag.edges) after[static_cast<std::size_t>(edge.from)].push_back(edge.to);
  double time_s = 0;
  double energy_j = 0;
  double blocking_w = 0;
  for (const double power_w : run.blocking_power_w) blocking_w += power_w;
  for (const int number : dag.topological_order) {
    const auto i = static_cast<std::size_t>(number);
    const profile::Measurement& row = profile.at_max_clock(dag.ops[i].stage, dag.ops[i].kind);
    const double end_s = start_s[i] + row.time_s;
    time_s = std::max(time_s, end_s);
    energy_j += row.energy_j - row.time_s * run.blocking_power_w[static_cast<std::size_t>(dag.ops[i].rank)];
    for (const int next : after[i]) {
      double& next_s = start_s[static_cast<std::size_t>(next)];
      next_s = std::max(next_s, end_s);
    }
  }
  energy_j += blocking_w * time_s;
  const double stated_s = joint.at("baseline").at("time_s").number();
  const double stated_j = joint.at("baseline").at("energy_j").number();
  if (std::abs(stated_s - time_s) <= kTextRounding * time_s &&
      std::abs(stated_j - energy_j) <= kTextRounding * energy_j) {
    return;
  }
  findings.add(
      fmt::format("run.json: states a baseline of {} s and {} J; 1F1B with every op at its highest clock takes {} "
                  "s and {} J",
                  stated_s, stated_j, time_s, energy_j));
}

void check_frontier(const JointFolder& folder, Findings& findings) {
  const std::vector<FrontierPoint> joint = read_points(folder.frontier, folder.orders.size());
  std::vector<std::vector<FrontierPoint>> own;
  for (const PlanFolder& order : folder.orders) own.push_back(read_points(order.frontier, std::nullopt));
  for (std::size_t i = 0; i < joint.size(); ++i) {
    const double energy_j = energy_j_at(own[joint[i].order], joint[i].time_s);
    if (std::abs(energy_j - joint[i].energy_j) <= kTextRounding * joint[i].energy_j) continue;
    findings.add(fmt::format("{}: row {} states {} J, but order {} {} at that time", folder.frontier.name, i + 1,
                             joint[i].energy_j, joint[i].order,
                             std::isinf(energy_j) ? "is slower" : fmt::format("needs {} J", energy_j)));
  }
  for (std::size_t order = 0; order < own.size(); ++order) {
    for (const FrontierPoint& vertex : own[order]) {
      const double energy_j = energy_j_at(joint, vertex.time_s);
      if (energy_j <= vertex.energy_j * (1 + kTextRounding)) continue;
      findings.add(fmt::format("{}: at {} s it has {}, and order {} needs only {} J", folder.frontier.name,
                               vertex.time_s, std::isinf(energy_j) ? "no row" : fmt::format("{} J", energy_j), order,
                               vertex.energy_j));
    }
  }
}

/// An order's stages divide those of the run's ranks.
void check_profile(const PlanFolder& order, const schedule::Schedule& schedule, const profile::StageProfile& of_ranks,
                   Findings& findings) {
  const profile::StageProfile own = profile::read_profile_file(order.profile.text, order.profile.name).profile;
  const profile::StageProfile divided = with_stages_on_ranks(of_ranks, rank_of_stage(schedule));
  const auto same = [](const profile::Measurement& a, const profile::Measurement& b) {
    return a.clock_mhz == b.clock_mhz && std::abs(a.time_s - b.time_s) <= kTextRounding * b.time_s &&
           std::abs(a.energy_j - b.energy_j) <= kTextRounding * b.energy_j;
  };
  for (const auto& [stage, kind, rows] : own.ops()) {
    if (std::ranges::equal(rows, divided.measurements(stage, kind), same)) continue;
    findings.add(fmt::format("{}: stage {} is not its part of its rank's work", order.profile.name, stage));
    return;
  }
}

/// Neither the curve nor a plan's bound may state more than is proven. Returns the plans' largest gap.
double check_bound(const JointFolder& folder, const OrderFreeProof& proof, Findings& findings) {
  const auto check = [&](const std::string& name, std::size_t row, double time_s, double stated_j) {
    const double proven_j = proof.lower_bound_j_at(time_s);
    if (stated_j <= proven_j + std::abs(proven_j) * kTextRounding) return;
    findings.add(fmt::format("{}: row {} states that no order uses less than {} J at {} s, but {} is proven", name,
                             row + 1, stated_j, time_s,
                             std::isinf(proven_j) ? "nothing" : fmt::format("only {} J", proven_j)));
  };
  const std::vector<FrontierPoint> curve = read_points(folder.lower_bound, std::nullopt);
  for (std::size_t row = 0; row < curve.size(); ++row) {
    check(folder.lower_bound.name, row, curve[row].time_s, curve[row].energy_j);
  }
  const CsvTable plans(folder.plans_table.text, folder.plans_table.name);
  double largest_pct = 0;
  for (std::size_t row = 0; row < plans.rows(); ++row) {
    const double stated_j = plans.number(row, plans.column("joint_bound_j"));
    if (stated_j <= 0)
      throw_input_error(plans.where(row, plans.column("joint_bound_j")), "is not above 0", "plan again");
    check(folder.plans_table.name, row, plans.number(row, plans.column("time_s")), stated_j);
    constexpr double kPercent = 100;
    largest_pct = std::max(largest_pct, (plans.number(row, plans.column("energy_j")) / stated_j - 1) * kPercent);
  }
  return largest_pct;
}

}  // namespace

PlanFolder order_folder(const JointFolder& folder, std::size_t order) {
  const CsvTable table(folder.plans_table.text, folder.plans_table.name);
  const std::size_t column = table.column("order");
  if (table.rows() != folder.plans.size()) {
    throw_input_error({folder.plans_table.name, 0, 0},
                      fmt::format("has {} rows, but there are {} plans", table.rows(), folder.plans.size()),
                      "plan again");
  }
  PlanFolder part = folder.orders.at(order);
  part.plans_table = {folder.plans_table.name, ""};
  const auto names = {"plan", "deadline_s", "time_s", "energy_j", "lower_bound_j", "gap_pct", "switches"};
  for (const char* name : names)
    part.plans_table.text += fmt::format("{}{}", part.plans_table.text.empty() ? "" : ",", name);
  part.plans_table.text += '\n';
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (order_in(table, row, column, folder.orders.size()) != order) continue;
    std::string line;
    for (const char* name : names)
      line += fmt::format("{}{}", line.empty() ? "" : ",", table.text(row, table.column(name)));
    part.plans_table.text += line + '\n';
    part.plans.push_back(folder.plans[row]);
  }
  return part;
}

VerifyReport verify(const JointFolder& folder, Progress* progress) {
  const RunSettings run = verifier::read_run_settings(folder.run.text, folder.run.name);
  const Json json = parse_json(folder.run.text, folder.run.name);
  const JsonView run_view(json, folder.run.name);
  const JsonView joint = run_view.at("joint");
  const std::vector<int> limits = stated_limits(joint, run);
  const profile::ProfileFile file = profile::read_profile_file(folder.profile.text, folder.profile.name);
  const profile::StageProfile& profile = file.profile;
  if (profile.stages() != run.ranks) {
    throw_input_error({folder.profile.name, 0, 0},
                      fmt::format("has {} stages for {} ranks", profile.stages(), run.ranks), "plan again");
  }
  VerifyReport report{.simulated = file.simulated};
  std::vector<int> ranks(run.blocking_power_w.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  if (auto fault = verifier::blocking_power_fault(run.blocking_power_w, folder.run.name, file.columns.blocking_power_w,
                                                  folder.profile.name, ranks)) {
    report.failures.push_back(std::move(*fault));
    return report;
  }
  Findings findings;
  for (std::size_t i = 0; i < folder.orders.size(); ++i) {
    const PlanFolder order = order_folder(folder, i);
    const VerifyReport of_order = verify(order, progress);
    for (const std::string& failure : of_order.failures) findings.add(failure);
    report.vertices += of_order.vertices;
    report.plans += of_order.plans;
    report.epsilon = std::max(report.epsilon, of_order.epsilon);
    report.max_gap_pct = std::max(report.max_gap_pct, of_order.max_gap_pct);
    check_order_run(order, run, findings);
    const schedule::Schedule schedule = schedule::read_torch_csv(order.schedule.text, order.schedule.name);
    check_profile(order, schedule, profile, findings);
    check_memory(order.schedule.name, schedule, limits, findings);
  }
  check_frontier(folder, findings);
  if (joint.has("partition") != folder.moved.has_value()) {
    throw_input_error({folder.run.name, 0, 0}, "and the folder differ in whether there are layers.csv and a partition",
                      "plan again");
  }
  if (folder.moved) {
    const profile::StageProfile given =
        profile::read_profile_file(folder.moved->given_profile.text, folder.moved->given_profile.name).profile;
    report.layers = verifier::check_partition(joint.at("partition"), folder.moved->layers,
                                              {&given, folder.moved->given_profile.name},
                                              {&profile, folder.profile.name}, findings);
    check_baseline(joint, given, run, findings);
  } else {
    check_baseline(joint, profile, run, findings);
  }
  const OrderFreeProof proof({&profile, run.blocking_power_w, run.microbatches, limits}, folder.bound_prices.text,
                             folder.bound_prices.name);
  report.max_joint_gap_pct = check_bound(folder, proof, findings);
  report.failures = findings.list();
  return report;
}

}  // namespace lowgear::planner
