#include "rivals/policies/kareus_plans.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/numbers/number.h"
#include "planning/profile/regression/non_negative_least_squares.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/replay.h"

namespace lowgear::simulator {
namespace {

constexpr double kTopMhz = 1410;
constexpr int kStages = 2;
constexpr int kMicrobatches = 8;
/// Relative error of a plan's time or energy that counts as much as one standard deviation of a prior.
constexpr double kTolerance = 0.005;

/// The pipeline that all plans are for.
struct KareusPipeline {
  schedule::PipelineDag dag = build_dag(schedule::one_f_one_b_schedule(kStages, kMicrobatches));
  TimingGraph graph{dag};
};

const KareusPipeline& pipeline() {
  static const KareusPipeline made;
  return made;
}

/// A plan with the clock of every op of the pipeline.
struct ClockedPlan {
  std::vector<int> clocks_mhz;
  PipelineFigures figures;
};

Timeline replay_on(const StageCurves& curves, std::span<const int> clocks_mhz) {
  const schedule::PipelineDag& dag = pipeline().dag;
  std::vector<OpCost> costs;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    const double time_s = curves.time_s(dag.ops[op].stage, dag.ops[op].kind, clocks_mhz[op]);
    costs.push_back({time_s, time_s * curves.power_w(dag.ops[op].kind, clocks_mhz[op])});
  }
  return replay(dag, pipeline().graph, costs, std::array{kKareusBlockingW, kKareusBlockingW});
}

std::array<double, 3> power_terms(double bend, int clock_mhz) {
  const double x = clock_mhz / kTopMhz;
  const double above = std::max(0.0, x - bend);
  return {1, x, above * above};
}

// ---- Times: a nonlinear fit of six parameters ----

/// ln tau, phi and ln rho of forward, then of backward.
using TimeParameters = Eigen::Matrix<double, 6, 1>;

StageCurves curves_of(const TimeParameters& x) {
  const auto kind = [&x](int first) {
    return StageCurves::Kind{std::exp(x[first]), std::clamp(x[first + 1], 0.0, 0.95), std::exp(x[first + 2]), {}};
  };
  return {.forward = kind(0), .backward = kind(3)};
}

Eigen::VectorXd time_residuals(const TimeParameters& x, std::span<const ClockedPlan> plans) {
  constexpr int kPriors = 6;
  const StageCurves curves = curves_of(x);
  Eigen::VectorXd residuals(static_cast<Eigen::Index>(plans.size()) + kPriors);
  Eigen::Index at = 0;
  for (const ClockedPlan& plan : plans) {
    residuals[at++] = (replay_on(curves, plan.clocks_mhz).time_s / plan.figures.time_s - 1) / kTolerance;
  }
  residuals[at++] = (x[1] - 0.35) / 0.15;
  residuals[at++] = (x[4] - 0.35) / 0.15;
  residuals[at++] = (x[1] - x[4]) / 0.1;
  residuals[at++] = x[2] / 0.1;
  residuals[at++] = x[5] / 0.1;
  residuals[at++] = (x[3] - x[0] - std::log(2.0)) / 0.3;
  return residuals;
}

/// Levenberg and Marquardt's method with derivatives by differences: times are piecewise smooth in the parameters.
TimeParameters fit_times(std::span<const ClockedPlan> plans) {
  constexpr int kIterations = 60;
  constexpr double kStep = 1e-5;
  double shortest_s = plans.front().figures.time_s;
  for (const ClockedPlan& plan : plans) shortest_s = std::min(shortest_s, plan.figures.time_s);
  const double forward_s = shortest_s / (3 * (kMicrobatches + 1));
  TimeParameters x;
  x << std::log(forward_s), 0.35, 0, std::log(2 * forward_s), 0.35, 0;
  Eigen::VectorXd residuals = time_residuals(x, plans);
  double damping = 1e-2;
  for (int i = 0; i < kIterations && damping < 1e6; ++i) {
    Eigen::MatrixXd jacobian(residuals.size(), x.size());
    for (Eigen::Index k = 0; k < x.size(); ++k) {
      TimeParameters moved = x;
      moved[k] += kStep;
      jacobian.col(k) = (time_residuals(moved, plans) - residuals) / kStep;
    }
    Eigen::MatrixXd normal = jacobian.transpose() * jacobian;
    normal.diagonal() *= 1 + damping;
    const TimeParameters next = x - normal.ldlt().solve(jacobian.transpose() * residuals);
    const Eigen::VectorXd there = time_residuals(next, plans);
    const bool is_better = there.squaredNorm() < residuals.squaredNorm();
    damping = is_better ? std::max(damping / 5, 1e-9) : damping * 4;
    if (!is_better) continue;
    const bool is_done = residuals.squaredNorm() - there.squaredNorm() < 1e-12 * residuals.squaredNorm();
    x = next;
    residuals = there;
    if (is_done) break;
  }
  return x;
}

// ---- Powers: linear and not negative, given the times ----

struct PowerFit {
  StageCurves curves;
  double squared_error = 0;
};

/// The energy of a plan is linear in the powers of both kinds: coefficients in seconds, and what waiting takes.
std::pair<Eigen::VectorXd, double> energy_terms(const StageCurves& curves, const ClockedPlan& plan) {
  const Timeline timeline = replay_on(curves, plan.clocks_mhz);
  const schedule::PipelineDag& dag = pipeline().dag;
  Eigen::VectorXd terms = Eigen::VectorXd::Zero(6);
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    const auto of_clock = power_terms(curves.bend, plan.clocks_mhz[op]);
    const Eigen::Index first = dag.ops[op].kind == OpKind::forward ? 0 : 3;
    for (Eigen::Index k = 0; k < 3; ++k) {
      terms[first + k] += timeline.duration_s[op] * of_clock[static_cast<std::size_t>(k)];
    }
  }
  double blocking_j = 0;
  for (const double blocked_s : timeline.blocked_s) blocking_j += kKareusBlockingW * blocked_s;
  return {terms, blocking_j};
}

