#pragma once

#include <string>
#include <vector>

#include "planning/profile/recording.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"

namespace lowgear::report {

/// Four iterations of GPipe with two microbatches on two ranks of one machine, forwards of 0.1 s and backwards of 0.2
/// s, as their simulated GPUs' recordings tell. Rank 1 started recording 2 s later.
struct SampleRun {
  static constexpr double iteration_end_s = 0.801;

  SampleRun() : dag(schedule::build_dag(schedule::gpipe_schedule(2, 2))) {
    for (const int rank : {0, 1}) recordings.push_back(record(rank));
  }

  schedule::PipelineDag dag;
  std::vector<profile::Recording> recordings;

 private:
  static profile::Recording record(int rank) {
    profile::Recording recording;
    recording.source = "rank-" + std::to_string(rank);
    recording.rank = rank;
    recording.world_size = 2;
    recording.simulated = true;
    const double started_s = 100 + 2.0 * rank;
    recording.clock = {"machine", started_s};
    for (int iteration = 0; iteration < 4; ++iteration) {
      const double begin_s = 103 + 1.0 * iteration - started_s;
      recording.iterations.push_back({iteration, begin_s, begin_s + 0.9});
      const double first_s = begin_s + 0.001;
      const auto add = [&](OpKind kind, int microbatch, double start_s) {
        const double time_s = kind == OpKind::forward ? 0.1 : 0.2;
        recording.units.push_back({.iteration = iteration,
                                   .stage = rank,
                                   .kind = kind,
                                   .microbatch = microbatch,
                                   .start_s = first_s + start_s,
                                   .end_s = first_s + start_s + time_s,
                                   .clock_mhz = 1200});
      };
      const double behind_s = 0.1 * rank;
      add(OpKind::forward, 0, behind_s);
      add(OpKind::forward, 1, behind_s + 0.1);
      // GPipe's backwards: those of the last rank first.
      const double backward_s = rank == 1 ? 0.3 : 0.4;
      add(OpKind::backward, 0, backward_s);
      add(OpKind::backward, 1, backward_s + 0.2);
    }
    // 250 W all the time, in a counter that is read every 50 ms and advances every 100 ms.
    for (int i = 0; i < 100; ++i) {
      profile::EnergySample& sample = recording.samples.emplace_back();
      sample.time_s = 0.05 * i;
      sample.energy_j = 250 * 0.1 * (i / 2);
      sample.sm_mhz = 1195;
    }
    return recording;
  }
};

}  // namespace lowgear::report
