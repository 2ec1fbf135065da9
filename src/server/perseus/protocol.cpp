#include "server/perseus/protocol.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/core/error.h"
#include "base/core/units.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::server::perseus {
namespace {

constexpr std::array<std::string_view, 10> kInstructionNames = {
    "load", "forward", "backward", "p2p", "cc", "step", "low", "high", "other", "pure_backward"};
/// Longest text that a client may name a model, framework or partition by.
constexpr std::size_t kMaxPerseusNameBytes = 256;
constexpr int kMaxCount = 1 << 24;
/// Watts or megahertz.
constexpr int kMaxPowerState = kMaxClockMhz;

Instruction read_instruction(const JsonView& view) {
  const std::string text = view.text();
  const std::optional<Instruction> found = perseus_instruction_from_name(text);
  if (!found) view.fail("unknown instruction " + quote(text), "instructions are load, forward, backward, p2p, ...");
  return *found;
}

std::string read_name(const JsonView& view) {
  std::string text = view.text();
  if (text.size() > kMaxPerseusNameBytes)
    view.fail("a name is too long", fmt::format("at most {} bytes", kMaxPerseusNameBytes));
  return text;
}

std::size_t bounded_size(const JsonView& view, std::size_t most) {
  const std::size_t size = view.size();
  if (size > most) view.fail(fmt::format("{} elements are too many", size), fmt::format("at most {}", most));
  return size;
}

std::vector<int> read_power_states(const JsonView& view) {
  const std::size_t size = bounded_size(view, kMaxPowerStates);
  if (size == 0) view.fail("no power states", "list the clocks or power limits that the GPU supports");
  std::vector<int> states;
  states.reserve(size);
  for (std::size_t i = 0; i < size; ++i) states.push_back(view.at(i).integer_in(1, kMaxPowerState));
  std::ranges::sort(states, std::greater{});
  const auto twice = std::ranges::adjacent_find(states);
  if (twice != states.end()) view.fail(fmt::format("power state {} occurs twice", *twice), "list each once");
  return states;
}

std::vector<Instruction> read_pipe_schedule(const JsonView& view) {
  std::vector<Instruction> schedule;
  const std::size_t size = bounded_size(view, kMaxPipeSchedule);
  schedule.reserve(size);
  for (std::size_t i = 0; i < size; ++i) schedule.push_back(read_instruction(view.at(i)));
  return schedule;
}

std::vector<double> read_numbers(const JsonView& view, double most) {
  std::vector<double> numbers;
  const std::size_t size = view.size();
  numbers.reserve(size);
  for (std::size_t i = 0; i < size; ++i) {
    const JsonView element = view.at(i);
    const double number = element.number();
    if (number < 0 || number > most) {
      element.fail(fmt::format("{} is out of range", number), fmt::format("numbers from 0 to {}", most));
    }
    numbers.push_back(number);
  }
  return numbers;
}

Breakdown read_breakdown(const JsonView& document, std::string_view member, double most) {
  Breakdown breakdown;
  if (!document.has(member)) return breakdown;
  const JsonView view = document.at(member);
  if (!view.json().is_object()) view.fail("no object", "give lists by the name of the instruction");
  for (const auto& [key, unused] : view.json().items()) {
    const JsonView lists = view.at(key);
    const std::optional<Instruction> instruction = perseus_instruction_from_name(key);
    if (!instruction) lists.fail("unknown instruction " + quote(key), "instructions are load, forward, backward, ...");
    std::vector<std::vector<double>>& iterations = breakdown[*instruction];
    const std::size_t size = bounded_size(lists, kMaxWindowIterations);
    for (std::size_t i = 0; i < size; ++i) iterations.push_back(read_numbers(lists.at(i), most));
  }
  return breakdown;
}

Json to_json(const Breakdown& breakdown) {
  Json json = Json::object();
  for (const auto& [instruction, lists] : breakdown) json[std::string(name(instruction))] = lists;
  return json;
}

/// The artifact's client says what runs; Zeus' leaves all of it out.
void read_artifact_members(const JsonView& view, JobInfo& job) {
  if (!view.has("framework")) return;
  job.framework = read_name(view.at("framework"));
  job.model_name = read_name(view.at("model_name"));
  job.partition_method = read_name(view.at("partition_method"));
  job.microbatch_size = view.at("microbatch_size").integer_in(1, kMaxCount);
  job.num_microbatches = view.at("num_microbatches").integer_in(1, kMaxCount);
}

}  // namespace

