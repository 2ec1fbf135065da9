#include "report/report/sample_report.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <string>
#include <utility>

namespace lowgear::report {

namespace {

constexpr int kMinClockMhz = 855;
constexpr int kHighestClockMhz = 1410;
constexpr int kClockStepMhz = 15;
constexpr double kBlockingPowerW = 83.64;

double op_time_s(int rank, OpKind kind, int clock_mhz) {
  const double imbalance = 1 + 0.04 * ((rank * 5) % 8);  // rank 3 is the slowest
  const double work_s = kind == OpKind::forward ? 0.05 : 0.093;
  return work_s * imbalance * (0.25 + 0.75 * kHighestClockMhz / clock_mhz);
}

double op_energy_j(int rank, OpKind kind, int clock_mhz) {
  const double share = static_cast<double>(clock_mhz) / kHighestClockMhz;
  return op_time_s(rank, kind, clock_mhz) * (150 + 330 * share * share * share);
}

/// 1F1B as a timeline whose starts are found by relaxing in an order that respects every dependency.
class Pipeline {
 public:
  Pipeline(int ranks, int microbatches) : ranks_(ranks), microbatches_(microbatches) {
    rows_.resize(ranks);
    for (int rank = 0; rank < ranks; ++rank) fill_rank(rank);
    find_order();
  }

  double schedule() {
    double end_s = 0;
    for (const auto& [rank, position] : order_) {
      Op& op = rows_[rank][position];
      op.start_s = position > 0 ? end_of(rows_[rank][position - 1]) : 0;
      if (const Op* before = source_of(rank, op)) op.start_s = std::max(op.start_s, end_of(*before));
      op.duration_s = op_time_s(rank, op.kind, op.clock_mhz);
      op.energy_j = op_energy_j(rank, op.kind, op.clock_mhz);
      end_s = std::max(end_s, end_of(op));
    }
    return end_s;
  }

  /// Low clocks that keep the iteration within `deadline_s`: in rounds, each of which lets every op go a step lower.
  void slow_down(double deadline_s) {
    constexpr int kRounds = 4;
    for (int round = 1; round <= kRounds; ++round) {
      const int floor_mhz = kHighestClockMhz - (kHighestClockMhz - kMinClockMhz) / kRounds * round;
      for (const auto& [rank, position] : std::ranges::reverse_view(order_)) {
        slow_op_down(rows_[rank][position], floor_mhz, deadline_s);
      }
    }
  }

  Timeline timeline(std::string label) {
    Timeline result;
    result.label = std::move(label);
    result.time_s = schedule();
    result.ranks = rows_;
    for (const auto& row : rows_) {
      double busy_s = 0;
      for (const Op& op : row) {
        busy_s += op.duration_s;
        result.energy_j += op.energy_j;
      }
      result.energy_j += kBlockingPowerW * (result.time_s - busy_s);
    }
    return result;
  }

 private:
  static double end_of(const Op& op) { return op.start_s + op.duration_s; }

  void slow_op_down(Op& op, int floor_mhz, double deadline_s) {
    int low = 0;
    int high = (op.clock_mhz - floor_mhz) / kClockStepMhz;
    const int from_mhz = op.clock_mhz;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      op.clock_mhz = from_mhz - middle * kClockStepMhz;
      if (schedule() <= deadline_s + 1e-9) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    op.clock_mhz = from_mhz - low * kClockStepMhz;
  }

  void fill_rank(int rank) {
    const auto add = [&](OpKind kind, int microbatch) {
      rows_[rank].push_back({{rank, kind, microbatch, kHighestClockMhz, 0, 0}, 0});
    };
    const int warm_up = std::min(microbatches_, ranks_ - 1 - rank);
    for (int m = 0; m < warm_up; ++m) add(OpKind::forward, m);
    for (int m = warm_up; m < microbatches_; ++m) {
      add(OpKind::forward, m);
      add(OpKind::backward, m - warm_up);
    }
    for (int m = microbatches_ - warm_up; m < microbatches_; ++m) add(OpKind::backward, m);
  }

  [[nodiscard]] std::size_t position_of(int rank, OpKind kind, int microbatch) const {
    const auto& row = rows_[rank];
    return std::find_if(row.begin(), row.end(),
                        [&](const Op& op) { return op.kind == kind && op.microbatch == microbatch; }) -
           row.begin();
  }

  /// The op of another rank that `op` waits for.
  [[nodiscard]] std::pair<int, std::size_t> source_index(int rank, const Op& op) const {
    const int from = op.kind == OpKind::forward ? rank - 1 : rank + 1;
    if (from < 0 || from >= ranks_) return {-1, 0};
    return {from, position_of(from, op.kind, op.microbatch)};
  }

  const Op* source_of(int rank, const Op& op) {
    const auto [from, position] = source_index_.at(rank).at(&op - rows_[rank].data());
    return from < 0 ? nullptr : &rows_[from][position];
  }

