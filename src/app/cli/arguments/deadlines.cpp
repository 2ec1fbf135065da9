#include "app/cli/arguments/deadlines.h"

#include "app/cli/arguments/options.h"
#include "base/core/units.h"

namespace lowgear::cli {
namespace {

constexpr int kMaxPlans = 100'000;  // the numbers of plans have five digits
constexpr double kMaxSlowdownPct = 1e6;
constexpr double kMaxFactor = 1e6;

}  // namespace

void add_single_deadline_options(CLI::App& app, workflow::Deadlines& deadlines) {
  CLI::Option* deadline = add_number(app, "--deadline", {0, kMaxTimeS}, into(deadlines.deadline_s),
                                     "Make one plan, for an iteration time of at most this, in s");
  CLI::Option* slowdown =
      add_number(app, "--slowdown", {0, kMaxSlowdownPct}, into(deadlines.slowdown_pct),
                 "Make one plan, for a deadline this many per cent above the fastest possible iteration time (T_min)");
  CLI::Option* straggler = add_number(
      app, "--straggler", {1, kMaxFactor}, into(deadlines.straggler_factor),
      "Make one plan, for waiting for a straggler that takes FACTOR x T_min: deadline min(FACTOR x T_min, T*)");
  straggler->type_name("FACTOR");
  deadline->type_name("SECONDS")->excludes(slowdown)->excludes(straggler);
  slowdown->type_name("PERCENT")->excludes(straggler);
}

void add_deadline_options(CLI::App& app, workflow::Deadlines& deadlines) {
  add_single_deadline_options(app, deadlines);
  CLI::Option* plans =
      add_whole_number(app, "--plans", {1, kMaxPlans}, into(deadlines.plans),
                       "Number of plans, evenly spaced from T_min to T*, the time of least energy (default 20); not "
                       "together with --deadline, --slowdown or --straggler");
  for (const char* single : {"--deadline", "--slowdown", "--straggler"}) app.get_option(single)->excludes(plans);
}

}  // namespace lowgear::cli
