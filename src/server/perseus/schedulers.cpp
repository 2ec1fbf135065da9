#include "server/perseus/schedulers.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/core/error.h"
#include "server/perseus/lowgear.h"
#include "server/perseus/zeus.h"

namespace lowgear::server::perseus {
namespace {

/// Instructions that Zeus' client is given with their clocks.
Instruction instruction_of(const formats::PerseusPlan::Entry& entry, std::size_t stage) {
  if (entry.kind == OpKind::forward) return Instruction::forward;
  if (entry.kind == OpKind::backward) return Instruction::backward;
  throw InputError(
      fmt::format("plan of stage {}: Zeus' client wants forward and backward by name; plan with "
                  "--perseus-format zeus, which writes tuples such as ('forward', 1410)",
                  stage));
}

void require_stages(const formats::PerseusPlan& plan, const Layout& layout) {
  if (plan.stages.size() == layout.positions.size()) return;
  throw InputError(fmt::format("a plan for {} stages; the job has {}", plan.stages.size(), layout.positions.size()));
}

void require_clocks(const formats::PerseusPlan& plan, const Layout& layout) {
  for (const auto& stage : plan.stages) {
    for (const formats::PerseusPlan::Entry& entry : stage) {
      if (std::ranges::binary_search(layout.power_states, entry.clock_mhz, std::greater{})) continue;
      throw InputError(
          fmt::format("a plan asks for power state {}, which the job's GPUs do not have", entry.clock_mhz));
    }
  }
}

Schedule expand(const Layout& layout, const formats::PerseusPlan& plan) {
  Schedule schedule;
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    schedule.power_states.push_back(expand_clocks(layout.positions[stage], plan.stages[stage]));
  }
  return schedule;
}

Schedule name_instructions(const formats::PerseusPlan& plan) {
  Schedule schedule;
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    auto& instructions = schedule.instructions.emplace_back();
    auto& clocks = schedule.power_states.emplace_back();
    for (const formats::PerseusPlan::Entry& entry : plan.stages[stage]) {
      instructions.push_back(instruction_of(entry, stage));
      clocks.push_back(entry.clock_mhz);
    }
  }
  return schedule;
}

bool works_on_stages(std::string_view scheduler) {
  return scheduler.ends_with("3D") || scheduler == "PointSolution" || scheduler == "ZeusLocalPowerState";
}

/// Schedulers that think in stages and are not the 3D form of themselves.
void require_pipeline_only(const Settings& settings, const JobInfo& job) {
  if (job.dp_degree * job.tp_degree == 1 || settings.scheduler.ends_with("3D")) return;
  if (!works_on_stages(settings.scheduler)) return;
  throw InputError(fmt::format("{0} is only for pipeline parallelism, and this job has dp {1} and tp {2}; use {0}3D",
                               settings.scheduler, job.dp_degree, job.tp_degree));
}

void require_instructions(const Settings& settings, const Layout& layout) {
  if (settings.scheduler.starts_with("PointSolution")) return;
  for (const RankInfo& position : layout.positions) {
    if (!position.pipe_schedule.empty()) continue;
    throw InputError(
        fmt::format("rank {} has registered no instructions (Zeus' client never does), which {} needs; "
                    "serve such jobs with PointSolution",
                    position.rank, settings.scheduler));
  }
}

}  // namespace

std::vector<int> expand_clocks(const RankInfo& position, std::span<const formats::PerseusPlan::Entry> entries) {
  const auto refuse = [&position](const std::string& what) {
    throw InputError(fmt::format("plan of stage {}: {}; make it for this job's schedule", position.pp_rank, what));
  };
  const auto computations = static_cast<std::size_t>(std::ranges::count_if(position.pipe_schedule, is_computation));
  if (computations != entries.size()) {
    refuse(fmt::format("{} clocks for {} computations", entries.size(), computations));
  }
  std::vector<int> clocks;
  clocks.reserve(position.pipe_schedule.size());
  if (entries.empty()) refuse("no computations");
  int clock_mhz = entries.front().clock_mhz;
  std::size_t next = 0;
  for (const Instruction instruction : position.pipe_schedule) {
    if (is_computation(instruction)) {
      const formats::PerseusPlan::Entry& entry = entries[next++];
      if (entry.kind && name(*entry.kind) != name(instruction)) {
        refuse(fmt::format("computation {} is a {} in the plan and a {} in the job", next - 1, name(*entry.kind),
                           name(instruction)));
      }
      clock_mhz = entry.clock_mhz;
    }
    clocks.push_back(clock_mhz);
  }
  return clocks;
}

