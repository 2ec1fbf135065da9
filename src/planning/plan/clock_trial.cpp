#include "planning/plan/clock_trial.h"

#include <fmt/format.h>

#include "base/core/units.h"

namespace lowgear::plan {
namespace {

constexpr std::int64_t kMaxIterationNumber = std::int64_t{1} << 52;
constexpr int kMaxIterations = 1'000'000;

}  // namespace

Json to_json(std::span<const ClockTrial> trials) {
  Json list = Json::array();
  for (const ClockTrial& trial : trials) {
    list.push_back(
        {{"first_iteration", trial.first_iteration}, {"iterations", trial.iterations}, {"clock_mhz", trial.clock_mhz}});
  }
  return list;
}

std::vector<ClockTrial> read_clock_trials(const JsonView& value) {
  if (value.size() > kMaxClockTrials) value.fail(fmt::format("more than {} trials", kMaxClockTrials));
  std::vector<ClockTrial> trials;
  std::int64_t free_from = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const JsonView entry = value.at(i);
    const JsonView first = entry.at("first_iteration");
    ClockTrial trial;
    trial.first_iteration = first.integer();
    trial.iterations = entry.at("iterations").integer_in(1, kMaxIterations);
    trial.clock_mhz = entry.at("clock_mhz").integer_in(1, kMaxClockMhz);
    if (trial.first_iteration < free_from) first.fail("begins before the trial above it has ended");
    if (trial.first_iteration > kMaxIterationNumber) first.fail("is not the number of an iteration");
    free_from = trial.end_iteration();
    trials.push_back(trial);
  }
  return trials;
}

}  // namespace lowgear::plan
