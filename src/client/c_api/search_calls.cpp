#include "client/c_api/search_calls.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

namespace lowgear::client::c_api {
namespace {

SearchRequest search_request(const lowgear_search_options* options) {
  lowgear_search_options known = LOWGEAR_SEARCH_OPTIONS_INIT;
  if (options != nullptr) {
    if (options->struct_size < offsetof(lowgear_search_options, points)) {
      throw InputError("lowgear_search_options.struct_size is not set; start from LOWGEAR_SEARCH_OPTIONS_INIT");
    }
    std::memcpy(&known, options, std::min(options->struct_size, sizeof known));
  }
  if (known.points != LOWGEAR_POINTS_CLOCK && known.points != LOWGEAR_POINTS_POWER_LIMIT) {
    throw InputError("there are no operating points of this kind: this library is older than the program");
  }
  if (known.values == nullptr && known.count > 0) throw InputError("the pointer to the points is null");
  SearchRequest request;
  request.allowed_slowdown_pct = known.slowdown_pct;
  request.points.kind = static_cast<PointKind>(known.points);
  if (known.values != nullptr) request.points.values.assign(known.values, known.values + known.count);
  if (known.block_s != 0) request.block_s = known.block_s;
  if (known.max_iterations != 0) request.max_iterations = known.max_iterations;
  if (known.record != nullptr) request.record = known.record;
  return request;
}

/// Plans are not followed from now on: the GPUs are set by the search of the first rank alone.
void begin_search(lowgear_client& client, const SearchRequest& request, PointSearch::Say say) {
  if (client.has_server) throw InputError("a server plans this job; leave out the server, or the search");
  const std::lock_guard lock(client.search_mutex);
  client.search.reset();
  if (client.rank.rank == 0) {
    if (!client.iterations) client.iterations = std::make_unique<IterationLog>();
    client.search = std::make_unique<JobSearch>(request, client.searching, process_environment(), *client.iterations,
                                                std::move(say));
    client.client->watch_iterations(*client.iterations);
  }
  client.searches_elsewhere = client.rank.rank != 0;
  client.client->refuse("the operating point of the job is searched");
}

lowgear_search search_of(lowgear_client& client) {
  lowgear_search result{};
  const std::lock_guard lock(client.search_mutex);
  if (client.searches_elsewhere) result.state = LOWGEAR_SEARCH_ELSEWHERE;
  if (!client.search) return result;
  const PointSearchStatus now = client.search->status();
  result.state = static_cast<std::int32_t>(now.state) + LOWGEAR_SEARCH_WAITING;
  result.points = static_cast<std::int32_t>(now.kind);
  result.value = now.value;
  result.energy_pct = now.estimate.energy_pct;
  result.energy_error_pct = now.estimate.energy_error_pct;
  result.slowdown_pct = now.estimate.slowdown_pct;
  result.slowdown_error_pct = now.estimate.slowdown_error_pct;
  result.iterations = now.iterations;
  result.cost_time_s = now.cost.time_s;
  result.cost_energy_j = now.cost.energy_j;
  copy_text(result.reason, now.reason);
  return result;
}
static_assert(static_cast<int>(PointSearchState::cut_off) + LOWGEAR_SEARCH_WAITING == LOWGEAR_SEARCH_CUT_OFF);
static_assert(static_cast<int>(PointKind::power_limit) == LOWGEAR_POINTS_POWER_LIMIT);

}  // namespace

void begin_search_asked_for(lowgear_client& client, const Environment& environment) {
  const auto say = [](std::string_view text) {
    std::fprintf(stderr, "lowgear: %.*s\n", static_cast<int>(text.size()), text.data());
  };
  try {
    const auto request = search_from_environment(environment);
    if (request) begin_search(client, *request, say);
  } catch (const Error& error) {
    if (client.rank.rank == 0) say(std::string("no operating point is searched: ") + error.what());
  }
}

}  // namespace lowgear::client::c_api

using namespace lowgear::client::c_api;  // NOLINT(google-build-using-namespace): the calls are of no namespace

int lowgear_search_begin(lowgear_client* client, const lowgear_search_options* options) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    begin_search(*client, search_request(options), [](std::string_view) {});
    return LOWGEAR_OK;
  });
}

int lowgear_get_search(lowgear_client* client, lowgear_search* search) {
  if (!usable(client)) return unusable(client);
  return guarded([&] { return give(search_of(*client), search); });
}
