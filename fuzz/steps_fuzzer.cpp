// Lengths, loads of experts, traces, and the tables of a plan of steps.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/core/error.h"
#include "checks.h"
#include "planning/profile/profile_file.h"
#include "planning/steps/expert_loads.h"
#include "planning/steps/step_folder.h"
#include "planning/steps/step_input.h"

namespace {

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
  return 0;
}
