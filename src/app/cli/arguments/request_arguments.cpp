#include "app/cli/arguments/request_arguments.h"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "app/cli/arguments/options.h"
#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "planning/simulator/cluster.h"

namespace lowgear::cli {
namespace {

constexpr double kMaxWatts = 1e9;

workflow::RankSlowdown slow_rank(const std::string& text) {
  const auto slow = numbered_factor(text, std::numeric_limits<double>::min());
  if (!slow) {
    throw CLI::ValidationError(
        "--slow-rank", fmt::format("expected RANK=FACTOR, such as 2=1.3, with a factor above 0 and at most {}, not {}",
                                   simulator::kMaxSlowdownFactor, quote(text)));
  }
  return {.replica = 0, .rank = slow->number, .factor = slow->factor};
}

workflow::PowerCap power_cap(const std::string& text) {
  const auto [watts, scope] = split_at(text, ':');
  const auto number = parse_number(watts);
  const auto named = scope.empty() ? std::optional(workflow::CapScope::gpu) : workflow::cap_scope(scope);
  if (!number || !(*number > 0) || !(*number <= kMaxWatts) || !named || named == workflow::CapScope::node) {
    throw CLI::ValidationError("--power-cap",
                               fmt::format("expected W, W:gpu or W:job, such as 300 or 2400:job, not {}", quote(text)));
  }
  return {.scope = *named, .watts = *number};
}

}  // namespace

void add_request_options(CLI::App& app, workflow::PlanRequest& request) {
  app.add_option_function<std::vector<std::string>>(
         "--slow-rank",
         [&request](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) request.slow.push_back(slow_rank(text));
         },
         "A rank that is slower than profiled, by how many times; may be given for several ranks")
      ->type_name("RANK=FACTOR");
  app.add_option_function<std::string>(
         "--power-cap", [&request](const std::string& text) { request.power_cap = power_cap(text); },
         "Most power of each GPU (300), or of the pipeline's GPUs together, one a rank (2400:job), in W: make one "
         "plan, "
         "the fastest within the cap that is no faster than its deadline")
      ->type_name("W[:SCOPE]");
}

}  // namespace lowgear::cli
