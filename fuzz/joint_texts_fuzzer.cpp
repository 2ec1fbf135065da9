/// Reads any bytes as one of the texts that only a run with a free order has. The first byte says which: f(rontier),
/// l(imit of memory), r(un.json), b(ound of all orders) or p(arts of a partition: layers.csv). What is read is written
/// and read again, but for the bound, which is derived, and the layers, which are summed.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/core/error.h"
#include "checks.h"
#include "planning/api/run_file.h"
#include "planning/joint/orders/joint_problem.h"
#include "planning/planner/verifier/layer_sums.h"
#include "planning/planner/verifier/order_free_proof.h"

namespace {

void read_frontier(std::string_view text) {
  const auto points = lowgear::api::read_joint_frontier(text, "frontier.csv");
  const std::string written = lowgear::api::write_joint_frontier(points);
  require(write_joint_frontier(lowgear::api::read_joint_frontier(written, "frontier.csv")) == written);
}

void read_limit(std::string_view text) {
  const lowgear::joint::MemoryLimit limit = lowgear::joint::parse_memory_limit(text);
  require(lowgear::joint::parse_memory_limit(to_string(limit)) == limit);
  constexpr int kRanks = 4;
  for (const int most : most_activations(limit, kRanks, 8, 2)) require(most >= 2 && most <= 16);
}

void read_run(std::string_view text) {
  const lowgear::api::RunFile run = lowgear::api::read_run(text, "run.json");
  const std::string written = write_run(run);
  require(write_run(lowgear::api::read_run(written, "run.json")) == written);
}

lowgear::profile::StageProfile two_stages() {
  lowgear::profile::StageProfile profile(2);
  for (int stage = 0; stage < 2; ++stage) {
    for (const auto kind : {lowgear::OpKind::forward, lowgear::OpKind::backward}) {
      profile.add(stage, kind, {1000, 0.1, 30});
      profile.add(stage, kind, {800, 0.12, 25});
    }
  }
  return profile;
}

void derive_bound(std::string_view text) {
  const lowgear::profile::StageProfile profile = two_stages();
  const lowgear::planner::verifier::OrderFreeProof proof({&profile, {80, 80}, 4, {2, 1}}, text, "joint_bound.json");
  require(proof.lower_bound_j_at(1) <= 2 * 8 * 30 + 160);
}

void sum_layers(std::string_view text) {
  const lowgear::profile::StageProfile profile = two_stages();
  const lowgear::Json stated = {{"given", {1, 2}}, {"chosen", {2, 1}}};
  lowgear::planner::verifier::Findings findings;
  check_partition(lowgear::JsonView(stated, "run.json"), {"layers.csv", std::string(text)},
                  {&profile, "given_profile.csv"}, {&profile, "profile.csv"}, findings);
  require(findings.list().size() <= 2);  // the first of each profile
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
      case 'f':
        read_frontier(text);
        break;
      case 'l':
        read_limit(text);
        break;
      case 'b':
        derive_bound(text);
        break;
      case 'p':
        sum_layers(text);
        break;
      case 'r':
        read_run(text);
        break;
      default:
        break;
    }
  } catch (const lowgear::InputError&) {
  }
  return 0;
}