Step AllMaxScheduler::schedule() const {
  if (left_ == 0) return Stop{"[profiling-done] every window at the highest power state is done"};
  return uniform_schedule(layout_, layout_.power_states.front());
}

void AllMaxScheduler::end_window(std::span<const Window> /*window*/) { left_ = std::max(left_ - 1, 0); }

TwoFrequenciesScheduler::TwoFrequenciesScheduler(const Layout& layout, const Arguments& arguments) {
  for (const int clock_mhz : {arguments.forward_freq, arguments.backward_freq}) {
    if (std::ranges::find(layout.power_states, clock_mhz) != layout.power_states.end()) continue;
    throw InputError(fmt::format("TwoFrequencies: the job's GPUs have no clock of {} MHz", clock_mhz));
  }
  for (const RankInfo& position : layout.positions) {
    int clock_mhz = arguments.forward_freq;
    auto& clocks = schedule_.power_states.emplace_back();
    for (const Instruction instruction : position.pipe_schedule) {
      if (instruction == Instruction::forward) clock_mhz = arguments.forward_freq;
      if (instruction == Instruction::backward) clock_mhz = arguments.backward_freq;
      clocks.push_back(clock_mhz);
    }
  }
}

PointSolutionScheduler::PointSolutionScheduler(const Layout& layout, const Settings& settings)
    : layout_(layout),
      plans_(settings.solutions),
      warmup_windows_(settings.arguments.warmup_iters),
      is_zeus_(layout.positions.front().pipe_schedule.empty()) {
  if (is_zeus_) warmup_windows_ = 0;
  for (const formats::PerseusPlan& plan : *plans_) {
    require_stages(plan, layout_);
    require_clocks(plan, layout_);
    static_cast<void>(is_zeus_ ? name_instructions(plan) : expand(layout_, plan));
  }
}

Step PointSolutionScheduler::schedule() const {
  if (warmup_windows_ > 0) return uniform_schedule(layout_, layout_.power_states.front());
  if (is_zeus_) return name_instructions(plans_->front());
  if (next_ < plans_->size()) return expand(layout_, (*plans_)[next_]);
  return Stop{"[profiling-done] every plan has run"};
}

void PointSolutionScheduler::end_window(std::span<const Window> /*window*/) {
  if (warmup_windows_ > 0) {
    --warmup_windows_;
  } else if (next_ < plans_->size()) {
    ++next_;
  }
}

Schedule uniform_schedule(const Layout& layout, int power_state) {
  return uniform_schedule(layout, std::vector<int>(layout.positions.size(), power_state));
}

Schedule uniform_schedule(const Layout& layout, std::span<const int> power_states) {
  Schedule schedule;
  for (std::size_t i = 0; i < layout.positions.size(); ++i) {
    schedule.power_states.emplace_back(layout.positions[i].pipe_schedule.size(), power_states[i]);
  }
  return schedule;
}

Layout make_perseus_layout(const Settings& settings, const JobInfo& job, std::span<const RankInfo> ranks) {
  return works_on_stages(settings.scheduler) ? stage_layout(job, ranks) : rank_layout(job, ranks);
}

std::unique_ptr<Scheduler> make_perseus_scheduler(const Settings& settings, const Layout& layout,
                                                  std::shared_ptr<Progress> progress) {
  require_pipeline_only(settings, layout.job);
  require_instructions(settings, layout);
  const std::string_view scheduler = settings.scheduler;
  const Arguments& arguments = settings.arguments;
  if (scheduler.starts_with("AllMax")) return std::make_unique<AllMaxScheduler>(layout, arguments.num_iters);
  if (scheduler == "TwoFrequencies") return std::make_unique<TwoFrequenciesScheduler>(layout, arguments);
  if (scheduler.starts_with("PointSolution")) return std::make_unique<PointSolutionScheduler>(layout, settings);
  if (scheduler == "InstructionProfiler") return std::make_unique<InstructionProfiler>(layout, settings);
  if (scheduler == "ZeusGlobalPowerLimit") return std::make_unique<ZeusGlobalPowerLimit>(layout, arguments);
  if (scheduler.starts_with("ZeusLocal")) return std::make_unique<ZeusLocalPowerState>(layout, arguments);
  return std::make_unique<LowgearScheduler>(layout, arguments, std::move(progress));
}

}  // namespace lowgear::server::perseus
