#include "training/trainer/envpipe/envpipe_loop.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <ranges>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "planning/plan/plan.h"
#include "planning/plan/plan_json.h"
#include "planning/schedule/communication.h"
#include "training/trainer/checkpoint/job_folder.h"

namespace lowgear::trainer {

namespace {

/// `value(op)` as a list for each rank.
template <typename Value>
Json by_rank(const schedule::PipelineDag& dag, const Value& value) {
  Json ranks = Json::array();
  for (int rank = 0; rank < dag.ranks; ++rank) {
    Json list = Json::array();
    const auto begin = static_cast<std::size_t>(dag.rank_begin[static_cast<std::size_t>(rank)]);
    const auto end = static_cast<std::size_t>(dag.rank_begin[static_cast<std::size_t>(rank) + 1]);
    for (std::size_t op = begin; op < end; ++op) list.push_back(value(op));
    ranks.push_back(std::move(list));
  }
  return ranks;
}

std::string unit_name(const schedule::ComputeOp& op) {
  return fmt::format("{}{}", op.kind == OpKind::forward ? 'F' : 'B', op.microbatch);
}

}  // namespace

void EnvPipeRecord::write(const Json& line) {
  if (file_.add(line.dump()) || file_.lost_lines() != 1) return;
  fmt::print(stderr, "{}; training continues\n", file_.lost_text());
}

void EnvPipeRecord::begin(std::int64_t step, const Json& settings, const schedule::PipelineDag& dag,
                          const policies::EnvPipeState& state) {
  Json line = {{"format", "lowgear.envpipe/1"},
               {"step", step},
               {"settings", settings},
               {"units", by_rank(dag, [&](std::size_t op) { return unit_name(dag.ops[op]); })},
               {"clocks_mhz", by_rank(dag, [&](std::size_t op) { return state.clocks_mhz[op]; })},
               {"unchanged_steps", state.unchanged_steps}};
  if (state.threshold_s) line["threshold_s"] = *state.threshold_s;
  write(line);
}

void EnvPipeRecord::add(std::int64_t step, const schedule::PipelineDag& dag, std::span<const double> receive_s,
                        const policies::EnvPipeReconfiguration::Step& decided, const policies::EnvPipeState& state) {
  const auto receive = [&](std::size_t op) { return std::isfinite(receive_s[op]) ? Json(receive_s[op]) : Json(); };
  Json path = Json::array();
  for (const int op : decided.path) {
    const int rank = dag.ops[static_cast<std::size_t>(op)].rank;
    path.push_back({rank, op - dag.rank_begin[static_cast<std::size_t>(rank)]});
  }
  Json line = {{"step", step},
               {"receive_s", by_rank(dag, receive)},
               {"path", path},
               {"clocks_mhz", by_rank(dag, [&](std::size_t op) { return state.clocks_mhz[op]; })},
               {"unchanged_steps", state.unchanged_steps}};
  if (!decided.problem.empty()) line["problem"] = decided.problem;
  write(line);
}

namespace {

using policies::EnvPipeOptions;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kPerRank = 3;  ///< numbers of an EnvPipeSample
/// Of the highest clock: about where EnvPipe's own lists of clocks end.
constexpr double kLowestClockShare = 0.6;
constexpr int kMaxClockMhz = 20'000;

/// Highest first: clocks that the GPUs of all ranks have. A meeting of all ranks.
std::vector<int> common_clocks_mhz(const std::vector<int>& own_mhz, Collective& world) {
  const at::Tensor ranks = at::zeros({kMaxClockMhz + 1}, at::kInt);
  auto* counts = ranks.data_ptr<int>();
  for (const int clock : own_mhz) {
    if (clock >= 1 && clock <= kMaxClockMhz) counts[clock] = 1;
  }
  world.all_reduce(ranks);
  std::vector<int> common;
  for (int clock = kMaxClockMhz; clock > 0; --clock) {
    if (counts[clock] == world.size()) common.push_back(clock);
  }
  return common;
}

double mean_time_s(std::span<const UnitTime> units, bool forwards) {
  std::vector<double> times;
  for (const UnitTime& unit : units) {
    if ((unit.kind == OpKind::forward) == forwards) times.push_back(unit.time_s);
  }
  return times.empty() ? kMissing : policies::envpipe_mean(times);
}

std::string plan_text(const schedule::Schedule& schedule, std::span<const int> clocks_mhz) {
  plan::Plan plan = plan::uniform_plan(schedule, clocks_mhz.front(), "envpipe");
  std::size_t op = 0;
  for (std::vector<plan::PlannedOp>& rank : plan.ranks) {
    for (plan::PlannedOp& planned : rank) planned.clock_mhz = clocks_mhz[op++];
  }
  plan.switches = plan::count_switches(plan.ranks);
  return plan::write_plan(plan);
}

}  // namespace

EnvPipeLoop::EnvPipeLoop(const launcher::TrainConfig& config, Parts parts)
    : config_(&config), parts_(std::move(parts)) {}

bool EnvPipeLoop::has_own_order() const {
  const EnvPipeOptions& options = config_->envpipe->options;
  return options.order == EnvPipeOptions::Order::own && options.type != EnvPipeOptions::Type::baseline;
}

/// A meeting of all ranks.
std::vector<int> EnvPipeLoop::usable_clocks_mhz() const {
  const std::vector<int> common = common_clocks_mhz(parts_.client->gpu_clocks_mhz(), *parts_.ranks->world);
  if (common.empty()) {
    throw InputError(fmt::format(
        "energy.policy: envpipe: no clock is supported by the GPUs of all ranks: {}; leave out the policy, or make "
        "simulated GPUs with lowgear simgpu create",
        parts_.client->status().problem));
  }
  const EnvPipeOptions& options = config_->envpipe->options;
  const int highest = options.start_clock_mhz.value_or(common.front());
  const int lowest = options.lowest_clock_mhz.value_or(static_cast<int>(kLowestClockShare * highest));
  std::vector<int> usable;
  std::ranges::copy_if(common, std::back_inserter(usable),
                       [&](int clock) { return clock >= lowest && clock <= highest; });
  if (!usable.empty()) return usable;
  throw InputError(
      fmt::format("energy.envpipe: the GPUs have no clock from {} to {} MHz; lower lowest_clock or raise start_clock",
                  lowest, highest));
}

void EnvPipeLoop::begin(std::int64_t first_step) {
  clocks_mhz_ = usable_clocks_mhz();
  dag_ = build_dag(without_communication(parts_.schedule()));
  if (has_own_order()) policies::require_envpipe_order(dag_);
  if (config_->envpipe->log && is_rank_0()) record_.emplace(*config_->envpipe->log, first_step);
  if (continue_saved(first_step)) return;
  if (config_->envpipe->options.type == EnvPipeOptions::Type::baseline) {
    agreed_ = {.phase = Phase::settled,
               .early_forwards = {},
               .clocks_mhz = std::vector<int>(dag_.ops.size(), clocks_mhz_.front())};
    return;
  }
  if (!config_->envpipe->profile) return start_profiling();
  together(*parts_.ranks->world, [&] {
    if (!is_rank_0()) return;
    start_reconfiguring(findings_on_profile(*config_->envpipe, parts_.schedule()),
                        profiled_activation_bytes(*config_->envpipe));
  });
  agree(first_step);
}

/// By which the clocks were decided.
Json EnvPipeLoop::settings() const {
  return launcher::envpipe_settings_json(config_->envpipe->options, config_->envpipe_memory, clocks_mhz_);
}

/// From a checkpoint of the same settings and units.
bool EnvPipeLoop::continue_saved(std::int64_t first_step) {
  if (!saved_ || saved_->settings != settings()) return false;
  if (saved_->state.clocks_mhz.size() != dag_.ops.size()) return false;
  if (!saved_->early_forwards.empty() && saved_->early_forwards.size() != static_cast<std::size_t>(dag_.ranks)) {
    return false;
  }
  agreed_ = {.phase = saved_->settled ? Phase::settled : Phase::reconfiguring,
             .early_forwards = {},
             .clocks_mhz = saved_->state.clocks_mhz};
  if (!saved_->early_forwards.empty()) set_order(saved_->early_forwards);
  make_reconfiguration(saved_->state, first_step);
  return true;
}

/// On all ranks; rank 0 alone decides.
void EnvPipeLoop::start_profiling() {
  if (parts_.client->status().gpu_uuid.empty()) {
    throw InputError(fmt::format("energy.policy: envpipe: the policy decides by energy, which cannot be measured: {}",
                                 parts_.client->status().problem));
  }
  const EnvPipeOptions& options = config_->envpipe->options;
  sweep_.emplace(policies::envpipe_profiled_clocks_mhz(clocks_mhz_, options.profile_step_mhz), dag_.ranks,
                 options.type);
  agreed_ = {
      .phase = Phase::profiling, .early_forwards = {}, .clocks_mhz = rank_clocks_by_op(sweep_->rank_clocks_mhz())};
}

std::vector<int> EnvPipeLoop::rank_clocks_by_op(std::span<const int> rank_clocks_mhz) const {
  std::vector<int> clocks;
  for (const schedule::ComputeOp& op : dag_.ops) clocks.push_back(rank_clocks_mhz[static_cast<std::size_t>(op.rank)]);
  return clocks;
}

/// On rank 0. What was measured may be more than is allowed: a job that trains keeps the order of 1F1B then.
std::vector<int> EnvPipeLoop::find_extra_activations(std::span<const double> activation_bytes) {
  const launcher::EnvPipeMemory& memory = config_->envpipe_memory;
  if (!memory.bytes.empty() && !activation_bytes.empty()) {
    start_news_ +=
        fmt::format("; activations of a microbatch by rank {:.4g} MB",
                    fmt::join(activation_bytes | std::views::transform([](double b) { return b * 1e-6; }), " "));
  }
  try {
    return extra_activations(memory, activation_bytes, dag_.ranks, dag_.microbatches);
  } catch (const InputError& error) {
    if (config_->envpipe->profile) throw;
    start_news_ += fmt::format("; {}; the order stays", error.what());
    return {};
  }
}

/// On rank 0: the clocks of a profile may be other ones than those of the GPUs, and are rounded up.
void EnvPipeLoop::start_reconfiguring(const policies::EnvPipeFindings& found,
                                      std::span<const double> activation_bytes) {
  std::vector<int> optimal_mhz;
  for (const int wanted : found.optimal_mhz) optimal_mhz.push_back(policies::envpipe_clock_from(clocks_mhz_, wanted));
  const EnvPipeOptions& options = config_->envpipe->options;
  start_news_ = fmt::format("clocks of least energy by rank {} MHz", fmt::join(optimal_mhz, " "));
  if (has_own_order()) {
    policies::EnvPipeOrder order = envpipe_order(dag_.microbatches, found, find_extra_activations(activation_bytes));
    start_news_ += fmt::format("; early forwards {}{}", fmt::join(order.early_forwards, " "),
                               order.note.empty() ? "" : "; " + order.note);
    agreed_.early_forwards = std::move(order.early_forwards);
  }
  agreed_.phase =
      options.reconfiguration == EnvPipeOptions::Reconfiguration::off ? Phase::settled : Phase::reconfiguring;
  // The units of its own order are the same, in another place on their rank: these clocks are by order, not by unit.
  const schedule::PipelineDag ordered =
      agreed_.early_forwards.empty() ? dag_
                                     : build_dag(schedule::envpipe_schedule(dag_.microbatches, agreed_.early_forwards));
  agreed_.clocks_mhz = envpipe_start_clocks_mhz(ordered, options.type,
                                                std::vector<int>(ordered.ops.size(), clocks_mhz_.front()), optimal_mhz);
}

/// On all ranks.
void EnvPipeLoop::set_order(std::vector<int> early_forwards) {
  agreed_.early_forwards = std::move(early_forwards);
  parts_.reorder(agreed_.early_forwards);
  dag_ = build_dag(without_communication(parts_.schedule()));
}

/// The order is set.
void EnvPipeLoop::make_reconfiguration(policies::EnvPipeState state, std::int64_t step) {
  policies::EnvPipeClocks clocks;
  for (const schedule::ComputeOp& op : dag_.ops) clocks[{op.stage, op.kind}] = clocks_mhz_;
  reconfiguration_.emplace(dag_, std::move(clocks), config_->envpipe->options, std::move(state));
  if (!record_ || agreed_.phase != Phase::reconfiguring) return;
  record_->begin(step, settings(), dag_, reconfiguration_->state());
}

bool EnvPipeLoop::follow() {
  if (loaded_mhz_ == agreed_.clocks_mhz) return true;
  const bool first = loaded_mhz_.empty();
  loaded_mhz_ = agreed_.clocks_mhz;
  try {
    parts_.client->load_plan_text(plan_text(parts_.schedule(), agreed_.clocks_mhz), "energy.policy", parts_.place.pp,
                                  /*nearest_below=*/false);
    return true;
  } catch (const Error& error) {
    if (first) {
      throw Error(
          fmt::format("energy.policy: envpipe: no agent sets the clocks of rank {}: {}; start lowgear agent, or leave "
                      "out the policy",
                      parts_.ranks->world->rank(), error.what()));
    }
    fmt::print(stderr, "the clocks of envpipe: {}; training continues\n", error.what());
    return false;
  }
}

EnvPipeLoop::Measured EnvPipeLoop::gather(const Observed& observed) const {
  const std::span<const UnitTime> units = observed.units;
  const std::size_t ops = dag_.ops.size();
  const auto ranks = static_cast<std::size_t>(dag_.ranks);
  const at::Tensor all = at::zeros({static_cast<std::int64_t>(ops + kPerRank * ranks)}, at::kDouble);
  auto* values = all.data_ptr<double>();
  if (parts_.place.dp == 0 && parts_.place.tp == 0) {
    const auto rank = static_cast<std::size_t>(parts_.place.pp);
    const auto begin = static_cast<std::size_t>(dag_.rank_begin[rank]);
    const auto count = static_cast<std::size_t>(dag_.rank_begin[rank + 1]) - begin;
    for (std::size_t i = 0; i < count; ++i) values[begin + i] = units.size() == count ? units[i].wait_s : kMissing;
    values[ops + kPerRank * rank] = observed.energy_j;
    values[ops + kPerRank * rank + 1] = mean_time_s(units, true);
    values[ops + kPerRank * rank + 2] = mean_time_s(units, false);
  }
  parts_.ranks->world->all_reduce(all);
  Measured measured{.receive_s = {values, values + ops}, .samples = {}};
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const double* own = values + ops + kPerRank * rank;
    measured.samples.push_back({.energy_j = own[0], .forward_time_s = own[1], .backward_time_s = own[2]});
  }
  return measured;
}

