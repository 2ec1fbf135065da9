#include "planning/steps/sample_steps.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "planning/schedule/generators.h"
#include "planning/steps/expert_loads.h"

namespace lowgear::steps {

profile::StageProfile sample_profile(int stages) {
  profile::StageProfile profile(stages);
  for (int stage = 0; stage < stages; ++stage) {
    for (const int clock_mhz : {1410, 1290, 1170, 1050, 930, 810}) {
      const double slower = 1410.0 / clock_mhz;
      const double power_w = 90 + 210 / (slower * slower * slower);
      const double time_s = (0.050 + 0.002 * stage) * (0.25 + 0.75 * slower);
      profile.add(stage, OpKind::forward, {clock_mhz, time_s, time_s * power_w});
      profile.add(stage, OpKind::backward, {clock_mhz, 2.1 * time_s, 2.0 * time_s * power_w});
    }
  }
  return profile;
}

schedule::PipelineDag sample_dag(int stages, int microbatches) {
  return build_dag(schedule::one_f_one_b_schedule(stages, microbatches));
}

SampleFiles sample_files(int steps, int replicas, int stages, int microbatches, double noise) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> length(7, 1.2);
  std::normal_distribution<double> error(0, noise);
  SampleFiles files{"step,replica,microbatch,lengths\n", "step,dp_rank,stage,op,microbatch,duration_us\n"};
  for (int step = 0; step < steps; ++step) {
    for (int replica = 0; replica < replicas; ++replica) {
      for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
        Amounts amounts;
        fmt::format_to(std::back_inserter(files.lengths), "{},{},{},", step, replica, microbatch);
        for (int document = 0; document < 4; ++document) {
          const double tokens = std::ceil(std::min(length(random), 20'000.0));
          amounts.tokens += tokens;
          amounts.squared_tokens += tokens * tokens;
          fmt::format_to(std::back_inserter(files.lengths), "{}{}", document == 0 ? "" : " ", tokens);
        }
        files.lengths += '\n';
        for (int stage = 0; stage < stages; ++stage) {
          for (const int backward : {0, 1}) {
            const double time_s = (1 + 0.1 * stage) * (1 + backward) * (1 + error(random)) *
                                  (kConstantS + kLinearS * amounts.tokens + kAttentionS * amounts.squared_tokens);
            fmt::format_to(std::back_inserter(files.trace), "{},{},{},{},{},{}\n", step, replica, stage,
                           backward == 1 ? "backward-compute" : "forward-compute", microbatch, time_s * 1e6);
          }
        }
      }
    }
  }
  return files;
}

LoadedSteps::LoadedSteps(int changed_step) {
  std::mt19937 random(11);
  std::uniform_int_distribution<int> tokens(100, 400);
  std::vector<planner::PlanFolder::File> loads{{"e.csv", "step,replica,microbatch,layer,expert_tokens\n"}};
  for (int step = 0; step < kSteps; ++step) {
    for (int place = 0; place < kReplicas * kMicrobatches * 4; ++place) {
      const int first = tokens(random) + 10 * step;
      const int second = tokens(random);
      fmt::format_to(std::back_inserter(loads[0].text), "{},{},{},{},{} {} 50 {}\n", step, place / 4 / kMicrobatches,
                     place / 4 % kMicrobatches, place % 4, first, second, step == changed_step ? 500 + second : 80);
    }
  }
  lengths = read_expert_loads(loads, kRanks, kStages);
  std::string text = "step,dp_rank,stage,op,microbatch,duration_us\n";
  for (const Lengths::Step& step : lengths.steps) {
    for (int place = 0; place < kReplicas * kStages * kMicrobatches; ++place) {
      const int replica = place / kStages / kMicrobatches, stage = place / kMicrobatches % kStages;
      const double time_us =
          1e6 * (kConstantS + kLoadS * step.amounts[lengths.place(replica, place % kMicrobatches, stage)].tokens);
      fmt::format_to(std::back_inserter(text),
                     "{0},{1},{2},forward-compute,{3},{4}\n{0},{1},{2},backward-compute,{3},{5}\n", step.number,
                     replica, stage, place % kMicrobatches, time_us, 2 * time_us);
    }
  }
  trace = read_trace(text, "t.csv");
}

std::vector<double> random_work(const schedule::PipelineDag& dag, std::mt19937& random) {
  std::uniform_real_distribution<double> work(0.3, 3);
  std::vector<double> of_op;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) of_op.push_back(work(random));
  return of_op;
}

}  // namespace lowgear::steps
