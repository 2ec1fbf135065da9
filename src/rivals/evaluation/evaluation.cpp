#include "rivals/evaluation/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>

#include "planning/simulator/cluster.h"
#include "rivals/evaluation/emulation.h"

namespace lowgear::evaluation {

namespace {

constexpr double kPctPerShare = 100;
constexpr double kHalfUnit = 0.5;
/// A sum of doubles may end on the other side of half a unit.
constexpr double kRounding = 1e-9;

// ---------------------------------------------------------------- tables 3 and 4: measured workloads

/// Inputs for the cells of one workload and method.
struct MeasuredInputs {
  const ZeusRows* zeus = nullptr;
  const std::vector<MeasuredPlan>* plans = nullptr;
  double blocking_power_w = 0;  ///< of all GPUs
};

MeasuredInputs inputs_of(const Artifact& artifact, const Workload& workload, Method method) {
  MeasuredInputs inputs;
  const auto zeus = artifact.zeus.find(workload);
  if (zeus != artifact.zeus.end() && !zeus->second.global.empty()) {
    inputs.zeus = &zeus->second;
    inputs.blocking_power_w = zeus->second.gpus * published_blocking_power_w(workload.gpu);
  }
  const auto plans = artifact.runs.find({workload, method});
  if (plans != artifact.runs.end()) inputs.plans = &plans->second;
  return inputs;
}

std::string missing_input(const MeasuredInputs& inputs, const Workload& workload, Method method) {
  if (inputs.zeus == nullptr) return fmt::format("zeus_global.csv of {} with {}", workload.gpu, workload.model);
  if (inputs.plans == nullptr) {
    return fmt::format("N.prof.json of {}'s plans, {} on {}", name(method), workload.model, workload.gpu);
  }
  return "";
}

/// Slowest first, as the authors order plans: by their numbers, from the other end where the last is slower.
std::vector<MeasuredPlan> slowest_first(std::vector<MeasuredPlan> plans) {
  if (plans.front().figures.time_s < plans.back().figures.time_s) std::ranges::reverse(plans);
  return plans;
}

/// Table 4's saving of a pipeline that waits until `end_s`. A plan that takes longer is credited with the time beyond,
/// as in the authors' script.
double waiting_saving_pct(const MeasuredInputs& inputs, const PipelineFigures& plan, double end_s) {
  const PipelineFigures& baseline = inputs.zeus->global.front();
  const auto until_end_j = [&](const PipelineFigures& figures) {
    return figures.energy_j + inputs.blocking_power_w * (end_s - figures.time_s);
  };
  return simulator::saving_pct(until_end_j(baseline), until_end_j(plan));
}

Cell cell_of(const Workload& workload, std::string table, std::string column, double published_pct, int digits) {
  return {.table = std::move(table),
          .gpu = workload.gpu,
          .model = workload.model,
          .column = std::move(column),
          .published_pct = published_pct,
          .digits = digits};
}

std::vector<Cell> table3_cells(const Artifact& artifact, const Workload& workload, Method method,
                               const PublishedMethod& published) {
  const MeasuredInputs inputs = inputs_of(artifact, workload, method);
  Cell saving =
      cell_of(workload, "table 3", fmt::format("{} saving", name(method)), published.saving_pct, kTable3Digits);
  Cell slowdown =
      cell_of(workload, "table 3", fmt::format("{} slowdown", name(method)), published.slowdown_pct, kTable3Digits);
  saving.missing = slowdown.missing = missing_input(inputs, workload, method);
  if (saving.missing.empty()) {
    const PipelineFigures fastest = slowest_first(*inputs.plans).back().figures;
    const PipelineFigures& baseline = inputs.zeus->global.front();
    saving.from_results_pct = simulator::saving_pct(baseline.energy_j, fastest.energy_j);
    slowdown.from_results_pct = std::max(kPctPerShare * (fastest.time_s / baseline.time_s - 1), 0.0);
  }
  return {saving, slowdown};
}

/// The first plan that is fast enough; null where there is none. Which plan that is, is not known where the next slower
/// one, by its number, is not in the folder: `unknown`.
struct PlanChoice {
  const MeasuredPlan* plan = nullptr;
  bool unknown = false;
};

PlanChoice first_within(std::span<const MeasuredPlan> plans, double end_s) {
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].figures.time_s > end_s) continue;
    const bool gap = i > 0 && std::abs(plans[i].number - plans[i - 1].number) != 1;
    return {&plans[i], gap};
  }
  return {};
}