  void find_order() {
    source_index_.resize(ranks_);
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const Op& op : rows_[rank]) source_index_[rank].push_back(source_index(rank, op));
    }
    std::vector<std::size_t> done(ranks_, 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < ranks_; ++rank) {
        while (done[rank] < rows_[rank].size()) {
          const auto [from, position] = source_index_[rank][done[rank]];
          if (from >= 0 && done[from] <= position) break;
          order_.emplace_back(rank, done[rank]++);
          moved = true;
        }
      }
    }
  }

  int ranks_;
  int microbatches_;
  std::vector<std::vector<Op>> rows_;
  std::vector<std::vector<std::pair<int, std::size_t>>> source_index_;
  std::vector<std::pair<int, std::size_t>> order_;
};

/// A convex falling curve from the fastest point, with as many vertices as a real frontier.
std::vector<simulator::PipelineFigures> sample_curve(const simulator::PipelineFigures& fastest) {
  constexpr int kVertices = 2000;
  std::vector<simulator::PipelineFigures> curve;
  for (int i = 0; i < kVertices; ++i) {
    const double share = static_cast<double>(i) / (kVertices - 1);
    curve.push_back(
        {fastest.time_s * (1 + 0.22 * share), fastest.energy_j * (1 - 0.16 * (1 - std::pow(1 - share, 2.2)))});
  }
  return curve;
}

std::vector<api::PlanFigures> sample_plans(const std::vector<simulator::PipelineFigures>& curve) {
  constexpr int kPlans = 20;
  std::vector<api::PlanFigures> plans;
  for (int i = 0; i < kPlans; ++i) {
    const simulator::PipelineFigures& point = curve[i * (curve.size() - 1) / (kPlans - 1)];
    plans.push_back({i, point.time_s, point.time_s, point.energy_j * (1 + 1e-4 * ((i * 7) % 5)), point.energy_j,
                     120 + 31 * ((i * 3) % 7)});
  }
  return plans;
}

std::vector<api::ComparisonRow> sample_policies(const simulator::PipelineFigures& baseline,
                                                const simulator::PipelineFigures& fastest) {
  const auto at = [&](double time_share, double energy_share) {
    return std::pair{baseline.time_s * time_share,
                     fastest.energy_j + energy_share * (baseline.energy_j - fastest.energy_j)};
  };
  std::vector<api::ComparisonRow> policies;
  const auto add = [&](std::string name, std::pair<double, double> figures, int switches, std::string note) {
    policies.push_back({.policy = std::move(name),
                        .time_s = figures.first,
                        .energy_j = figures.second,
                        .lower_bound_j = fastest.energy_j * 0.97,
                        .switches = switches,
                        .plan_time_s = 0.0031,
                        .note = std::move(note),
                        .own_order = false,
                        .peak_activations = std::nullopt});
  };
  add("zeus-global", at(1.09, 0.35), 0, "one clock for all GPUs");
  add("zeus-per-stage", at(1.045, 0.55), 0, "one clock per stage");
  add("envpipe", at(1.004, 0.22), 58, "ignores the deadline");
  add("perseus", at(1.0005, 0.05), 310, "");
  return policies;
}

}  // namespace

Data sample_report(int ranks, int microbatches) {
  Pipeline pipeline(ranks, microbatches);
  Data data;
  data.baseline_timeline = pipeline.timeline("All at 1410 MHz");
  const Timeline& baseline = data.baseline_timeline;
  pipeline.slow_down(baseline.time_s);
  data.chosen = pipeline.timeline("lowgear, plan 0");
  const simulator::PipelineFigures fastest{baseline.time_s, data.chosen.energy_j * 0.9997};

  data.lowgear_version = "0.1.0";
  data.command = "lowgear plan --profile invented.csv --stages 8 --schedule 1f1b --out out";
  data.profile_name = "invented-pipeline.csv";
  data.schedule = "1f1b";
  data.stages = ranks;
  data.microbatches = microbatches;
  data.blocking_power_w.assign(ranks, kBlockingPowerW);
  data.baseline = {"Every op at its highest profiled clock", baseline.time_s, baseline.energy_j};
  data.frontier = sample_curve(fastest);
  data.certificate = {true, "Slacks, flow conservation and primal = dual of an invented example.",
                      "lowgear verify out"};
  data.plans = sample_plans(data.frontier);
  data.plans.front().energy_j = data.chosen.energy_j;
  data.chosen_plan = 0;
  data.policies = sample_policies({baseline.time_s, baseline.energy_j}, fastest);
  return data;
}

Timeline repeated(const Timeline& once, int copies) {
  Timeline all = once;
  all.time_s *= copies;
  all.energy_j *= copies;
  for (auto& ops : all.ranks) {
    const auto per_copy = ops.size();
    const int microbatches = static_cast<int>(per_copy / 2);
    for (int copy = 1; copy < copies; ++copy) {
      for (std::size_t i = 0; i < per_copy; ++i) {
        Op op = ops[i];
        op.start_s += copy * once.time_s;
        op.microbatch += copy * microbatches;
        ops.push_back(op);
      }
    }
  }
  return all;
}

}  // namespace lowgear::report
