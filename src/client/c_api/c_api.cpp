#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/c_api/handle.h"
#include "client/c_api/open_options.h"
#include "client/c_api/search_calls.h"
#include "planning/profile/recording.h"

namespace lowgear::client::c_api {
namespace {

bool is_kind(std::uint32_t kind) { return kind < kOpKindCount; }
static_assert(LOWGEAR_FORWARD == static_cast<int>(OpKind::forward));
static_assert(LOWGEAR_BACKWARD == static_cast<int>(OpKind::backward));
static_assert(LOWGEAR_INPUT_GRADIENT == static_cast<int>(OpKind::input_gradient));
static_assert(LOWGEAR_WEIGHT_GRADIENT == static_cast<int>(OpKind::weight_gradient));
static_assert(LOWGEAR_FORWARD_BACKWARD == static_cast<int>(OpKind::forward_backward));
static_assert(LOWGEAR_RECOMPUTATION == static_cast<int>(OpKind::recomputation));
static_assert(LOWGEAR_RECOMPUTING_BACKWARD == static_cast<int>(OpKind::recomputing_backward));
static_assert(LOWGEAR_NEXT == kNextMicrobatch);

ExpectedUnit expected_unit(const lowgear_unit& unit, std::size_t index) {
  if (!is_kind(unit.kind) || unit.stage > UINT16_MAX || unit.microbatch == LOWGEAR_NEXT) {
    throw InputError("unit " + std::to_string(index) +
                     ": there is no unit of this kind, stage and microbatch; each has a number of its own");
  }
  return {.microbatch = unit.microbatch,
          .stage = static_cast<std::uint16_t>(unit.stage),
          .kind = static_cast<OpKind>(unit.kind)};
}

lowgear_measurement measurement_of(const measure::WindowMeasurement& window) {
  lowgear_measurement result = LOWGEAR_MEASUREMENT_INIT;
  result.time_s = window.time_s;
  result.simulated = window.simulated ? 1 : 0;
  if (window.gpus.empty()) return result;
  const measure::GpuMeasurement& gpu = window.gpus.front();
  if (gpu.covers_all()) {
    result.energy_j = *gpu.energy_j;
    result.energy_uncertainty_j = gpu.energy_uncertainty_j.value_or(-1);
    result.by_power = gpu.source == measure::EnergySource::integrated_power ? 1 : 0;
  }
  result.mean_power_w = gpu.mean_power_w.value_or(-1);
  result.peak_power_w = gpu.peak_power_w.value_or(-1);
  result.mean_sm_clock_mhz = gpu.mean_sm_clock_mhz.value_or(-1);
  result.power_capped_s = gpu.power_capped_s.value_or(-1);
  result.max_temperature_c = gpu.max_temperature_c.value_or(-1);
  copy_text(result.problem, gpu.problem);
  return result;
}

lowgear_status status_of(lowgear_client& client) {
  const Status now = client.client->status();
  lowgear_status result{};
  result.rank = client.rank.rank;
  result.world_size = client.rank.world_size;
  result.has_lease = now.has_lease ? 1 : 0;
  result.has_plan = now.has_plan ? 1 : 0;
  result.suspended = now.suspended ? 1 : 0;
  result.dry_run = now.dry_run ? 1 : 0;
  result.simulated = now.simulated ? 1 : 0;
  result.requested_clock_mhz = now.requested_clock_mhz;
  result.units = now.units;
  result.mismatched = now.mismatched;
  result.lost = now.lost;
  result.reconnects = now.reconnects;
  copy_text(result.gpu_uuid, now.gpu_uuid);
  copy_text(result.problem, now.problem);
  result.server_connected = now.server_connected ? 1 : 0;
  result.plan_version = now.plan_version;
  result.reports_lost = now.reports_lost;
  copy_text(result.server_problem, now.server_problem);
  result.pp_rank = now.pp_rank.value_or(-1);
  result.stage = now.stage.value_or(-1);
  copy_text(result.place, now.place);
  result.following = now.not_following.empty() ? 1 : 0;
  result.stream_marks = now.follow_stream ? 1 : 0;
  result.differing_iterations = now.differing_iterations;
  copy_text(result.not_following, now.not_following);
  copy_text(result.difference, now.difference);
  copy_text(result.stream_problem, now.stream_problem);
  result.decisions_waiting = now.decisions_waiting;
  result.decisions_lost = now.decisions_lost;
  return result;
}

void close_client(lowgear_client& client) {
  const std::unique_ptr<lowgear_client> closed(&client);
  if (client.steps) client.client->set_step_note(client.steps->finish());
}

/// Leaves the last error alone: that of the exiting thread is destroyed by now.
void close_with_status(int status, void* pointer) noexcept {
  auto* const client = static_cast<lowgear_client*>(pointer);
  if (!usable(client)) return;
  if (status != 0) client->client->set_exit_status(status);
  try {
    close_client(*client);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the process is exiting, and no caller is left
  }
}

/// The training thread begins an iteration.
void begin_iteration(lowgear_client& client, const std::uint64_t* number) {
  if (number != nullptr) {
    client.client->iteration_begin({.number = *number});
  } else {
    client.client->iteration_begin();
  }
  if (client.steps) client.steps->iteration_begins(client.client->iteration());
}

}  // namespace
}  // namespace lowgear::client::c_api