std::vector<Cell> table4_cells(const Artifact& artifact, const Workload& workload, Method method,
                               const PublishedMethod& published) {
  const MeasuredInputs inputs = inputs_of(artifact, workload, method);
  const std::string missing = missing_input(inputs, workload, method);
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < kTable4Factors.size(); ++i) {
    Cell& cell = cells.emplace_back(cell_of(workload, "table 4",
                                            fmt::format("{}, straggler {:.2f}", name(method), kTable4Factors[i]),
                                            published.straggler_pct[i], kTable4Digits));
    cell.missing = missing;
    if (!missing.empty()) continue;
    const double end_s = kTable4Factors[i] * inputs.zeus->global.front().time_s;
    const std::vector<MeasuredPlan> plans = slowest_first(*inputs.plans);
    if (method == Method::envpipe) {
      cell.from_results_pct = waiting_saving_pct(inputs, plans.back().figures, end_s);
      continue;
    }
    const PlanChoice choice = first_within(plans, end_s);
    if (choice.plan == nullptr || choice.unknown) {
      cell.missing =
          fmt::format("N.prof.json of the slowest plan within {:.2f} s, {} on {}: plans around it are absent", end_s,
                      workload.model, workload.gpu);
    } else {
      cell.from_results_pct = waiting_saving_pct(inputs, choice.plan->figures, end_s);
    }
  }
  return cells;
}

void add_measured_cells(const Artifact& artifact, std::vector<Cell>& cells) {
  const auto add = [&cells](std::vector<Cell> more) { cells.insert(cells.end(), more.begin(), more.end()); };
  for (const PublishedWorkload& row : published_workloads()) {
    const Workload workload{std::string(row.gpu), std::string(row.model)};
    add(table3_cells(artifact, workload, Method::perseus, row.perseus));
    add(table3_cells(artifact, workload, Method::envpipe, row.envpipe));
  }
  for (const PublishedWorkload& row : published_workloads()) {
    const Workload workload{std::string(row.gpu), std::string(row.model)};
    add(table4_cells(artifact, workload, Method::perseus, row.perseus));
    add(table4_cells(artifact, workload, Method::envpipe, row.envpipe));
  }
}

// ---------------------------------------------------------------- table 6 and figure 7: the emulation

PublishedDevice device_of(std::string_view device) {
  return *std::ranges::find(published_devices(), device, &PublishedDevice::device);
}

const PipelineFigures& fastest_of(const std::vector<PipelineFigures>& frontier) {
  return *std::ranges::min_element(frontier, {}, &PipelineFigures::time_s);
}

template <typename Map>
const typename Map::mapped_type* found(const Map& map, const typename Map::key_type& key) {
  const auto place = map.find(key);
  return place == map.end() ? nullptr : &place->second;
}

/// All that the cells of one emulated pipeline need; plans are made once for both.
class EmulatedCells {
 public:
  EmulatedCells(const Artifact& artifact, const PublishedEmulation& row, std::size_t column)
      : row_(&row),
        column_(column),
        pipeline_{std::string(row.model), std::string(row.device)},
        profile_(found(artifact.profiles, pipeline_)),
        emulation_{profile_, kTable6Microbatches.at(column), device_of(row.device)} {
    frontier_ = found(artifact.frontiers, {pipeline_, emulation_.microbatches});
    envpipe_ = found(artifact.envpipe, {pipeline_, emulation_.microbatches});
    if (profile_ == nullptr) return;
    perseus_ = plans_of_perseus(emulation_);
    lowgear_ = plans_of_lowgear(emulation_);
  }

