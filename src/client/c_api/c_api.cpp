#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/http/tls/tls_credentials.h"
#include "client/client.h"
#include "client/job_search.h"
#include "client/lowgear.h"
#include "client/steps/attached_steps.h"
#include "planning/profile/recording.h"
#include "planning/schedule/torch_csv.h"

// The C interface of lowgear.h: turns structures into values and exceptions into codes.

namespace {

using lowgear::Error;
using lowgear::InputError;
using lowgear::OpKind;
using lowgear::client::Client;
using lowgear::client::Options;

/// How often this process has been forked off, counted in the child: a client of another count is the parent's.
std::atomic<int>& fork_generation() {
  static std::atomic<int> generation{0};
  return generation;
}

void watch_forks() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { fork_generation().fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
}

/// Of the calling thread's last failure.
std::string& last_error() {
  thread_local std::string message;
  return message;
}

}  // namespace

struct lowgear_client {
  int fork_generation = 0;
  lowgear::client::RankInfo rank;
  lowgear::client::SearchingRank searching;
  bool has_server = false;
  std::filesystem::path recording;                            ///< empty: nothing is recorded
  std::unique_ptr<lowgear::client::IterationLog> iterations;  ///< null: none was searched; the client writes to it
  std::optional<Client> client;                               ///< within this object: a pointer is time of each mark
  std::mutex search_mutex;                                    ///< of the two below
  bool searches_elsewhere = false;
  std::unique_ptr<lowgear::client::JobSearch> search;
  std::unique_ptr<lowgear::client::AttachedSteps> steps;  ///< null: no lengths are told
};

