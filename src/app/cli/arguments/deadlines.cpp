#include "app/cli/arguments/deadlines.h"

#include <algorithm>

#include "app/cli/arguments/options.h"
#include "base/core/units.h"

namespace lowgear {
namespace {

constexpr int kDefaultPlans = 20;
constexpr int kMaxPlans = 100'000;  // the numbers of plans have five digits
constexpr double kMaxSlowdownPct = 1e6;
constexpr double kMaxFactor = 1e6;
constexpr double kPercent = 100;

}  // namespace

void add_single_deadline_options(CLI::App& app, DeadlineArguments& arguments) {
  CLI::Option* deadline = add_number(app, "--deadline", {0, kMaxTimeS}, into(arguments.deadline_s),
                                     "Make one plan, for an iteration time of at most this, in s");
  CLI::Option* slowdown =
      add_number(app, "--slowdown", {0, kMaxSlowdownPct}, into(arguments.slowdown_pct),
                 "Make one plan, for a deadline this many per cent above the fastest possible iteration time (T_min)");
  CLI::Option* straggler = add_number(
      app, "--straggler", {1, kMaxFactor}, into(arguments.straggler_factor),
      "Make one plan, for waiting for a straggler that takes FACTOR x T_min: deadline min(FACTOR x T_min, T*)");
  straggler->type_name("FACTOR");
  deadline->type_name("SECONDS")->excludes(slowdown)->excludes(straggler);
  slowdown->type_name("PERCENT")->excludes(straggler);
}

void add_deadline_options(CLI::App& app, DeadlineArguments& arguments) {
  add_single_deadline_options(app, arguments);
  CLI::Option* plans =
      add_whole_number(app, "--plans", {1, kMaxPlans}, into(arguments.plans),
                       "Number of plans, evenly spaced from T_min to T*, the time of least energy (default 20)");
  for (const char* single : {"--deadline", "--slowdown", "--straggler"}) app.get_option(single)->excludes(plans);
}

std::optional<double> single_deadline_s(const DeadlineArguments& arguments, double fastest_s, double slowest_s) {
  if (arguments.deadline_s) return arguments.deadline_s;
  if (arguments.slowdown_pct) return fastest_s * (1 + *arguments.slowdown_pct / kPercent);
  if (arguments.straggler_factor) return std::min(*arguments.straggler_factor * fastest_s, slowest_s);
  return std::nullopt;
}

std::vector<double> deadlines_s(const DeadlineArguments& arguments, double fastest_s, double slowest_s) {
  if (const auto single = single_deadline_s(arguments, fastest_s, slowest_s)) return {*single};
  const int count = fastest_s < slowest_s ? arguments.plans.value_or(kDefaultPlans) : 1;
  std::vector<double> deadlines;
  for (int i = 0; i < count; ++i) {
    const double share = count > 1 ? static_cast<double>(i) / (count - 1) : 0;
    deadlines.push_back(i + 1 == count && count > 1 ? slowest_s : fastest_s + share * (slowest_s - fastest_s));
  }
  return deadlines;
}

}  // namespace lowgear