void EnvPipeLoop::observe(std::int64_t step, const Observed& observed) {
  decision_ = {.phase = agreed_.phase, .news = std::exchange(start_news_, "")};
  if (agreed_.phase == Phase::settled) return;
  const Measured measured = gather(observed);
  if (is_rank_0()) {
    if (agreed_.phase == Phase::profiling) {
      profile(measured, observed.activation_bytes);
    } else {
      reconfigure(step, measured);
    }
  }
  agree(step + 1);
}

void EnvPipeLoop::profile(const Measured& measured, std::span<const std::int64_t> activation_bytes) {
  decision_.problem = sweep_->observe(measured.samples);
  if (!sweep_->is_finished()) {
    agreed_.clocks_mhz = rank_clocks_by_op(sweep_->rank_clocks_mhz());
    return;
  }
  start_reconfiguring(sweep_->findings(), std::vector<double>(activation_bytes.begin(), activation_bytes.end()));
  decision_.news = std::exchange(start_news_, "");
}

void EnvPipeLoop::reconfigure(std::int64_t step, const Measured& measured) {
  std::vector<double> receive_s = measured.receive_s;
  for (std::size_t op = 0; op < receive_s.size(); ++op) {
    const bool receives = reconfiguration_->senders()[op] >= 0;
    receive_s[op] = receives ? receive_s[op] + config_->envpipe->options.transfer_s : 0;
  }
  const policies::EnvPipeReconfiguration::Step decided = reconfiguration_->step(receive_s);
  decision_.problem = decided.problem;
  decision_.path = static_cast<int>(decided.path.size());
  decision_.raised = static_cast<int>(decided.raised.size());
  agreed_.clocks_mhz = reconfiguration_->clocks_mhz();
  decision_.plan = policies::envpipe_step_text(dag_, agreed_.clocks_mhz, receive_s, decided.path);
  if (record_) record_->add(step, dag_, receive_s, decided, reconfiguration_->state());
  if (!reconfiguration_->is_finished()) return;
  agreed_.phase = Phase::settled;
  decision_.news = "the clocks are settled: the last decisions changed nothing";
}