namespace {

/// Whether calls on this client do something here.
bool usable(const lowgear_client* client) {
  return client != nullptr && client->fork_generation == fork_generation().load(std::memory_order_relaxed);
}

int unusable(const lowgear_client* client) { return client == nullptr ? LOWGEAR_OK : LOWGEAR_FORKED; }

/// Runs a call and turns what it throws into a code.
template <typename Call>
int guarded(Call&& call) noexcept {
  try {
    last_error().clear();
    return call();
  } catch (const lowgear::client::LeaseRefused& error) {
    last_error() = error.what();
    return LOWGEAR_REFUSED;
  } catch (const InputError& error) {
    last_error() = error.what();
    return LOWGEAR_INVALID;
  } catch (const std::exception& error) {
    last_error() = error.what();
    return LOWGEAR_FAILED;
  } catch (...) {
    return LOWGEAR_FAILED;
  }
}

/// The caller's structure as this library knows it: what an older program does not have yet is as `defaults` say.
lowgear_options complete(const lowgear_options* options) {
  lowgear_options result = LOWGEAR_OPTIONS_INIT;
  if (options == nullptr) return result;
  if (options->struct_size < offsetof(lowgear_options, agent_socket)) {
    throw InputError("lowgear_options.struct_size is not set; start from LOWGEAR_OPTIONS_INIT");
  }
  std::memcpy(&result, options, std::min(options->struct_size, sizeof result));
  return result;
}

/// Gives the caller as much of a structure as it has room for.
template <typename Struct>
int give(const Struct& value, Struct* target) {
  if (target == nullptr) throw InputError("the pointer for the result is null");
  if (target->struct_size < sizeof target->struct_size) throw InputError("struct_size of the result is not set");
  const std::size_t size = std::min(target->struct_size, sizeof value);
  std::memcpy(reinterpret_cast<char*>(target) + sizeof target->struct_size,
              reinterpret_cast<const char*>(&value) + sizeof target->struct_size, size - sizeof target->struct_size);
  return LOWGEAR_OK;
}

/// A text of the caller; what the environment or else `fallback` says when it is null.
std::string text_or(const char* text, const lowgear::Environment& environment, const char* variable,
                    const std::string& fallback) {
  if (text != nullptr) return text;
  return environment(variable).value_or(fallback);
}

std::string text_or_empty(const char* text) { return text != nullptr ? text : ""; }

lowgear::client::RankInfo rank_of(const lowgear_options& options, const lowgear::Environment& environment) {
  lowgear::client::RankInfo rank = lowgear::client::rank_from_environment(environment);
  if (options.rank >= 0) {
    rank.rank = options.rank;
    rank.world_size = std::max(rank.world_size, rank.rank + 1);
    rank.world_size_known = rank.world_size_known && rank.launcher != "none";
    rank.conflict.clear();
  }
  if (options.local_rank >= 0) rank.local_rank = options.local_rank;
  if (options.world_size >= 0) {
    rank.world_size = options.world_size;
    rank.world_size_known = true;
  }
  if (rank.rank >= rank.world_size) throw InputError("the rank is not below the world size");
  return rank;
}

lowgear::client::ServerOptions server_options(const lowgear_options& options, const lowgear::Environment& environment) {
  lowgear::client::ServerOptions result;
  result.address = text_or(options.server, environment, "LOWGEAR_SERVER", "");
  if (result.address.empty()) return result;
  result.tls = lowgear::http::tls_files_from_environment(environment);
  result.token_file = text_or(options.token_file, environment, "LOWGEAR_SERVER_TOKEN_FILE", "");
  result.job_json = text_or(options.job_spec, environment, "LOWGEAR_JOB_SPEC", "");
  if (result.job_json.empty()) {
    throw InputError("a server is named and no job: give lowgear_options.job_spec or LOWGEAR_JOB_SPEC");
  }
  return result;
}

lowgear::client::JobPlaceFacts place_facts(const lowgear_options& options, const lowgear::Environment& environment) {
  const auto rank_or = [&](std::int32_t rank, const char* variable) {
    return rank >= 0 ? std::optional<int>(rank) : lowgear::client::number_from_environment(environment, variable);
  };
  lowgear::client::JobPlaceFacts facts;
  facts.pp_rank = rank_or(options.pp_rank, "LOWGEAR_PP_RANK");
  facts.dp_rank = rank_or(options.dp_rank, "LOWGEAR_DP_RANK");
  facts.tp_rank = rank_or(options.tp_rank, "LOWGEAR_TP_RANK");
  const std::string order = text_or(options.rank_order, environment, "LOWGEAR_RANK_ORDER", "");
  if (!order.empty()) facts.order = lowgear::client::RankOrder::parse(order);
  facts.sizes = lowgear::client::read_job_sizes(text_or(options.job_spec, environment, "LOWGEAR_JOB_SPEC", ""));
  return facts;
}

Options client_options(const lowgear_options& options, const lowgear::Environment& environment) {
  Options result;
  result.rank = rank_of(options, environment);
  result.agent_socket = text_or(options.agent_socket, environment, "LOWGEAR_AGENT_SOCKET", "/run/lowgear/lease.sock");
  result.gpu = options.gpu != nullptr ? options.gpu : "";
  result.job = text_or(options.job, environment, "LOWGEAR_JOB", result.rank.job);
  result.recording.folder = text_or(options.recording, environment, "LOWGEAR_RECORDING", "");
  result.server = server_options(options, environment);
  result.place = place_facts(options, environment);
  return result;
}

bool is_kind(std::uint32_t kind) { return kind < lowgear::kOpKindCount; }
static_assert(LOWGEAR_FORWARD == static_cast<int>(OpKind::forward));
static_assert(LOWGEAR_BACKWARD == static_cast<int>(OpKind::backward));
static_assert(LOWGEAR_INPUT_GRADIENT == static_cast<int>(OpKind::input_gradient));
static_assert(LOWGEAR_WEIGHT_GRADIENT == static_cast<int>(OpKind::weight_gradient));
static_assert(LOWGEAR_FORWARD_BACKWARD == static_cast<int>(OpKind::forward_backward));
static_assert(LOWGEAR_RECOMPUTATION == static_cast<int>(OpKind::recomputation));
static_assert(LOWGEAR_RECOMPUTING_BACKWARD == static_cast<int>(OpKind::recomputing_backward));
static_assert(LOWGEAR_NEXT == lowgear::client::kNextMicrobatch);

lowgear::client::ExpectedUnit expected_unit(const lowgear_unit& unit, std::size_t index) {
  if (!is_kind(unit.kind) || unit.stage > UINT16_MAX || unit.microbatch == LOWGEAR_NEXT) {
    throw InputError("unit " + std::to_string(index) +
                     ": there is no unit of this kind, stage and microbatch; each has a number of its own");
  }
  return {.microbatch = unit.microbatch,
          .stage = static_cast<std::uint16_t>(unit.stage),
          .kind = static_cast<OpKind>(unit.kind)};
}

template <std::size_t kSize>
void copy_text(char (&target)[kSize], const std::string& text) {  // NOLINT(*-avoid-c-arrays): of a structure of C
  const std::size_t size = std::min(text.size(), kSize - 1);
  std::memcpy(target, text.data(), size);
  target[size] = '\0';
}

lowgear_measurement measurement_of(const lowgear::measure::WindowMeasurement& window) {
  lowgear_measurement result = LOWGEAR_MEASUREMENT_INIT;
  result.time_s = window.time_s;
  result.simulated = window.simulated ? 1 : 0;
  if (window.gpus.empty()) return result;
  const lowgear::measure::GpuMeasurement& gpu = window.gpus.front();
  if (gpu.covers_all()) {
    result.energy_j = *gpu.energy_j;
    result.energy_uncertainty_j = gpu.energy_uncertainty_j.value_or(-1);
    result.by_power = gpu.source == lowgear::measure::EnergySource::integrated_power ? 1 : 0;
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
  const lowgear::client::Status now = client.client->status();
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

lowgear::client::SearchRequest search_request(const lowgear_search_options* options) {
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
  lowgear::client::SearchRequest request;
  request.allowed_slowdown_pct = known.slowdown_pct;
  request.points.kind = static_cast<lowgear::client::PointKind>(known.points);
  if (known.values != nullptr) request.points.values.assign(known.values, known.values + known.count);
  if (known.block_s != 0) request.block_s = known.block_s;
  if (known.max_iterations != 0) request.max_iterations = known.max_iterations;
  if (known.record != nullptr) request.record = known.record;
  return request;
}

/// Plans are not followed from now on: the GPUs are set by the search of the first rank alone.
void begin_search(lowgear_client& client, const lowgear::client::SearchRequest& request,
                  lowgear::client::PointSearch::Say say) {
  if (client.has_server) throw InputError("a server plans this job; leave out the server, or the search");
  const std::lock_guard lock(client.search_mutex);
  client.search.reset();
  if (client.rank.rank == 0) {
    if (!client.iterations) client.iterations = std::make_unique<lowgear::client::IterationLog>();
    client.search = std::make_unique<lowgear::client::JobSearch>(
        request, client.searching, lowgear::process_environment(), *client.iterations, std::move(say));
    client.client->watch_iterations(*client.iterations);
  }
  client.searches_elsewhere = client.rank.rank != 0;
  client.client->refuse("the operating point of the job is searched");
}

/// A search that `lowgear run --search` asks for is no call of the program: what becomes of it is said here.
void begin_search_asked_for(lowgear_client& client, const lowgear::Environment& environment) {
  const auto say = [](std::string_view text) {
    std::fprintf(stderr, "lowgear: %.*s\n", static_cast<int>(text.size()), text.data());
  };
  try {
    const auto request = lowgear::client::search_from_environment(environment);
    if (request) begin_search(client, *request, say);
  } catch (const Error& error) {
    if (client.rank.rank == 0) say(std::string("no operating point is searched: ") + error.what());
  }
}

lowgear_search search_of(lowgear_client& client) {
  lowgear_search result{};
  const std::lock_guard lock(client.search_mutex);
  if (client.searches_elsewhere) result.state = LOWGEAR_SEARCH_ELSEWHERE;
  if (!client.search) return result;
  const lowgear::client::PointSearchStatus now = client.search->status();
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
static_assert(static_cast<int>(lowgear::client::PointSearchState::cut_off) + LOWGEAR_SEARCH_WAITING ==
              LOWGEAR_SEARCH_CUT_OFF);
static_assert(static_cast<int>(lowgear::client::PointKind::power_limit) == LOWGEAR_POINTS_POWER_LIMIT);

lowgear::client::AttachedStepsOptions step_options(const lowgear_client& client,
                                                   const lowgear_lengths_options* options) {
  lowgear_lengths_options known = LOWGEAR_LENGTHS_OPTIONS_INIT;
  if (options == nullptr || options->struct_size < offsetof(lowgear_lengths_options, profile)) {
    throw InputError("lowgear_lengths_options.struct_size is not set; start from LOWGEAR_LENGTHS_OPTIONS_INIT");
  }
  std::memcpy(&known, options, std::min(options->struct_size, sizeof known));
  if (known.clocks_per != LOWGEAR_CLOCKS_PER_UNIT && known.clocks_per != LOWGEAR_CLOCKS_PER_REPLICA) {
    throw InputError("lowgear_lengths_options.clocks_per: this library is older than the program");
  }
  lowgear::client::AttachedStepsOptions steps;
  steps.schedule = lowgear::schedule::read_torch_csv(text_or_empty(known.schedule), "schedule");
  steps.replicas = known.replicas;
  steps.replica = known.replica;
  steps.pp_rank = known.pp_rank;
  steps.speaks = client.rank.rank == 0;
  steps.recording = client.recording;
  const std::string profile = text_or_empty(known.profile);
  if (profile.empty()) return steps;
  steps.files = {.profile = profile,
                 .work = known.work != nullptr ? known.work : lowgear::steps::work_file_of(profile),
                 .clocks_per = known.clocks_per == LOWGEAR_CLOCKS_PER_UNIT ? lowgear::steps::ClocksPer::unit
                                                                           : lowgear::steps::ClocksPer::replica};
  return steps;
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

int lowgear_open(const lowgear_options* options, lowgear_client** client) {
  return guarded([&]() -> int {
    if (client == nullptr) throw InputError("the pointer for the client is null");
    *client = nullptr;
    watch_forks();
    const lowgear::Environment environment = lowgear::process_environment();
    auto opened = std::make_unique<lowgear_client>();
    Options resolved = client_options(complete(options), environment);
    opened->fork_generation = fork_generation().load(std::memory_order_relaxed);
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
    const std::unique_ptr<lowgear_client> closed(client);
    if (client->steps) client->client->set_step_note(client->steps->finish());
    return LOWGEAR_OK;
  });
}

int lowgear_load_plan(lowgear_client* client, const char* path, int32_t plan_rank, uint32_t flags) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    if (path == nullptr) throw InputError("the path of the plan is null");
    if ((flags & ~LOWGEAR_PLAN_NEAREST_BELOW) != 0)
      throw InputError("unknown flags: this library is older than the program");
    try {
      client->client->load_plan(path, plan_rank >= 0 ? std::optional<int>(plan_rank) : std::nullopt,
                                (flags & LOWGEAR_PLAN_NEAREST_BELOW) != 0);
      return LOWGEAR_OK;
    } catch (const InputError&) {
      throw;
    } catch (const lowgear::client::LeaseRefused&) {
      throw;
    } catch (const Error& error) {
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

int lowgear_expect_lengths(lowgear_client* client, const lowgear_lengths_options* options) {
  if (!usable(client)) return unusable(client);
  return guarded([&]() -> int {
    if (client->steps) throw InputError("lengths are expected already");
    if (client->has_server && options != nullptr && options->profile != nullptr) {
      throw InputError("a server plans this job; leave out the server, or the profile");
    }
    client->steps = std::make_unique<lowgear::client::AttachedSteps>(step_options(*client, options), *client->client);
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

int lowgear_get_status(lowgear_client* client, lowgear_status* status) {
  if (!usable(client)) return unusable(client);
  return guarded([&] { return give(status_of(*client), status); });
}

const char* lowgear_last_error(void) { return last_error().c_str(); }

uint32_t lowgear_abi_version(void) { return LOWGEAR_ABI_MAJOR << 16U | LOWGEAR_ABI_MINOR; }
