#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/c_api/handle.h"
#include "planning/profile/recording.h"
#include "planning/schedule/torch_csv.h"

namespace lowgear::client::c_api {
namespace {

AttachedStepsOptions step_options(const lowgear_client& client, const lowgear_lengths_options* options) {
  lowgear_lengths_options known = LOWGEAR_LENGTHS_OPTIONS_INIT;
  if (options == nullptr || options->struct_size < offsetof(lowgear_lengths_options, profile)) {
    throw InputError("lowgear_lengths_options.struct_size is not set; start from LOWGEAR_LENGTHS_OPTIONS_INIT");
  }
  std::memcpy(&known, options, std::min(options->struct_size, sizeof known));
  if (known.clocks_per != LOWGEAR_CLOCKS_PER_UNIT && known.clocks_per != LOWGEAR_CLOCKS_PER_REPLICA) {
    throw InputError("lowgear_lengths_options.clocks_per: this library is older than the program");
  }
  AttachedStepsOptions steps;
  steps.schedule = schedule::read_torch_csv(text_or_empty(known.schedule), "schedule");
  steps.replicas = known.replicas;
  steps.replica = known.replica;
  steps.pp_rank = known.pp_rank;
  steps.speaks = client.rank.rank == 0;
  steps.recording = client.recording;
  const std::string profile = text_or_empty(known.profile);
  if (profile.empty()) return steps;
  steps.files = {
      .profile = profile,
      .work = known.work != nullptr ? known.work : steps::work_file_of(profile),
      .clocks_per = known.clocks_per == LOWGEAR_CLOCKS_PER_UNIT ? steps::ClocksPer::unit : steps::ClocksPer::replica};
  return steps;
}

}  // namespace
}  // namespace lowgear::client::c_api

using namespace lowgear::client::c_api;  // NOLINT(google-build-using-namespace): the calls are of no namespace
using lowgear::InputError;

int lowgear_expect_lengths(lowgear_client* client, const lowgear_lengths_options* options) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    if (client->steps) throw InputError("lengths are expected already");
    lowgear::client::AttachedStepsOptions steps = step_options(*client, options);
    if (steps.files && client->has_server) {
      throw InputError("a server plans this job; leave out the server, or the profile");
    }
    if (steps.files && client->has_plan) throw InputError("a plan is loaded; leave out the plan, or the profile");
    client->steps = std::make_unique<lowgear::client::AttachedSteps>(std::move(steps), *client->client);
    return LOWGEAR_OK;
  });
}

int lowgear_tell_lengths(lowgear_client* client, uint64_t iteration, uint32_t replica,
                         const lowgear_amounts* microbatches, size_t count) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    if (!client->steps) throw InputError("no lengths are expected: call lowgear_expect_lengths first");
    if (microbatches == nullptr && count > 0) throw InputError("the pointer to the microbatches is null");
    if (iteration > static_cast<uint64_t>(lowgear::profile::kMaxIteration)) {
      throw InputError("the iteration is beyond any training");
    }
    std::vector<lowgear::steps::Amounts> amounts;
    amounts.reserve(count);
    for (std::size_t i = 0; i < count; ++i) amounts.push_back({microbatches[i].tokens, microbatches[i].squared_tokens});
    client->steps->tell(static_cast<std::int64_t>(iteration), static_cast<int>(replica), amounts);
    return LOWGEAR_OK;
  });
}