  [[nodiscard]] Cell table6() const {
    Cell cell = empty("table 6", fmt::format("Perseus, {} microbatches", emulation_.microbatches),
                      row_->perseus_pct.at(column_), kTable6Digits);
    if (profile_ == nullptr) return cell;
    if (frontier_ != nullptr) cell.from_results_pct = intrinsic_pct(fastest_of(*frontier_));
    cell.replanned_pct = intrinsic_pct(perseus_.fastest);
    cell.lowgear_pct = intrinsic_pct(lowgear_.fastest);
    return cell;
  }

  [[nodiscard]] std::vector<Cell> figure7() const {
    Cell perseus = empty("figure 7", fmt::format("Perseus, straggler {:.2f}", kFigure7Factor),
                         row_->total_saving_pct[0], kFigure7Digits);
    Cell envpipe = empty("figure 7", fmt::format("EnvPipe, straggler {:.2f}", kFigure7Factor),
                         row_->total_saving_pct[1], kFigure7Digits);
    if (profile_ == nullptr) return {perseus, envpipe};
    using simulator::Accounting;
    const simulator::StragglerScenario cluster = figure7_cluster(emulation_, perseus_.fastest.time_s);
    if (frontier_ != nullptr) {
      const auto published = figure7_cluster(emulation_, fastest_of(*frontier_).time_s);
      perseus.from_results_pct = perseus_saving_pct(published, *frontier_, Accounting::published);
    }
    if (envpipe_ != nullptr)
      envpipe.from_results_pct = fixed_plan_saving_pct(cluster, *envpipe_, Accounting::published);
    const std::vector<PipelineFigures> plans = {perseus_.fastest, perseus_.waiting};
    perseus.replanned_pct = perseus_saving_pct(cluster, plans, Accounting::published);
    envpipe.replanned_pct = fixed_plan_saving_pct(cluster, plan_of_envpipe(emulation_), Accounting::published);
    const std::vector<PipelineFigures> own = {lowgear_.fastest, lowgear_.waiting};
    perseus.lowgear_pct =
        perseus_saving_pct(figure7_cluster(emulation_, lowgear_.fastest.time_s), own, Accounting::corrected);
    return {perseus, envpipe};
  }

 private:
  [[nodiscard]] double intrinsic_pct(const PipelineFigures& figures) const {
    return intrinsic_saving_pct(emulation_, figures.time_s, figures.energy_j);
  }

  [[nodiscard]] Cell empty(std::string table, std::string column, double published_pct, int digits) const {
    Cell cell{.table = std::move(table),
              .gpu = pipeline_.device,
              .model = pipeline_.model,
              .column = std::move(column),
              .published_pct = published_pct,
              .digits = digits};
    if (profile_ == nullptr) cell.missing = fmt::format("stage_profile/{}+{}_bf16.csv", row_->model, row_->device);
    return cell;
  }

  const PublishedEmulation* row_;
  std::size_t column_;
  EmulatedPipeline pipeline_;
  const profile::StageProfile* profile_;
  EmulationCase emulation_;
  const std::vector<PipelineFigures>* frontier_ = nullptr;
  const PipelineFigures* envpipe_ = nullptr;
  EmulatedPlans perseus_;
  EmulatedPlans lowgear_;
};

void add_emulated_cells(const Artifact& artifact, Progress* progress, std::vector<Cell>& cells) {
  std::vector<Cell> figure7;
  const auto all = static_cast<double>(published_emulations().size() * kTable6Microbatches.size());
  double done = 0;
  for (const PublishedEmulation& row : published_emulations()) {
    for (std::size_t column = 0; column < kTable6Microbatches.size(); ++column) {
      if (progress != nullptr) progress->update("planning", done++ / all);
      const EmulatedCells emulated(artifact, row, column);
      cells.push_back(emulated.table6());
      if (kTable6Microbatches.at(column) != kFigure7Microbatches) continue;
      for (Cell& cell : emulated.figure7()) figure7.push_back(std::move(cell));
    }
  }
  cells.insert(cells.end(), figure7.begin(), figure7.end());
}

}  // namespace

