// How many iterations the search of the operating point takes, and how near it comes to the best point, on simulated
// jobs whose true figures are known. Zeus' power limit optimizer takes 10 + 40 iterations at each of 21 limits of an
// H100.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "planning/adapt/searched_job.h"

namespace lowgear::adapt {
namespace {

struct Level {
  const char* name;
  JobNoise noise;
};

void print_row(double iteration_time_s, const Level& level, double allowed_slowdown_pct) {
  constexpr unsigned kSearches = 1000;
  std::vector<double> regrets_pct;
  double iterations = 0;
  double lost_s = 0;
  int most_iterations = 0;
  unsigned within = 0;
  unsigned too_slow = 0;
  for (unsigned seed = 0; seed < kSearches; ++seed) {
    const SearchOutcome outcome = search_outcome(random_frontier(iteration_time_s, seed),
                                                 {.allowed_slowdown_pct = allowed_slowdown_pct}, level.noise, seed + 1);
    regrets_pct.push_back(outcome.regret_pct);
    iterations += outcome.iterations;
    lost_s += outcome.cost.time_s;
    most_iterations = std::max(most_iterations, outcome.iterations);
    within += outcome.regret_pct <= 0.5 ? 1U : 0U;
    too_slow += outcome.too_slow_pct > 0.5 ? 1U : 0U;
  }
  std::ranges::sort(regrets_pct);
  fmt::print("{:>6} s  {:<6} {:>6} %  {:>6.0f} {:>6}   {:>6.1f} %   {:>6.2f} %   {:>6.1f} %  {:>6.0f} s\n",
             iteration_time_s, level.name, allowed_slowdown_pct, iterations / kSearches, most_iterations,
             100.0 * within / kSearches, regrets_pct[kSearches * 95 / 100], 100.0 * too_slow / kSearches,
             lost_s / kSearches);
}

}  // namespace
}  // namespace lowgear::adapt

int main() {
  using namespace lowgear::adapt;
  const std::array levels = {Level{"quiet", {.iteration = 0.002, .slow = 0.001}}, Level{"usual", {}},
                             Level{"loud", {.iteration = 0.02, .slow = 0.006, .stragglers = 0.01}}};
  fmt::print(
      "Simulated: 1000 jobs a row, six plans at T_min x 1 to 1.05, blocks of 30 s.\n"
      "iteration noise  allowed   mean   most   in 0.5 %  95th regret  too slow  time lost\n");
  for (const double iteration_time_s : {1.0, 3.0, 8.0, 20.0}) {
    for (const Level& level : levels) {
      for (const double allowed_pct : {1.2, 3.0}) print_row(iteration_time_s, level, allowed_pct);
    }
  }
}