using namespace lowgear::client::c_api;  // NOLINT(google-build-using-namespace): the calls are of no namespace
using lowgear::Error;
using lowgear::InputError;
using lowgear::OpKind;

int lowgear_open(const lowgear_options* options, lowgear_client** client) {
  return guarded([&]() -> int {
    if (client == nullptr) throw InputError("the pointer for the client is null");
    *client = nullptr;
    watch_forks();
    const lowgear::Environment environment = lowgear::process_environment();
    auto opened = std::make_unique<lowgear_client>();
    lowgear::client::Options resolved = client_options(options, environment);
    opened->fork_generation = fork_generation();
    opened->rank = resolved.rank;
    opened->has_server = !resolved.server.address.empty();
    opened->recording = resolved.recording.folder;
    opened->searching = {.rank = resolved.rank,
                         .gpu = resolved.gpu,
                         .agent_http_socket = lowgear::client::agent_http_socket(resolved.agent_socket, environment)};
    opened->client.emplace(std::move(resolved), environment);
    begin_search_asked_for(*opened, environment);
    *client = opened.release();
    return LOWGEAR_OK;
  });
}

int lowgear_close(lowgear_client* client) {
  // A child's copy is left alone: it would end what belongs to the parent.
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    close_client(*client);
    return LOWGEAR_OK;
  });
}

int lowgear_set_failure(lowgear_client* client, const char* failure) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    client->client->set_failure(lowgear::printable(text_or_empty(failure)));
    return LOWGEAR_OK;
  });
}

int lowgear_close_at_exit(lowgear_client* client) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    if (::on_exit(close_with_status, client) != 0) throw Error("no function can be called at the exit of this process");
    return LOWGEAR_OK;
  });
}

int lowgear_load_plan(lowgear_client* client, const char* path, int32_t plan_rank, uint32_t flags) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    if (path == nullptr) throw InputError("the path of the plan is null");
    if ((flags & ~LOWGEAR_PLAN_NEAREST_BELOW) != 0)
      throw InputError("unknown flags: this library is older than the program");
    if (client->steps && client->steps->plans()) {
      throw InputError("iterations have clocks for their lengths: leave out the plan, or the profile of lengths");
    }
    try {
      client->client->load_plan(path, plan_rank >= 0 ? std::optional<int>(plan_rank) : std::nullopt,
                                (flags & LOWGEAR_PLAN_NEAREST_BELOW) != 0);
      client->has_plan = true;
      return LOWGEAR_OK;
    } catch (const InputError&) {
      throw;
    } catch (const lowgear::client::LeaseRefused&) {
      throw;
    } catch (const Error& error) {
      client->has_plan = true;
      last_error() = error.what();
      return LOWGEAR_NO_AGENT;
    }
  });
}

int lowgear_iteration_begin(lowgear_client* client) {
  if (!usable(client)) return unusable(client);
  begin_iteration(*client, nullptr);
  return LOWGEAR_OK;
}

int lowgear_iteration_begin_at(lowgear_client* client, uint64_t number) {
  if (!usable(client)) return unusable(client);
  if (number > static_cast<uint64_t>(lowgear::profile::kMaxIteration)) return LOWGEAR_INVALID;
  begin_iteration(*client, &number);
  return LOWGEAR_OK;
}

int lowgear_iteration_end(lowgear_client* client) {
  if (!usable(client)) return unusable(client);
  client->client->iteration_end();
  return LOWGEAR_OK;
}

