#include "planning/api/work_replan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "planning/api/plan_replays.h"
#include "planning/planner/frontier/certificate.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/schedule/schedule.h"

namespace lowgear::api {

namespace {

using profile::Measurement;
using profile::StageOp;
using profile::StageProfile;

void check(const profile::LayerProfile& profile, const WorkChange& change) {
  const int layers = profile.layers.stages();
  if (change.frozen_layers < 0 || change.frozen_layers >= layers) {
    throw InputError(fmt::format("{} of {} layers frozen: freeze 0 to {}, at least the last layer has to train",
                                 change.frozen_layers, layers, layers - 1));
  }
  for (std::size_t i = 0; i < change.scales.size(); ++i) {
    const LayerScale& scale = change.scales[i];
    for (const LayerScale& other : std::span(change.scales).first(i)) {
      if (other.kind != scale.kind || other.end <= scale.begin || scale.end <= other.begin) continue;
      throw InputError(
          fmt::format("layer {} is scaled twice; give one factor for it", std::max(other.begin, scale.begin)));
    }
    if (scale.begin < 0 || scale.end <= scale.begin || scale.end > layers) {
      throw InputError(
          fmt::format("scaled layers {} to {}: the model has layers 0 to {}", scale.begin, scale.end - 1, layers - 1));
    }
    for (const double factor : {scale.time_factor, scale.energy_factor}) {
      if (factor >= 1 / kMaxWorkFactor && factor <= kMaxWorkFactor) continue;
      throw InputError(fmt::format("layers {} to {} scaled by {}: give a factor from {} to {}", scale.begin,
                                   scale.end - 1, factor, 1 / kMaxWorkFactor, kMaxWorkFactor));
    }
  }
}

StageProfile scaled(const StageProfile& layers, const std::vector<LayerScale>& scales) {
  StageProfile result(layers.stages());
  for (const auto& [layer, kind, rows] : layers.ops()) {
    double time_factor = 1;
    double energy_factor = 1;
    for (const LayerScale& scale : scales) {
      if (layer < scale.begin || layer >= scale.end || scale.kind.value_or(kind) != kind) continue;
      time_factor *= scale.time_factor;
      energy_factor *= scale.energy_factor;
    }
    for (const Measurement& row : rows) {
      result.add(layer, kind, {row.clock_mhz, row.time_s * time_factor, row.energy_j * energy_factor});
    }
  }
  return result;
}

/// The rows of a backward with `share` of the forward's, at the clocks that both have.
std::vector<Measurement> with_forward(std::span<const Measurement> backward, std::span<const Measurement> forward,
                                      double share) {
  std::vector<Measurement> rows;
  for (const Measurement& row : backward) {
    const auto repeated = std::ranges::find(forward, row.clock_mhz, &Measurement::clock_mhz);
    if (repeated == forward.end()) continue;
    rows.push_back({row.clock_mhz, row.time_s + share * repeated->time_s, row.energy_j + share * repeated->energy_j});
  }
  return rows;
}

StageProfile recomputed(const StageProfile& layers, Recomputation recomputation) {
  const double share = recomputation == Recomputation::added ? 1 : -1;
  StageProfile result(layers.stages());
  for (const StageOp& op : layers.ops()) {
    if (op.kind != OpKind::backward && op.kind != OpKind::input_gradient) {
      for (const Measurement& row : op.measurements) result.add(op.stage, op.kind, row);
      continue;
    }
    const auto rows = with_forward(op.measurements, layers.measurements(op.stage, OpKind::forward), share);
    if (rows.empty()) {
      throw InputError(
          fmt::format("layer {} was not measured at any clock in both forward and {}", op.stage, name(op.kind)));
    }
    for (const Measurement& row : rows) {
      if (row.time_s <= 0 || row.energy_j <= 0) {
        throw InputError(
            fmt::format("layer {}: {} takes no more time or energy than forward at {} MHz, so it was measured without "
                        "recomputation and none can be removed",
                        op.stage, name(op.kind), row.clock_mhz));
      }
      result.add(op.stage, op.kind, row);
    }
  }
  return result;
}

/// Without what is not a forward of the first `frozen` places.
StageProfile frozen(const StageProfile& profile, int frozen) {
  StageProfile result(profile.stages());
  for (const auto& [place, kind, rows] : profile.ops()) {
    if (place < frozen && kind != OpKind::forward) continue;
    for (const Measurement& row : rows) result.add(place, kind, row);
  }
  return result;
}

}  // namespace

std::vector<LayerScale> dropped_weight_gradients(int layers, double share) {
  if (!(share >= 0 && share < 1)) {
    throw InputError(fmt::format("{} of the weight gradients left out: give a share from 0 to below 1", share));
  }
  const auto scale = [layers](OpKind kind, double factor) {
    return LayerScale{.begin = 0, .end = layers, .time_factor = factor, .energy_factor = factor, .kind = kind};
  };
  return {scale(OpKind::weight_gradient, 1 - share), scale(OpKind::backward, 1 - share / 2)};
}

profile::LayerProfile changed_profile(const profile::LayerProfile& profile, const WorkChange& change) {
  check(profile, change);
  profile::LayerProfile result = profile;
  if (!change.scales.empty()) result.layers = scaled(result.layers, change.scales);
  if (change.recomputation != Recomputation::as_measured) {
    result.layers = recomputed(result.layers, change.recomputation);
  }
  if (change.frozen_layers > 0) {
    result.layers = frozen(result.layers, change.frozen_layers);
    result.ends = frozen(result.ends, 1);
  }
  return result;
}

namespace {

/// The first stages that have frozen layers only.
int frozen_stages(const profile::Partition& partition, int frozen_layers) {
  int stages = 0;
  int layers = 0;
  for (const int count : partition) {
    layers += count;
    if (layers > frozen_layers) break;
    ++stages;
  }
  return stages;
}

ProfiledPipeline pipeline_of(const WorkReplanRequest& request, const Work& work, const profile::Partition& partition) {
  ProfiledPipeline pipeline;
  pipeline.profile = stage_profile_of(changed_profile(request.profile, work.change), partition);
  const int frozen = frozen_stages(partition, work.change.frozen_layers);
  pipeline.schedule = with_frozen_stages(work.schedule, frozen);
  pipeline.dag = build_dag(pipeline.schedule);
  pipeline.blocking_power_w = request.blocking_power_w;
  return pipeline;
}

/// One pipeline with its frontier, from which plans can be made.
class Candidate {
 public:
  Candidate(const WorkReplanRequest& request, const Work& work, const profile::Partition& partition, Progress* progress)
      : pipeline_(pipeline_of(request, work, partition)),
        partition_(partition),
        planner_options_(request.planner),
        planner_(pipeline_.schedule, pipeline_.profile, pipeline_.blocking_power_w, request.planner,
                 std::array<planner::FrontierObserver*, 1>{&certificate_}, progress) {}

