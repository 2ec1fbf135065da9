#include "planning/planner/policies/policy.h"

#include <fmt/format.h>

#include <array>

#include "base/core/error.h"
#include "planning/planner/policies/envpipe.h"
#include "planning/planner/policies/envpipe_offline.h"
#include "planning/planner/policies/lowgear.h"
#include "planning/planner/policies/max_clock.h"
#include "planning/planner/policies/perseus.h"
#include "planning/planner/policies/zeus.h"

namespace lowgear {
namespace {

template <typename P>
std::unique_ptr<Policy> make() {
  return std::make_unique<P>();
}

struct Entry {
  std::string_view name;
  std::unique_ptr<Policy> (*make)();
};

constexpr auto kPolicies = std::to_array<Entry>({
    {"max", make<MaxClockPolicy>},
    {"zeus-global", make<ZeusGlobalPolicy>},
    {"zeus-per-stage", make<ZeusPerStagePolicy>},
    {"envpipe", make<EnvPipePolicy>},
    {"envpipe-offline", make<EnvPipeOfflinePolicy>},
    {"perseus", make<PerseusPolicy>},
    {"lowgear", make<LowgearPolicy>},
});

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  names.reserve(kPolicies.size());
  for (const Entry& entry : kPolicies) names.emplace_back(entry.name);
  return names;
}

std::unique_ptr<Policy> make_policy(std::string_view name) {
  for (const Entry& entry : kPolicies) {
    if (entry.name == name) return entry.make();
  }
  std::string names;
  for (const Entry& entry : kPolicies) names.append(names.empty() ? "" : ", ").append(entry.name);
  throw InputError(fmt::format("no policy is called {}; there are {}", quote(name), names));
}

}  // namespace lowgear