PowerFit fit_powers(StageCurves curves, double bend, std::span<const ClockedPlan> plans) {
  // An A100 at full load draws some 400 W: weakly, and both kinds alike.
  constexpr std::array kTypicalW = {100.0, 150.0, 700.0};
  curves.bend = bend;
  Eigen::MatrixXd gram = Eigen::MatrixXd::Zero(6, 6);
  Eigen::VectorXd rhs = Eigen::VectorXd::Zero(6);
  const auto add = [&](const Eigen::VectorXd& row, double value) {
    gram += row * row.transpose();
    rhs += row * value;
  };
  for (const ClockedPlan& plan : plans) {
    const auto [terms, blocking_j] = energy_terms(curves, plan);
    const double scale = 1 / (plan.figures.energy_j * kTolerance);
    add(terms * scale, (plan.figures.energy_j - blocking_j) * scale);
  }
  for (Eigen::Index k = 0; k < 3; ++k) {
    const double typical_w = kTypicalW.at(static_cast<std::size_t>(k));
    for (const Eigen::Index first : {0, 3}) add(Eigen::VectorXd::Unit(6, first + k) / (0.5 * typical_w), 2);
    add((Eigen::VectorXd::Unit(6, k) - Eigen::VectorXd::Unit(6, 3 + k)) / (0.3 * typical_w), 0);
  }
  const Eigen::VectorXd power_w = profile::solve_non_negative(gram, rhs).values;
  for (std::size_t k = 0; k < 3; ++k) {
    curves.forward.power_w[k] = power_w[static_cast<Eigen::Index>(k)];
    curves.backward.power_w[k] = power_w[static_cast<Eigen::Index>(k) + 3];
  }
  PowerFit fit{curves, 0};
  for (const ClockedPlan& plan : plans) {
    const double error = replay_on(curves, plan.clocks_mhz).energy_j_total / plan.figures.energy_j - 1;
    fit.squared_error += error * error;
  }
  return fit;
}