CellState state(const Cell& cell) {
  const double tolerance_pct = kHalfUnit * std::pow(10.0, -cell.digits) + kRounding;
  const auto agrees = [&](const std::optional<double>& pct) {
    return pct && std::abs(*pct - cell.published_pct) <= tolerance_pct;
  };
  if (agrees(cell.from_results_pct) || (!cell.from_results_pct && agrees(cell.replanned_pct))) {
    return CellState::reproduced;
  }
  return cell.from_results_pct || cell.replanned_pct ? CellState::deviates : CellState::no_input;
}

std::string_view name(CellState state) {
  if (state == CellState::reproduced) return "reproduced";
  return state == CellState::deviates ? "deviates" : "no input";
}

std::vector<Cell> evaluate(const Artifact& artifact, Progress* progress) {
  std::vector<Cell> cells;
  add_measured_cells(artifact, cells);
  add_emulated_cells(artifact, progress, cells);
  return cells;
}

namespace {

constexpr int kFirstFactorPct = 100;
constexpr int kLastFactorPct = 150;
constexpr double kPct = 100;

const PublishedDevice& device_named(std::string_view device) {
  return *std::ranges::find(published_devices(), device, &PublishedDevice::device);
}

/// Empty where the folders have neither the frontier nor the profile.
ExtrinsicCurve curve_of(const Artifact& artifact, const EmulatedRun& run) {
  ExtrinsicCurve curve{.run = run, .from_results = artifact.frontiers.contains(run), .points = {}};
  const auto profile = artifact.profiles.find(run.pipeline);
  // The frontier alone does not say how many GPUs wait.
  if (profile == artifact.profiles.end()) return curve;
  const EmulationCase emulation{&profile->second, run.microbatches, device_named(run.pipeline.device)};
  const std::vector<PipelineFigures> frontier =
      curve.from_results ? artifact.frontiers.at(run) : frontier_of_perseus(emulation);
  const double fastest_s = std::ranges::min_element(frontier, {}, &PipelineFigures::time_s)->time_s;
  for (int factor_pct = kFirstFactorPct; factor_pct <= kLastFactorPct; ++factor_pct) {
    const double factor = factor_pct / kPct;
    simulator::StragglerScenario scenario = straggler_scenario(emulation, fastest_s, factor);
    scenario.pipelines = kGlobalMicrobatches / run.microbatches;
    curve.points.push_back({factor, extrinsic_saving_pct(scenario, frontier, simulator::Accounting::published)});
  }
  return curve;
}

}  // namespace

std::vector<ExtrinsicCurve> extrinsic_curves(const Artifact& artifact, Progress* progress) {
  std::vector<ExtrinsicCurve> curves;
  const auto all = static_cast<double>(published_emulations().size() * kTable6Microbatches.size());
  double done = 0;
  for (const PublishedEmulation& row : published_emulations()) {
    for (const int microbatches : kTable6Microbatches) {
      if (progress != nullptr) progress->update("planning for stragglers", done++ / all);
      ExtrinsicCurve curve = curve_of(artifact, {{std::string(row.model), std::string(row.device)}, microbatches});
      if (!curve.points.empty()) curves.push_back(std::move(curve));
    }
  }
  return curves;
}

std::vector<MeasuredPoint> measured_points(const Artifact& artifact) {
  std::vector<MeasuredPoint> points;
  for (const auto& [run, plans] : artifact.runs) {
    for (const MeasuredPlan& plan : plans) points.push_back({run.first, name(run.second), plan.number, plan.figures});
  }
  for (const auto& [workload, rows] : artifact.zeus) {
    for (std::size_t i = 0; i < rows.global.size(); ++i) {
      points.push_back({workload, "Zeus, one limit", static_cast<int>(i), rows.global[i]});
    }
    for (std::size_t i = 0; i < rows.per_stage.size(); ++i) {
      points.push_back({workload, "Zeus, limits by stage", static_cast<int>(i), rows.per_stage[i]});
    }
  }
  return points;
}

}  // namespace lowgear::evaluation
