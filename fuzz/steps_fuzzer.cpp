// Lengths, loads of experts, traces, and the tables of a plan of steps, alone and in a sound folder that is verified.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "checks.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/torch_csv.h"
#include "planning/steps/expert_loads.h"
#include "planning/steps/step_folder.h"
#include "planning/steps/step_input.h"
#include "planning/steps/verify_steps.h"

namespace {

using lowgear::steps::StepFolder;

struct Quiet final : lowgear::Progress {
  void update(std::string_view /*activity*/, double /*fraction*/) override {}
};

/// Of two replicas with three steps, planned by the loads of experts of the steps before.
StepFolder sound_folder() {
  using namespace lowgear;
  std::string loads = "step,replica,microbatch,layer,expert_tokens\n";
  std::string times = "step,dp_rank,stage,op,microbatch,duration_us\n";
  std::string rows = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 3; ++stage) {
    const std::string name = std::to_string(stage);
    rows += name + ",forward,1400,0.1,30\n" + name + ",forward,1000,0.12,25\n" + name + ",backward,1400,0.2,60\n" +
            name + ",backward,1000,0.25,50\n";
    for (int place = 0; place < 6; ++place) {
      const std::string replica = std::to_string(place / 2) + ',' + std::to_string(place % 2);
      loads += replica + ",0," + name + ',' + std::to_string(3 + place) + ' ' + std::to_string(7 - stage) + '\n';
      if (place >= 4) continue;  // the last step is not recorded
      const std::string unit = replica + ',' + name;
      times += unit + ",forward-compute,0," + std::to_string(100'000 + 1000 * place) + '\n' + unit +
               ",backward-compute,0,200000\n";
    }
  }
  const planner::PlanFolder::File file{"loads.csv", loads};
  const steps::Lengths lengths = steps::read_expert_loads({&file, 1}, 2, 3);
  const schedule::Schedule schedule = schedule::one_f_one_b_schedule(3, 1);
  const schedule::PipelineDag dag = build_dag(schedule);
  const profile::StageProfile profile = profile::read_profile_file(rows, "profile.csv").profile;
  const std::vector<double> power_w{80, 80, 80};
  Quiet quiet;
  const steps::PredictedSteps predicted =
      predict_steps(dag, lengths, steps::read_trace(times, "trace.csv"), 2, steps::Foresight::last);
  const steps::StepRun run = plan_steps(predicted, dag, profile, power_w, {}, quiet);
  const steps::StepsFile run_file{.version = {},
                                  .command = {},
                                  .profile = "p",
                                  .lengths = "l",
                                  .recorded = {},
                                  .schedule = "1f1b",
                                  .steps = 3,
                                  .fitted_steps = 2,
                                  .replicas = 2,
                                  .ranks = 3,
                                  .microbatches = 1,
                                  .foresight = steps::Foresight::last,
                                  .expert_ranks = 2,
                                  .blocking_power_w = power_w,
                                  .margins = run.margins,
                                  .model = predicted.model};
  return {{"run.json", write_steps_file(run_file)},
          {"profile.csv", rows},
          {"schedule.csv", write_torch_csv(schedule)},
          {"steps.csv", write_steps_table(run)},
          {"replicas.csv", write_replicas_table(run)},
          planner::PlanFolder::File{"amounts.csv", write_amounts_table(lengths)}};
}

bool verify(const StepFolder& folder) {
  Quiet quiet;
  return verify_steps(folder, quiet).ok();
}

void exercise(const std::function<void()>& read) {
  try {
    read();
  } catch (const lowgear::InputError&) {
    // Refusing is an answer.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const lowgear::planner::PlanFolder::File file{"fuzz", std::string(text)};
  exercise([&] { (void)lowgear::steps::is_trace(text, "fuzz"); });
  exercise([&] {
    const lowgear::steps::Trace trace = lowgear::steps::read_trace(text, "fuzz");
    for (const auto& step : trace.steps) {
      for (const double time_s : step.time_s) require(time_s > 0 || !step.fault.empty());
    }
  });
  exercise([&] {
    for (const auto& step : lowgear::steps::read_lengths(text, "fuzz").steps) {
      for (const auto& amounts : step.amounts) require(amounts.tokens >= 1 || !step.fault.empty());
    }
  });
  exercise([&] {
    const lowgear::steps::Lengths loads = lowgear::steps::read_expert_loads({&file, 1}, 2, 3);
    for (const auto& step : loads.steps) {
      require(step.amounts.size() == loads.places() && step.mean_tokens.size() == loads.places());
      for (std::size_t i = 0; i < loads.places(); ++i) require(step.mean_tokens[i] <= step.amounts[i].tokens);
    }
    (void)lowgear::steps::write_amounts_table(foreseen(loads, lowgear::steps::Foresight::last));
  });
  exercise([&] { (void)lowgear::steps::read_steps_table(file); });
  exercise([&] { (void)lowgear::steps::read_replicas_table(file); });
  exercise([&] { (void)lowgear::steps::read_steps_file(file); });
  exercise([&] {
    static const auto kProfile = lowgear::profile::read_profile_file(
        "stage,instruction,frequency,time,energy\n0,forward,1410,0.1,20\n0,backward,1410,0.2,40\n", "fuzz");
    (void)lowgear::steps::read_work_file(text, "fuzz", kProfile.profile);
  });
  static const StepFolder kSound = sound_folder();
  static const bool kIsVerified = verify(kSound);
  require(kIsVerified);
  for (lowgear::planner::PlanFolder::File StepFolder::*const part :
       {&StepFolder::run, &StepFolder::schedule, &StepFolder::steps, &StepFolder::replicas}) {
    StepFolder folder = kSound;
    (folder.*part).text = file.text;
    exercise([&] { (void)verify(folder); });
  }
  StepFolder folder = kSound;
  folder.amounts = file;
  exercise([&] { (void)verify(folder); });
  return 0;
}