std::string_view name(Instruction instruction) { return kInstructionNames.at(static_cast<std::size_t>(instruction)); }

std::optional<Instruction> perseus_instruction_from_name(std::string_view text) {
  const auto found = std::ranges::find(kInstructionNames, text);
  if (found == kInstructionNames.end()) return std::nullopt;
  return static_cast<Instruction>(found - kInstructionNames.begin());
}

std::string_view name(Mode mode) { return mode == Mode::frequency ? "frequency" : "power limit"; }

JobInfo read_perseus_job(std::string_view body) {
  const Json json = parse_json(body, "register_job", kMaxPerseusValues);
  const JsonView view(json, "register_job");
  if (view.has("job_id") && !view.at("job_id").text().empty()) {
    view.at("job_id").fail("the server gives the id", "leave it empty");
  }
  JobInfo job;
  job.pp_degree = view.at("pp_degree").integer_in(1, kMaxPerseusWorldSize);
  job.dp_degree = view.at("dp_degree").integer_in(1, kMaxPerseusWorldSize);
  job.tp_degree = view.at("tp_degree").integer_in(1, kMaxPerseusWorldSize);
  job.world_size = view.at("world_size").integer_in(1, kMaxPerseusWorldSize);
  const long long product = static_cast<long long>(job.pp_degree) * job.dp_degree * job.tp_degree;
  if (product != job.world_size) {
    view.at("world_size").fail(fmt::format("{} is not pp x dp x tp = {}", job.world_size, product));
  }
  read_artifact_members(view, job);
  if (view.has("job_metadata") && !view.at("job_metadata").json().is_null()) {
    job.metadata = read_name(view.at("job_metadata"));
  }
  return job;
}

RankRegistration read_perseus_rank(std::string_view body, Client client) {
  const Json json = parse_json(body, "register_rank", kMaxPerseusValues);
  const JsonView view(json, "register_rank");
  RankRegistration registration;
  RankInfo& rank = registration.rank;
  rank.rank = view.at("rank").integer_in(0, kMaxPerseusWorldSize - 1);
  rank.dp_rank = view.at("dp_rank").integer_in(0, kMaxPerseusWorldSize - 1);
  rank.pp_rank = view.at("pp_rank").integer_in(0, kMaxPerseusWorldSize - 1);
  rank.tp_rank = view.at("tp_rank").integer_in(0, kMaxPerseusWorldSize - 1);
  if (client == Client::zeus) {
    rank.power_states = read_power_states(view.at("available_frequencies"));
    return registration;
  }
  registration.job_id = view.at("job_id").text();
  rank.pipe_schedule = read_pipe_schedule(view.at("pipe_schedule"));
  rank.power_states = read_power_states(view.at("power_state_range"));
  return registration;
}

Result read_perseus_result(std::string_view body) {
  const Json json = parse_json(body, "result", kMaxPerseusValues);
  const JsonView view(json, "result");
  Result result;
  result.rank = view.at("rank").integer_in(0, kMaxPerseusWorldSize - 1);
  const JsonView times = view.at("iter_time");
  const std::size_t iterations = bounded_size(times, kMaxWindowIterations);
  result.iteration_time_s = read_numbers(times, kMaxTimeS);
  const JsonView energies = view.at("iter_energy");
  if (energies.size() != iterations) {
    energies.fail(fmt::format("{} energies for {} iterations", energies.size(), iterations), "give one for each");
  }
  result.iteration_energy_j = read_numbers(energies, profile::kMaxEnergyJ);
  result.time_s = read_breakdown(view, "time_breakdown", kMaxTimeS);
  result.energy_j = read_breakdown(view, "energy_breakdown", profile::kMaxEnergyJ);
  return result;
}

