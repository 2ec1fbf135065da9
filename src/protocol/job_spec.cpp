#include "protocol/job_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "planning/plan/plan.h"
#include "planning/schedule/schedule.h"
#include "protocol/json_members.h"

namespace lowgear::protocol {
namespace {

constexpr int kMaxMicrobatchSize = 1 << 20;
constexpr std::size_t kMaxScheduleBytes = 4 << 20;
constexpr double kMaxSlowdownPct = 1'000;
constexpr double kMaxSwitchLatencyMs = 10'000;

JobParallel read_parallel(const JsonView& value) {
  require_members(value, {"pp", "dp", "tp", "chunks"});
  const auto size = [&](std::string_view name) {
    return value.has(name) ? value.at(name).integer_in(1, kMaxJobRanks) : 1;
  };
  const JobParallel parallel{.pp = size("pp"), .dp = size("dp"), .tp = size("tp"), .chunks = size("chunks")};
  const auto ranks = static_cast<long long>(parallel.pp) * parallel.dp;
  if (ranks > kMaxJobRanks || ranks * parallel.tp > kMaxJobRanks) {
    value.fail(fmt::format("more than {} ranks", kMaxJobRanks));
  }
  if (static_cast<long long>(parallel.pp) * parallel.chunks > kMaxJobRanks) {
    value.fail(fmt::format("more than {} virtual stages", kMaxJobRanks));
  }
  return parallel;
}

std::optional<int> optional_clock(const JsonView& object, std::string_view name) {
  if (!has_value(object, name)) return std::nullopt;
  return object.at(name).integer_in(1, kMaxRankClockMhz);
}

JobProfiling read_profiling(const JsonView& value) {
  require_members(value, {"clocks", "iterations", "settle_iterations", "min_mhz", "max_mhz", "allowance_pct",
                          "allowance_iterations"});
  JobProfiling profiling;
  if (value.has("clocks")) profiling.clocks = value.at("clocks").integer_in(4, 1000);
  if (value.has("iterations")) profiling.iterations = value.at("iterations").integer_in(1, 10'000);
  if (value.has("settle_iterations")) {
    profiling.settle_iterations = value.at("settle_iterations").integer_in(0, 1'000);
  }
  profiling.min_mhz = optional_clock(value, "min_mhz");
  profiling.max_mhz = optional_clock(value, "max_mhz");
  if (value.has("allowance_pct")) profiling.allowance_pct = number_in(value.at("allowance_pct"), 0, 1'000);
  if (value.has("allowance_iterations")) {
    profiling.allowance_iterations = value.at("allowance_iterations").integer_in(1, 1'000'000);
  }
  if (profiling.min_mhz.value_or(0) > profiling.max_mhz.value_or(kMaxRankClockMhz)) {
    value.fail("min_mhz is above max_mhz");
  }
  return profiling;
}

std::string one_of(const JsonView& value, std::initializer_list<std::string_view> words) {
  std::string text = value.text();
  if (std::ranges::find(words, text) != words.end()) return text;
  value.fail(fmt::format("is {}", quote(text)), fmt::format("use one of {}", fmt::join(words, ", ")));
}

JobPolicy read_policy(const JsonView& value) {
  const std::string text = value.text();
  if (const auto policy = find_job_policy(text)) return *policy;
  value.fail(fmt::format("is {}", quote(text)), fmt::format("use one of {}", fmt::join(kJobPolicies, ", ")));
}

/// With the policy that the job states.
std::optional<JobEnvPipe> read_envpipe(const JsonView& body, std::optional<JobPolicy> policy) {
  const bool envpipe = policy == JobPolicy::envpipe;
  if (!has_value(body, "envpipe")) return envpipe ? std::optional(JobEnvPipe{}) : std::nullopt;
  const JsonView value = body.at("envpipe");
  if (!envpipe) value.fail("is of another policy", "add \"policy\": \"envpipe\"");
  require_members(value,
                  {"type", "reconfig", "threshold_scale", "transfer_ms", "start_mhz", "lowest_mhz", "raise_step_mhz"});
  JobEnvPipe settings;
  if (value.has("type")) settings.type = one_of(value.at("type"), {"baseline", "uniform", "envelope"});
  if (value.has("reconfig")) settings.reconfig = one_of(value.at("reconfig"), {"default", "greedy", "balanced"});
  if (value.has("threshold_scale")) settings.threshold_scale = number_in(value.at("threshold_scale"), 0, 1e9);
  if (value.has("transfer_ms")) settings.transfer_ms = number_in(value.at("transfer_ms"), 0, 1e6);
  settings.start_mhz = optional_clock(value, "start_mhz");
  settings.lowest_mhz = optional_clock(value, "lowest_mhz");
  if (value.has("raise_step_mhz")) {
    settings.raise_step_mhz = value.at("raise_step_mhz").integer_in(1, kMaxRankClockMhz);
  }
  if (settings.lowest_mhz.value_or(0) > settings.start_mhz.value_or(kMaxRankClockMhz)) {
    value.fail("lowest_mhz is above start_mhz");
  }
  return settings;
}

Json envpipe_json(const JobEnvPipe& settings) {
  return {{"type", settings.type},
          {"reconfig", settings.reconfig},
          {"threshold_scale", settings.threshold_scale},
          {"transfer_ms", settings.transfer_ms},
          {"start_mhz", or_null(settings.start_mhz)},
          {"lowest_mhz", or_null(settings.lowest_mhz)},
          {"raise_step_mhz", settings.raise_step_mhz}};
}

void read_early_forwards(const JsonView& value, JobSpec& spec) {
  if (spec.schedule_is_csv || spec.schedule != "envpipe") value.fail("is of the schedule envpipe alone");
  if (value.size() != static_cast<std::size_t>(spec.parallel.pp)) {
    value.fail(fmt::format("has {} numbers for {} pipeline ranks", value.size(), spec.parallel.pp));
  }
  for (std::size_t rank = 0; rank < value.size(); ++rank) {
    const int most = rank == 0 ? spec.microbatches : spec.early_forwards.back();  // a rise can hang
    spec.early_forwards.push_back(value.at(rank).integer_in(0, most));
  }
}

void read_schedule(const JsonView& value, JobSpec& spec) {
  spec.schedule_is_csv = value.json().is_object();
  if (!spec.schedule_is_csv) {
    spec.schedule = name_text(value);
    return;
  }
  require_members(value, {"csv"});
  spec.schedule = value.at("csv").text();
  if (spec.schedule.size() > kMaxScheduleBytes) value.fail(fmt::format("more than {} bytes", kMaxScheduleBytes));
}

/// Of a job that plans its own steps. Its ranks may state the defaults.
void require_no_plans(const JsonView& body, const JobSpec& spec) {
  if (has_value(body, "profile")) {
    body.at("profile").fail("the server tries no clocks out in a job that plans its own steps", "leave out profile");
  }
  const auto refuse = [&](const char* member) {
    body.at(member).fail("the server does not plan a job that plans its own steps",
                         fmt::format("leave out {}", member));
  };
  if (spec.slowdown_pct != JobSpec().slowdown_pct) refuse("slowdown_pct");
  if (spec.guard_pct != JobSpec().guard_pct) refuse("guard_pct");
}

Json schedule_json(const JobSpec& spec) {
  if (!spec.schedule_is_csv) return spec.schedule;
  return {{"csv", spec.schedule}};
}

Json parallel_json(const JobParallel& parallel) {
  return {{"pp", parallel.pp}, {"dp", parallel.dp}, {"tp", parallel.tp}, {"chunks", parallel.chunks}};
}

Json profiling_json(const std::optional<JobProfiling>& profiling) {
  if (!profiling) return nullptr;
  return {{"clocks", profiling->clocks},
          {"iterations", profiling->iterations},
          {"settle_iterations", profiling->settle_iterations},
          {"min_mhz", or_null(profiling->min_mhz)},
          {"max_mhz", or_null(profiling->max_mhz)},
          {"allowance_pct", profiling->allowance_pct},
          {"allowance_iterations", profiling->allowance_iterations}};
}

}  // namespace

std::optional<JobPolicy> find_job_policy(std::string_view name) {
  const auto* const found = std::ranges::find(kJobPolicies, name);
  if (found == kJobPolicies.end()) return std::nullopt;
  return static_cast<JobPolicy>(found - kJobPolicies.begin());
}

std::string JobSpec::profile_key(bool simulated) const {
  Json key = parallel_json(parallel);
  key.erase("dp");
  key["model"] = model;
  key["partition"] = partition;
  key["gpu"] = gpu;
  key["microbatch_size"] = microbatch_size;
  key["simulated"] = simulated;
  return key.dump();
}

JobSpec read_job_spec(const JsonView& body) {
  require_members(body, {"run", "name", "framework", "model", "partition", "gpu", "parallel", "schedule",
                         "microbatches", "microbatch_size", "slowdown_pct", "guard_pct", "switch_latency_ms", "profile",
                         "policy", "envpipe", "early_forwards", "user"});
  JobSpec spec;
  spec.run = name_text(body.at("run"));
  spec.name = body.has("name") ? name_text(body.at("name")) : spec.run;
  spec.framework = body.has("framework") ? name_text(body.at("framework")) : "unknown";
  spec.model = name_text(body.at("model"));
  spec.partition = body.has("partition") ? name_text(body.at("partition")) : "uniform";
  spec.gpu = printable_text(body.at("gpu"), plan::kMaxGpuNameBytes);  // plans name it
  spec.parallel = read_parallel(body.at("parallel"));
  read_schedule(body.at("schedule"), spec);
  spec.microbatches = body.at("microbatches").integer_in(1, schedule::kMaxMicrobatches);
  if (body.has("microbatch_size")) {
    spec.microbatch_size = body.at("microbatch_size").integer_in(1, kMaxMicrobatchSize);
  }
  if (body.has("slowdown_pct")) spec.slowdown_pct = number_in(body.at("slowdown_pct"), 0, kMaxSlowdownPct);
  if (body.has("guard_pct")) spec.guard_pct = number_in(body.at("guard_pct"), 0, kMaxSlowdownPct);
  if (body.has("switch_latency_ms")) {
    spec.switch_latency_ms = number_in(body.at("switch_latency_ms"), 0, kMaxSwitchLatencyMs);
  }
  if (has_value(body, "policy")) spec.policy = read_policy(body.at("policy"));
  if (spec.policy == JobPolicy::steps) require_no_plans(body, spec);
  if (!body.has("profile")) {
    if (spec.policy != JobPolicy::steps) spec.profiling.emplace();
  } else if (has_value(body, "profile")) {
    spec.profiling = read_profiling(body.at("profile"));
  }
  spec.envpipe = read_envpipe(body, spec.policy);
  if (has_value(body, "early_forwards")) read_early_forwards(body.at("early_forwards"), spec);
  if (has_value(body, "user")) spec.user = name_text(body.at("user"));
  return spec;
}

Json to_json(const JobSpec& spec) {
  Json json = {{"run", spec.run},
               {"name", spec.name},
               {"framework", spec.framework},
               {"model", spec.model},
               {"partition", spec.partition},
               {"gpu", spec.gpu},
               {"parallel", parallel_json(spec.parallel)},
               {"schedule", schedule_json(spec)},
               {"microbatches", spec.microbatches},
               {"microbatch_size", spec.microbatch_size},
               {"slowdown_pct", spec.slowdown_pct},
               {"guard_pct", spec.guard_pct},
               {"switch_latency_ms", spec.switch_latency_ms},
               {"profile", profiling_json(spec.profiling)}};
  if (spec.policy) json["policy"] = name(*spec.policy);
  if (spec.envpipe) json["envpipe"] = envpipe_json(*spec.envpipe);
  if (!spec.early_forwards.empty()) json["early_forwards"] = spec.early_forwards;
  if (spec.user) json["user"] = *spec.user;
  return json;
}

std::string first_difference(const JobSpec& a, const JobSpec& b) {
  if (a == b) return {};
  const Json left = to_json(a);
  const Json right = to_json(b);
  for (const auto& [key, value] : left.items()) {
    if (right.value(key, Json()) != value) return key;
  }
  for (const auto& [key, value] : right.items()) {
    if (!left.contains(key)) return key;
  }
  return {};
}

}  // namespace lowgear::protocol
