#include "estimating/estimator/search/power_bound.h"

#include <algorithm>
#include <numeric>

namespace lowgear::estimator {
namespace {

double slope_w(const TimedEnergy& from, const TimedEnergy& to) {
  return (to.energy_j - from.energy_j) / (to.time_s - from.time_s);
}

bool same_work(const WorkCost& a, const WorkCost& b) {
  return a.core_s == b.core_s && a.memory_s == b.memory_s && a.link_s == b.link_s && a.wait_s == b.wait_s &&
         a.link_bytes == b.link_bytes && a.core_load == b.core_load;
}

bool same_work(const StageEstimate& a, const StageEstimate& b) {
  return same_work(a.forward, b.forward) && same_work(a.backward, b.backward) &&
         same_work(a.weight_gradient, b.weight_gradient);
}

/// Other orders may run the two parts of a backward apart.
bool has_whole_backwards(const TrainingJob& job) {
  return job.schedule == "1f1b" || job.schedule == "interleaved" || job.schedule == "gpipe";
}

double pass_s(const StageEstimate& stage) { return stage.forward.time_s() + stage.backward.time_s(); }

}  // namespace

LeastEnergy::LeastEnergy(const WorkEnergy& work, std::span<const int> clocks_mhz, double blocking_w) {
  points_.clear();
  for (const int clock_mhz : clocks_mhz) {
    TimedEnergy next = work.at_clock(clock_mhz);
    next.energy_j -= blocking_w * next.time_s;
    if (!points_.empty() && !(next.time_s > points_.back().time_s)) continue;
    const auto is_above_line = [&] {
      return points_.size() > 1 &&
             slope_w(points_[points_.size() - 2], points_.back()) >= slope_w(points_.back(), next);
    };
    while (is_above_line()) points_.pop_back();
    points_.push_back(next);
  }
  while (points_.size() > 1 && points_.back().energy_j >= points_[points_.size() - 2].energy_j) points_.pop_back();
}

LeastEnergy& LeastEnergy::operator+=(const LeastEnergy& other) {
  std::vector<TimedEnergy> sum{{points_.front().time_s + other.points_.front().time_s,
                                points_.front().energy_j + other.points_.front().energy_j}};
  sum.reserve(points_.size() + other.points_.size());
  const auto add_piece = [&sum](const std::vector<TimedEnergy>& points, std::size_t piece) {
    sum.push_back({sum.back().time_s + points[piece + 1].time_s - points[piece].time_s,
                   sum.back().energy_j + points[piece + 1].energy_j - points[piece].energy_j});
  };
  std::size_t mine = 0;
  std::size_t theirs = 0;
  while (mine + 1 < points_.size() || theirs + 1 < other.points_.size()) {
    const bool only_mine = theirs + 1 == other.points_.size();
    if (only_mine || (mine + 1 < points_.size() && slope_w(points_[mine], points_[mine + 1]) <=
                                                       slope_w(other.points_[theirs], other.points_[theirs + 1]))) {
      add_piece(points_, mine++);
    } else {
      add_piece(other.points_, theirs++);
    }
  }
  points_ = std::move(sum);
  return *this;
}

double LeastEnergy::at(double time_s) const {
  const auto after = std::ranges::upper_bound(points_, time_s, {}, &TimedEnergy::time_s);
  if (after == points_.begin()) return points_.front().energy_j;
  if (after == points_.end()) return points_.back().energy_j;
  const TimedEnergy& before = *(after - 1);
  return before.energy_j + slope_w(before, *after) * (time_s - before.time_s);
}

std::optional<double> fastest_within(double power_w, const TimesWithin& times,
                                     const std::function<double(double)>& energy_j) {
  constexpr int kBisections = 50;
  const auto excess_j = [&](double time_s) { return energy_j(time_s) - power_w * time_s; };
  double above_s = times.fastest_s;
  if (excess_j(above_s) <= 0) return above_s;
  double within_s = std::max(times.flat_s, times.fastest_s);
  if (const double left_j = excess_j(within_s); left_j > 0) {
    if (!(power_w > times.waiting_w)) return std::nullopt;
    return within_s + left_j / (power_w - times.waiting_w);
  }
  for (int i = 0; i < kBisections; ++i) {
    const double middle_s = (above_s + within_s) / 2;
    (excess_j(middle_s) > 0 ? above_s : within_s) = middle_s;
  }
  return above_s;
}

CappedLayout::CappedLayout(const TrainingJob& job, const IterationEstimate& estimate)
    : job_(&job),
      microbatches_(static_cast<double>(job.microbatches())),
      whole_backwards_(has_whole_backwards(job)),
      clocks_mhz_(profiled_clocks_mhz(job.gpu.clocks)),
      stages_(stage_kinds(estimate)),
      replayed_s_(replayed_s(estimate)),
      scale_(job, estimate, replayed_s_),
      full_clocks_(job_in(replayed_s_, effective_j(clocks_mhz_.front()))) {
  add_ranks(estimate);
}

CappedLayout::StageKinds CappedLayout::stage_kinds(const IterationEstimate& estimate) const {
  const GpuModel& gpu = job_->gpu;
  StageKinds stages;
  std::vector<const StageEstimate*> examples;
  for (const StageEstimate& stage : estimate.stages) {
    const auto known =
        std::ranges::find_if(examples, [&stage](const StageEstimate* example) { return same_work(*example, stage); });
    stages.of_stage.push_back(static_cast<std::size_t>(known - examples.begin()));
    if (known != examples.end()) continue;
    examples.push_back(&stage);
    StageKind kind{{WorkEnergy(gpu, stage.forward)}, {}};
    if (whole_backwards_ || !(stage.weight_gradient.time_s() > 0)) {
      kind.passes.emplace_back(gpu, stage.backward);
    } else {
      kind.passes.emplace_back(gpu, stage.backward + -1 * stage.weight_gradient);
      kind.passes.emplace_back(gpu, stage.weight_gradient);
    }
    for (const WorkEnergy& pass : kind.passes) kind.least += LeastEnergy(pass, clocks_mhz_, gpu.power.blocking_w);
    stages.kinds.push_back(std::move(kind));
  }
  return stages;
}

/// Messages that run concurrently with computation are not in the planner's graph.
double CappedLayout::replayed_s(const IterationEstimate& estimate) const {
  if (!job_->overlap.pipeline) return estimate.pipeline_s;
  return pipeline_times(job_->schedule, costs_at(clocks_mhz_.front())).time_s();
}

void CappedLayout::add_ranks(const IterationEstimate& estimate) {
  const auto ranks = static_cast<std::size_t>(job_->parallel.pp);
  std::vector<std::vector<std::size_t>> known;  // kinds of a rank's stages
  double head_s = 0;
  double detour_s = 0;
  for (std::size_t rank = 1; rank < ranks; ++rank) detour_s += 2 * pass_s(estimate.stages[rank]);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<std::size_t> stages;
    for (std::size_t stage = rank; stage < stages_.of_stage.size(); stage += ranks)
      stages.push_back(stages_.of_stage[stage]);
    const auto found = std::ranges::find(known, stages);
    RankBound bound{static_cast<std::size_t>(found - known.begin()), head_s};
    if (found == known.end()) {
      LeastEnergy sum;
      for (const std::size_t kind : stages) sum += stages_.kinds[kind].least;
      least_.push_back(std::move(sum));
      known.push_back(std::move(stages));
    }
    const auto warmup = static_cast<double>(ranks - 1 - rank);
    if (job_->schedule == "1f1b" && microbatches_ >= warmup + 2) {
      bound.warmup = warmup;
      bound.detour_s = detour_s;
    }
    ranks_.push_back(bound);
    head_s += whole_backwards_ ? pass_s(estimate.stages[rank]) : estimate.stages[rank].forward.time_s();
    if (rank + 1 < ranks) detour_s -= 2 * pass_s(estimate.stages[rank + 1]);
  }
}