/// What rank 0 has decided, from a step on. A meeting of all ranks.
void EnvPipeLoop::agree(std::int64_t step) {
  const auto ranks = static_cast<std::size_t>(dag_.ranks);
  std::vector<std::int64_t> numbers{static_cast<std::int64_t>(agreed_.phase), agreed_.early_forwards.empty() ? 0 : 1};
  if (agreed_.early_forwards.empty()) {
    numbers.resize(2 + ranks, 0);
  } else {
    numbers.insert(numbers.end(), agreed_.early_forwards.begin(), agreed_.early_forwards.end());
  }
  numbers.insert(numbers.end(), agreed_.clocks_mhz.begin(), agreed_.clocks_mhz.end());
  numbers.resize(2 + ranks + dag_.ops.size(), 0);
  const at::Tensor all = at::zeros({static_cast<std::int64_t>(numbers.size())}, at::kLong);
  auto* values = all.data_ptr<std::int64_t>();
  std::ranges::copy(numbers, values);
  parts_.ranks->world->broadcast(all, 0);

  agreed_.phase = static_cast<Phase>(values[0]);
  agreed_.clocks_mhz.assign(values + 2 + ranks, values + numbers.size());
  if (agreed_.phase == Phase::profiling || reconfiguration_) return;
  if (values[1] != 0) set_order({values + 2, values + 2 + ranks});
  make_reconfiguration({.clocks_mhz = agreed_.clocks_mhz}, step);
}

std::string EnvPipeLoop::save() const {
  const std::string others = parts_.others->save();
  if (!reconfiguration_) return others;
  Json json = others.empty() ? Json::object() : Json::parse(others);
  const launcher::EnvPipeSaved saved{.settings = settings(),
                                     .settled = agreed_.phase == Phase::settled,
                                     .early_forwards = agreed_.early_forwards,
                                     .state = reconfiguration_->state()};
  json["envpipe"] = to_json(saved);
  return json.dump();
}

void EnvPipeLoop::restore(const std::string& json, const std::string& source) {
  parts_.others->restore(json, source);
  const Json document = parse_json(json, source);
  const JsonView root(document, source, "$.freezing");
  if (root.has("envpipe")) saved_ = launcher::read_envpipe_saved(root.at("envpipe"));
}

}  // namespace lowgear::trainer