/// The number after `label` in the closing comments of a plan.
double stated(const std::string& text, const std::string& label, const std::string& source) {
  const std::size_t found = text.find(label);
  const std::size_t begin = found + label.size();
  const std::size_t end = text.find('\n', begin);
  const std::optional<double> value =
      found == std::string::npos ? std::nullopt : parse_number(text.substr(begin, end - begin));
  if (!value) throw InputError(source + ": states no " + label);
  return *value;
}

KareusPlan read_kareus_plan(const std::filesystem::path& path) {
  const std::string text = read_file(path.string());
  const double cost_j = stated(text, "total cost: ", path.string());
  const double energy_j = stated(text, "total cost with P2P: ", path.string());
  return {formats::read_perseus_plan(text, path.string()),
          {(energy_j - cost_j) / (kStages * kKareusBlockingW), energy_j}};
}

}  // namespace

std::vector<KareusConfiguration> kareus_configurations(const std::filesystem::path& root) {
  std::map<std::string, KareusConfiguration> found;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const bool is_plan = entry.path().filename().string().starts_with("freqs_pipeline_");
    if (is_plan && entry.path().parent_path().filename() == "frontier") files.push_back(entry.path());
  }
  std::ranges::sort(files);  // numbered from the slowest
  for (const std::filesystem::path& file : files) {
    const std::string name = std::filesystem::relative(file.parent_path().parent_path(), root).string();
    found[name].name = name;
    found[name].plans.push_back(read_kareus_plan(file));
  }
  std::vector<KareusConfiguration> configurations;
  for (auto& [name, configuration] : found) configurations.push_back(std::move(configuration));
  return configurations;
}

double StageCurves::time_s(int stage, OpKind kind, int clock_mhz) const {
  const Kind& of = kind == OpKind::forward ? forward : backward;
  return of.tau_s * (stage == 0 ? 1 : of.ratio) * (of.fixed_share + (1 - of.fixed_share) * kTopMhz / clock_mhz);
}

double StageCurves::power_w(OpKind kind, int clock_mhz) const {
  const Kind& of = kind == OpKind::forward ? forward : backward;
  const auto terms = power_terms(bend, clock_mhz);
  return of.power_w[0] * terms[0] + of.power_w[1] * terms[1] + of.power_w[2] * terms[2];
}

StageCurves fit_stage_curves(std::span<const KareusPlan> plans) {
  std::vector<ClockedPlan> clocked;
  for (const KareusPlan& plan : plans) clocked.push_back({clocks_for(plan.clocks, pipeline().dag), plan.figures});
  const StageCurves times = curves_of(fit_times(clocked));
  std::optional<PowerFit> best;
  for (const double bend : {0.5, 0.6, 0.7, 0.8}) {
    PowerFit fit = fit_powers(times, bend, clocked);
    if (!best || fit.squared_error < best->squared_error) best = fit;
  }
  return best->curves;
}

PipelineFigures replayed(const formats::PerseusPlan& clocks, const StageCurves& curves) {
  const Timeline timeline = replay_on(curves, clocks_for(clocks, pipeline().dag));
  return {timeline.time_s, timeline.energy_j_total};
}

PipelineFigures held_out_errors(const KareusConfiguration& configuration, std::span<const std::size_t> held_out) {
  std::vector<KareusPlan> others;
  for (std::size_t i = 0; i < configuration.plans.size(); ++i) {
    if (std::ranges::find(held_out, i) == held_out.end()) others.push_back(configuration.plans[i]);
  }
  const StageCurves curves = fit_stage_curves(others);
  PipelineFigures errors;
  for (const std::size_t i : held_out) {
    const KareusPlan& plan = configuration.plans[i];
    const PipelineFigures predicted = replayed(plan.clocks, curves);
    errors.time_s = std::max(errors.time_s, std::abs(predicted.time_s / plan.figures.time_s - 1));
    errors.energy_j = std::max(errors.energy_j, std::abs(predicted.energy_j / plan.figures.energy_j - 1));
  }
  return errors;
}

}  // namespace lowgear::simulator