Json to_json(const JobInfo& job) {
  Json json = {{"pp_degree", job.pp_degree},
               {"dp_degree", job.dp_degree},
               {"tp_degree", job.tp_degree},
               {"world_size", job.world_size}};
  if (job.num_microbatches > 0) {
    json["framework"] = job.framework;
    json["model_name"] = job.model_name;
    json["partition_method"] = job.partition_method;
    json["microbatch_size"] = job.microbatch_size;
    json["num_microbatches"] = job.num_microbatches;
  }
  if (!job.metadata.empty()) json["job_metadata"] = job.metadata;
  return json;
}

Json to_json(const RankInfo& rank) {
  Json schedule = Json::array();
  for (const Instruction each : rank.pipe_schedule) schedule.push_back(std::string(name(each)));
  return {{"rank", rank.rank},
          {"dp_rank", rank.dp_rank},
          {"pp_rank", rank.pp_rank},
          {"tp_rank", rank.tp_rank},
          {"pipe_schedule", std::move(schedule)},
          {"power_state_range", rank.power_states}};
}

Json zeus_rank_info(const RankInfo& rank) {
  return {{"rank", rank.rank},
          {"dp_rank", rank.dp_rank},
          {"pp_rank", rank.pp_rank},
          {"tp_rank", rank.tp_rank},
          {"available_frequencies", rank.power_states}};
}

Json to_json(const Result& result) {
  return {{"rank", result.rank},
          {"iter_time", result.iteration_time_s},
          {"iter_energy", result.iteration_energy_j},
          {"time_breakdown", to_json(result.time_s)},
          {"energy_breakdown", to_json(result.energy_j)}};
}

Json perseus_power_states(int rank, std::span<const int> power_states) {
  return {{"rank", rank}, {"power_states", std::vector<int>(power_states.begin(), power_states.end())}};
}

Json zeus_frequencies(int rank, std::span<const Instruction> instructions, std::span<const int> clocks_mhz) {
  Json pairs = Json::array();
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    Json pair = Json::array();
    pair.push_back(std::string(name(instructions[i])));
    pair.push_back(clocks_mhz[i]);
    pairs.push_back(std::move(pair));
  }
  return {{"rank", rank}, {"frequencies", std::move(pairs)}};
}

namespace {

/// Longest name of a file on Linux.
constexpr std::size_t kMaxFileNameBytes = 255;

/// Appends a part of a name that can stand in a path.
void append_part(std::string& name, std::string_view part, std::size_t max_bytes) {
  constexpr std::string_view kPlainMarks = "._-+:,=@~";
  if (!name.empty()) name += '+';
  for (const char byte : part.substr(0, max_bytes)) {
    const bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
                       kPlainMarks.find(byte) != std::string_view::npos;
    name += plain ? byte : '_';
  }
}

/// Appends the job's framework and model. All names of a job together leave room for the rest of a file's name.
void append_model(std::string& name, const JobInfo& job) {
  append_part(name, job.framework, 32);
  append_part(name, job.model_name, 64);
  append_part(name, job.partition_method, 64);
}

}  // namespace

std::string perseus_profile_name(const JobInfo& job) {
  std::string text;
  append_model(text, job);
  return text + fmt::format("+dp{}+tp{}+pp{}+mbs{}+nmb{}.csv", job.dp_degree, job.tp_degree, job.pp_degree,
                            job.microbatch_size, job.num_microbatches);
}

std::string perseus_job_name(const JobInfo& job, std::string_view scheduler, double time_s) {
  std::string text = fmt::format("{:%Y-%m-%d-%H-%M-%S}", fmt::gmtime(static_cast<std::time_t>(time_s)));
  if (job.num_microbatches > 0) append_model(text, job);
  text += fmt::format("+dp{}+pp{}+tp{}", job.dp_degree, job.pp_degree, job.tp_degree);
  if (job.num_microbatches > 0) text += fmt::format("+mbs{}+nmb{}", job.microbatch_size, job.num_microbatches);
  append_part(text, scheduler, kMaxFileNameBytes);
  if (!job.metadata.empty() && text.size() + 1 < kMaxFileNameBytes) {
    append_part(text, job.metadata, kMaxFileNameBytes - 1 - text.size());
  }
  return text;
}

}  // namespace lowgear::server::perseus