  [[nodiscard]] double fastest_s() const { return planner_.fastest_s(); }

  [[nodiscard]] PlannedWork planned(double deadline_s) && {
    const planner::PlanningProblem problem = pipeline_.problem();
    const ReplayConditions conditions{planner_options_.switch_latency_s, {}};
    PlannedWork result;
    result.full_clocks = figures_of(replay_under(problem, max_clocks_mhz(problem), conditions));
    result.frontier = {
        .method = planner_.method(),
        .vertices = frontier_points(planner_.frontier()),
        .lower_bound = lower_bound_points(planner_.frontier(), planner_.method()),
        .epsilon = planner_.method() == planner::FrontierMethod::exact ? 0 : planner_.frontier().epsilon(),
        .certificate = certificate_.text()};
    result.fastest_s = planner_.fastest_s();
    result.plan = planner_.plan(deadline_s);
    result.finding = faster_than_full_clocks(result.plan.time_s, result.full_clocks.time_s);
    result.partition = std::move(partition_);
    result.pipeline = std::move(pipeline_);
    return result;
  }

 private:
  planner::CertificateRecorder certificate_;
  ProfiledPipeline pipeline_;
  profile::Partition partition_;
  planner::PlannerOptions planner_options_;
  planner::PipelinePlanner planner_;
};

void check(const WorkReplanRequest& request) {
  const schedule::Schedule& before = request.before.schedule;
  const schedule::Schedule& after = request.after.schedule;
  if (before.rank_count() != after.rank_count() || before.stages != after.stages) {
    throw InputError(
        fmt::format("the schedule has {} ranks and {} stages before, and {} and {} after the change; only "
                    "its order and its microbatches may change",
                    before.rank_count(), before.stages, after.rank_count(), after.stages));
  }
  if (static_cast<std::size_t>(before.stages) != request.partition.size()) {
    throw InputError(fmt::format("the partition has {} stages and the schedule {}; give the layers of every stage",
                                 request.partition.size(), before.stages));
  }
  if (request.keep_partition || after.stages == after.rank_count()) return;
  throw InputError(fmt::format(
      "the schedule {} has {} stages on {} ranks: layers can only move where every rank has one stage; keep "
      "the partition",
      after.name, after.stages, after.rank_count()));
}

double new_deadline_s(const WorkReplanRequest& request, double old_time_s, double fastest_s) {
  if (request.after_deadline_s) return deadline_or_fastest_s(*request.after_deadline_s, fastest_s);
  if (request.step_time == StepTime::own_fastest) return fastest_s;
  return old_time_s * request.after.schedule.microbatches / request.before.schedule.microbatches;
}

/// More work than before may not be possible in the time of the plan before.
void require_old_time(const WorkReplanRequest& request, double deadline_s, double fastest_s) {
  if (request.after_deadline_s || deadline_s >= (1 - kDeadlineRounding) * fastest_s) return;
  throw InputError(
      fmt::format("the time of the plan before, {:.6g} s, cannot be kept: the changed work takes {} s at least; plan "
                  "for that with --time own, or give a longer --deadline",
                  deadline_s, rounded_up(fastest_s)));
}

}  // namespace

WorkReplan replan_work(const WorkReplanRequest& request, Progress* progress) {
  check(request);
  WorkReplan result;
  Candidate before(request, request.before, request.partition, progress);
  const double before_deadline_s =
      deadline_or_fastest_s(request.deadline_s.value_or(before.fastest_s()), before.fastest_s());
  result.before = std::move(before).planned(before_deadline_s);

  const profile::Partition partition =
      request.keep_partition
          ? request.partition
          : balanced_partition(changed_profile(request.profile, request.after.change), request.after.schedule.stages);
  Candidate after(request, request.after, partition, progress);
  // A plan's own time may be picoseconds below its deadline, and then below T_min.
  const double old_time_s = std::min(before_deadline_s, result.before.frontier.vertices.back().time_s);
  const double deadline_s = new_deadline_s(request, old_time_s, after.fastest_s());
  require_old_time(request, deadline_s, after.fastest_s());
  result.after = std::move(after).planned(deadline_s);
  if (partition == request.partition) {
    result.same_partition = result.after;
    return result;
  }
  Candidate same(request, request.after, request.partition, progress);
  const bool is_own_time = request.step_time == StepTime::own_fastest && !request.after_deadline_s;
  if (is_own_time || same.fastest_s() <= deadline_s) {
    const double same_deadline_s = is_own_time ? same.fastest_s() : deadline_s;
    result.same_partition = std::move(same).planned(same_deadline_s);
  }
  return result;
}

}  // namespace lowgear::api