PipelineCosts CappedLayout::costs_at(int clock_mhz) const {
  PipelineCosts costs{.ranks = job_->parallel.pp,
                      .chunks = job_->parallel.virtual_stages,
                      .microbatches = static_cast<int>(job_->microbatches())};
  for (const std::size_t kind : stages_.of_stage) {
    const std::vector<WorkEnergy>& passes = stages_.kinds[kind].passes;
    const double last_s = passes.back().at_clock(clock_mhz).time_s;
    const bool split = passes.size() > 2;
    costs.forward_s.push_back(passes.front().at_clock(clock_mhz).time_s);
    costs.backward_s.push_back(last_s + (split ? passes[1].at_clock(clock_mhz).time_s : 0));
    costs.weight_gradient_s.push_back(split ? last_s : 0);
  }
  costs.activation_send_s.assign(stages_.of_stage.size() - 1, 0);
  costs.gradient_send_s = costs.activation_send_s;
  return costs;
}

/// `effective_j`: energy of all ops beyond blocking power.
JobFigures CappedLayout::job_in(double pipeline_s, double effective_j) const {
  return scale_.job(pipeline_s, effective_j + job_->parallel.pp * job_->gpu.power.blocking_w * pipeline_s);
}

double CappedLayout::effective_j(int clock_mhz) const {
  std::vector<double> of_kind;
  for (const StageKind& kind : stages_.kinds) {
    double sum_j = 0;
    for (const WorkEnergy& pass : kind.passes) {
      const TimedEnergy taken = pass.at_clock(clock_mhz);
      sum_j += microbatches_ * (taken.energy_j - job_->gpu.power.blocking_w * taken.time_s);
    }
    of_kind.push_back(sum_j);
  }
  return std::accumulate(stages_.of_stage.begin(), stages_.of_stage.end(), 0.0,
                         [&of_kind](double sum_j, std::size_t kind) { return sum_j + of_kind[kind]; });
}