int lowgear_unit_begin(lowgear_client* client, uint32_t kind, uint32_t stage, uint32_t microbatch) {
  if (!usable(client)) return unusable(client);
  if (!is_kind(kind) || stage > UINT16_MAX) return LOWGEAR_INVALID;
  client->client->unit_begin(static_cast<OpKind>(kind), static_cast<std::uint16_t>(stage), microbatch);
  return LOWGEAR_OK;
}

int lowgear_unit_end(lowgear_client* client, uint32_t kind, uint32_t stage, uint32_t microbatch) {
  if (!usable(client)) return unusable(client);
  if (!is_kind(kind) || stage > UINT16_MAX) return LOWGEAR_INVALID;
  client->client->unit_end(static_cast<OpKind>(kind), static_cast<std::uint16_t>(stage), microbatch);
  return LOWGEAR_OK;
}

int lowgear_expect(lowgear_client* client, const lowgear_unit* units, size_t count, uint32_t flags) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    if (units == nullptr && count > 0) throw InputError("the pointer to the units is null");
    if ((flags & ~LOWGEAR_EXPECT_COUNT_ONLY) != 0) throw InputError("unknown flags; this library is older than you");
    std::vector<lowgear::client::ExpectedUnit> expected;
    expected.reserve(count);
    for (std::size_t i = 0; i < count; ++i) expected.push_back(expected_unit(units[i], i));
    client->client->expect(std::move(expected), (flags & LOWGEAR_EXPECT_COUNT_ONLY) == 0);
    return LOWGEAR_OK;
  });
}

int lowgear_refuse(lowgear_client* client, const char* reason) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    client->client->refuse(reason != nullptr ? reason : "");
    return LOWGEAR_OK;
  });
}

int lowgear_stop_following(lowgear_client* client) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    client->client->stop_following();
    return LOWGEAR_OK;
  });
}

int lowgear_follow_again(lowgear_client* client) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    client->client->follow_again();
    return LOWGEAR_OK;
  });
}

int lowgear_report_decision(lowgear_client* client, const lowgear_decision* decision) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    if (decision == nullptr) throw InputError("the pointer to the decision is null");
    if (decision->struct_size < sizeof *decision) throw InputError("lowgear_decision.struct_size is not set");
    if (decision->from_iteration > static_cast<uint64_t>(lowgear::profile::kMaxIteration)) {
      throw InputError("from_iteration is beyond any training");
    }
    client->client->report({.number = 0,
                            .age_s = 0,
                            .from_iteration = static_cast<std::int64_t>(decision->from_iteration),
                            .technique = text_or_empty(decision->technique),
                            .change = text_or_empty(decision->change),
                            .configuration = text_or_empty(decision->configuration),
                            .reason = text_or_empty(decision->reason)});
    return LOWGEAR_OK;
  });
}

int lowgear_report_work(lowgear_client* client, uint32_t layers, uint32_t frozen_layers, const char* precision) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    constexpr auto kMost = static_cast<std::uint32_t>(lowgear::protocol::kMaxLayers) + 1;
    client->client->set_work({.layers = static_cast<int>(std::min(layers, kMost)),
                              .frozen_layers = static_cast<int>(std::min(frozen_layers, kMost)),
                              .precision = text_or_empty(precision)});
    return LOWGEAR_OK;
  });
}

int lowgear_stagger(lowgear_client* client) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    client->client->stagger();
    return LOWGEAR_OK;
  });
}

int lowgear_use_stream(lowgear_client* client, void* cu_stream) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    client->client->use_stream(cu_stream);
    return LOWGEAR_OK;
  });
}

int lowgear_window_begin(lowgear_client* client, const char* name, uint64_t* window) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    if (window == nullptr) throw InputError("the pointer for the window is null");
    *window = client->client->window_begin(name != nullptr ? name : "");
    return LOWGEAR_OK;
  });
}

int lowgear_window_end(lowgear_client* client, uint64_t window, lowgear_measurement* measurement) {
  if (!usable(client)) return unusable(client);
  return guarded([&] { return give(measurement_of(client->client->window_end(window)), measurement); });
}

int lowgear_get_status(lowgear_client* client, lowgear_status* status) {
  if (!usable(client)) return unusable(client);
  return guarded([&] { return give(status_of(*client), status); });
}

const char* lowgear_last_error(void) { return last_error().c_str(); }

uint32_t lowgear_abi_version(void) { return LOWGEAR_ABI_MAJOR << 16U | LOWGEAR_ABI_MINOR; }
