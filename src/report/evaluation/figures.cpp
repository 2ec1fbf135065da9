#include "report/evaluation/figures.h"

#include <algorithm>

#include "planning/simulator/cluster.h"
#include "report/evaluation/emulated_savings.h"
#include "report/evaluation/published_tables.h"

namespace lowgear::evaluation {
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