JobFigures CappedLayout::at_clock(int clock_mhz) const {
  return job_in(pipeline_times(job_->schedule, costs_at(clock_mhz)).time_s(), effective_j(clock_mhz));
}

/// Of M microbatches, w have time only while the rank would wait; without that limit all get the same time.
double CappedLayout::least_j(const RankBound& rank, double pipeline_s) const {
  const LeastEnergy& least = least_[rank.least];
  const double ops_s = pipeline_s - rank.head_s;
  const double steady = microbatches_ - rank.warmup;
  const double equal_s = ops_s / microbatches_;
  if (rank.warmup == 0 || steady * equal_s <= ops_s - rank.detour_s) return microbatches_ * least.at(equal_s);
  return steady * least.at((ops_s - rank.detour_s) / steady) + rank.warmup * least.at(rank.detour_s / rank.warmup);
}

double CappedLayout::flat_s(const RankBound& rank) const {
  const double slowest_s = least_[rank.least].slowest_s();
  const double steady_s = (microbatches_ - rank.warmup) * slowest_s + rank.detour_s;
  return rank.head_s + std::max(microbatches_ * slowest_s, steady_s);
}

double CappedLayout::least_energy_j(double time_s) const {
  const double pipeline_s = scale_.pipeline_s(time_s);
  double sum_j = 0;
  for (const RankBound& rank : ranks_) sum_j += least_j(rank, pipeline_s);
  return job_in(pipeline_s, sum_j).energy_j;
}

std::optional<double> CappedLayout::fastest_s(double power_w) const {
  double flat_s = replayed_s_;
  for (const RankBound& rank : ranks_) flat_s = std::max(flat_s, this->flat_s(rank));
  const TimesWithin times{full_clocks_.time_s, scale_.job(flat_s, 0).time_s,
                          job_->parallel.gpus() * job_->gpu.power.blocking_w};
  return fastest_within(power_w, times, [this](double time_s) { return least_energy_j(time_s); });
}

/// Power falls with the clock; what is found is checked.
std::optional<OneClock> CappedLayout::one_clock(double power_w) const {
  if (full_clocks_.mean_power_w() <= power_w) return OneClock{clocks_mhz_.front(), full_clocks_};
  const auto found = std::ranges::partition_point(
      clocks_mhz_, [&](int clock_mhz) { return at_clock(clock_mhz).mean_power_w() > power_w; });
  if (found == clocks_mhz_.end()) return std::nullopt;
  const JobFigures figures = at_clock(*found);
  if (!(figures.mean_power_w() <= power_w)) return std::nullopt;
  return OneClock{*found, figures};
}

}  // namespace lowgear::estimator
