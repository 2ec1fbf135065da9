#include "training/trainer/run/training_run.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "estimating/model/partition.h"
#include "hardware/gpu/peak_compute.h"
#include "planning/plan/plan.h"
#include "planning/plan/plan_json.h"
#include "training/launcher/model_weights.h"
#include "training/launcher/training_text.h"
#include "training/trainer/checkpoint/weights.h"
#include "training/trainer/engine/optimizer.h"
#include "training/trainer/fp8/matrix.h"

namespace lowgear::trainer {

Adaptation::Adaptation(const launcher::TrainConfig& config, TrainedPart& part, client::Client& client,
                       Communicators& ranks)
    : config_(&config),
      part_(&part),
      freezing_(config, part.optimizer(), ranks, [this] { return held_out_->measure(part_->stages()); }) {
  if (config.freeze.controller) {
    held_out_.emplace(config, launcher::held_out_quarter_config(config, config.freeze.controller->held_out),
                      part.place(), ranks, part.store().values().options());
  }
  if (config.adapt.is_on()) adapting_.emplace(config, freezing_, client, ranks, part.place().pp);
  if (config.envpipe && !config.server) {
    envpipe_.emplace(
        config, EnvPipeLoop::Parts{
                    .others = &state(),
                    .client = &client,
                    .ranks = &ranks,
                    .place = part.place(),
                    .schedule = [this]() -> const schedule::Schedule& { return part_->schedule(); },
                    .reorder = [this](std::vector<int> early_forwards) { part_->reorder(std::move(early_forwards)); }});
  }
  if (config.adapt.repartition) repartition_.emplace(config, state(), client, ranks, part.place().pp);
}

SavedState& Adaptation::state() {
  if (envpipe_) return *envpipe_;
  if (repartition_) return *repartition_;
  if (adapting_) return *adapting_;
  return freezing_;
}

void Adaptation::begin(std::int64_t first_step) {
  if (repartition_) (void)part_->change(part_->store().frozen_blocks(), repartition_->partition());
  freezing_.begin(first_step);
  if (adapting_) adapting_->begin(first_step, part_->schedule());
  if (envpipe_) envpipe_->begin(first_step);
}

Adaptation::Change Adaptation::prepare(std::int64_t step) {
  if (adapting_) adapting_->agree(step);
  const std::int64_t blocks = freezing_.blocks_at(step);
  const std::string partition = repartition_ ? repartition_->partition_at(step, blocks, part_->partition())
                                             : model::partition_text(part_->partition());
  Change change{.moved = part_->change(blocks, partition)};
  part_->drop(freezing_.dropped_at(step));
  if (adapting_) change.agent_accepts = adapting_->follow(part_->schedule());
  if (envpipe_) change.agent_accepts = envpipe_->follow();
  if (repartition_) change.agent_accepts = repartition_->follow() && change.agent_accepts;
  return change;
}

void Adaptation::after_step(StepResult& result) {
  if (repartition_) {
    result.partition = model::partition_text(part_->partition());
    repartition_->after_step(result);
  }
  if (envpipe_) result.envpipe = envpipe_->decision();
  if (!adapting_) return;
  adapting_->after_step(result);
  result.operating_point = adapting_->point_name();
  result.decisions = adapting_->take_decisions();
}

namespace {

/// What the configuration writes can be written: known before weights are read.
const launcher::TrainConfig& with_prepared_outputs(const launcher::TrainConfig& config, Collective& world) {
  if (config.export_folder) prepare_export(*config.export_folder, world);
  return config;
}

/// The policy whose clocks a job follows; empty where it follows none, or the server's.
std::string followed_policy(const launcher::TrainConfig& config) {
  if (config.server) return "";
  if (config.envpipe) return "envpipe";
  if (config.adapt.repartition && config.adapt.repartition->profile) return "lowgear";
  return config.plan ? plan::read_plan(read_file(*config.plan, plan::kMaxPlanBytes), config.plan->string()).policy : "";
}

/// What moving layers took, over all ranks.
MovedLayers moved_by_all(const PartitionSwitch& own, Collective& world) {
  const at::Tensor time = at::full({1}, own.time_s, at::kDouble);
  const at::Tensor bytes = at::full({1}, own.sent_bytes, at::kDouble);
  world.all_reduce(time, Reduction::maximum);
  world.all_reduce(bytes);
  return {.time_s = time.item<double>(), .bytes = bytes.item<double>()};
}

/// Why the first step from weights gave no numbers.
std::string blame_of_weights(const std::filesystem::path& weights, const model::ModelConfig& config) {
  const std::string where = printable(weights.string(), std::string_view::npos);
  const std::string parameter = launcher::ModelWeights::open(weights, config).non_finite_parameter();
  if (!parameter.empty()) {
    return fmt::format("the weights {} hold NaN or infinity (first in {}); give weights that are whole", where,
                       parameter);
  }
  return fmt::format(
      "with the weights {} already the first step diverges; check that they are of this model, or lower the learning "
      "rate",
      where);
}

}  // namespace

TrainingRun::TrainingRun(launcher::TrainConfig config, Backend backend, client::Client& client,
                         std::unique_ptr<SimulatedDevice> simulated_gpu)
    : config_(std::move(config)),
      ranks_(std::move(backend.ranks)),
      client_(&client),
      data_(config_),
      profile_clocks_(config_.profile),
      part_(with_prepared_outputs(config_, *ranks_.world), backend.device, ranks_),
      meter_(client, backend.device,
             peak_flop_s(backend.gpu_name, config_.bf16 ? gpu::MatrixType::bf16 : gpu::MatrixType::fp32)),
      marks_(config_, client, backend.device, std::move(simulated_gpu),
             [this](int stage) { return part_.find_stage(stage); }),
      activations_(config_, marks_.activations(), *ranks_.world),
      adaptation_(config_, part_, client, ranks_),
      policy_(followed_policy(config_)) {
  load_state();
  if (config_.plan) client_->load_plan(*config_.plan, part_.place().pp, /*nearest_below=*/false);
}

/// The state that training continues from where there is a checkpoint.
void TrainingRun::load_state() {
  if (config_.evaluation) {
    evaluation_.emplace(config_, launcher::held_out_config(config_, config_.evaluation->held_out), part_.place(),
                        ranks_, part_.store().values().options(), config_.evaluation->batches);
  }
  if (config_.adapt.is_on() && !meter_.measures_energy()) {
    throw InputError(
        fmt::format("adapt.techniques: no energy can be measured, which decides: {}", client_->status().problem));
  }
  if (config_.checkpoint) {
    checkpoints_.emplace(config_, TrainingState{&part_.optimizer(), &data_.sampler(), &adaptation_.state()}, ranks_);
    steps_.before = steps_.done = checkpoints_->resume();
  }
  adaptation_.begin(steps_.before);
}

void TrainingRun::follow_profile_clock(std::int64_t step) {
  const std::optional<int> clock_mhz = profile_clocks_.change_before(step);
  if (!clock_mhz) return;
  const std::filesystem::path file = *config_.recording / fmt::format("clock-{}-rank-{}.json", *clock_mhz, rank());
  write_file_atomically(file, plan::write_plan(plan::uniform_plan(part_.schedule(), *clock_mhz, "profile")));
  client_->load_plan(file, part_.place().pp, /*nearest_below=*/false);
}

/// Of the mean over all ranks; tensor-parallel ranks have the same sum.
double TrainingRun::loss_share(const at::Tensor& sum) const {
  return part_.place().tp == 0 ? sum.item<double>() / (config_.microbatches * config_.parallel.dp) : 0;
}

ChosenPrecision TrainingRun::choose_precision(const std::function<bool()>& asked_to_end) {
  if (const std::string reason = fp8::missing(part_.device()); !reason.empty()) return {.reason = reason};
  (void)adaptation_.prepare(steps_.done);
  const auto train = [this](std::int64_t step) {
    const at::Tensor loss =
        part_.compute_gradients(data_.microbatches(step, part_.place().dp, part_.device()), nullptr);
    part_.optimizer().step(learning_rate(config_.optimizer, step, config_.steps), adaptation_.slower_at(step));
    return loss_share(loss);
  };
  PrecisionProbe probe(*config_.fp8->probe, {.use_fp8 = [this](bool on) { part_.use_fp8(on); },
                                             .train = train,
                                             .asked_to_end = asked_to_end,
                                             .optimizer = &part_.optimizer(),
                                             .world = ranks_.world.get(),
                                             .client = meter_.measures_energy() ? client_ : nullptr,
                                             .device = part_.device(),
                                             .first_step = steps_.done,
                                             .steps = config_.steps});
  return probe.run();
}

StepResult TrainingRun::step(std::int64_t number, const std::function<bool()>& asked_to_end, bool& end) {
  const std::vector<Microbatch> microbatches = data_.microbatches(number, part_.place().dp, part_.device());
  meter_.begin();
  const Adaptation::Change change = adaptation_.prepare(number);
  activations_.prepare(number, part_.store().frozen_blocks(), model::partition_text(part_.partition()));
  client_->stagger(static_cast<std::uint64_t>(number));
  client_->iteration_begin(
      {.number = static_cast<std::uint64_t>(number), .settling = profile_clocks_.settles_at(number)});
  const at::Tensor loss = part_.compute_gradients(microbatches, &marks_);
  StepResult result;
  result.step = number;
  result.frozen_blocks = part_.store().frozen_blocks();
  result.dropped_gradients = adaptation_.drops_at(number);
  result.learning_rate = learning_rate(config_.optimizer, number, config_.steps);
  result.gradient_norm = part_.optimizer().step(result.learning_rate, adaptation_.slower_at(number));
  client_->iteration_end();
  adaptation_.after_update(number, result.learning_rate);
  result.policy = policy_;
  StepTotals totals = totals_of(loss, change, result);
  const double own_energy_j = totals.without_energy > 0 ? std::numeric_limits<double>::quiet_NaN() : totals.energy_j;
  adaptation_.observe(
      number, {.energy_j = own_energy_j, .units = marks_.take_times(), .activation_bytes = activations_.newest()});
  totals.end = asked_to_end() ? 1 : 0;
  totals.add_up(*ranks_.world);
  if (change.moved) result.moved = moved_by_all(*change.moved, *ranks_.world);
  result.time_s = meter_.time_s();
  result.activation_bytes = activations_.finish(part_.schedule().stages);
  totals.describe(config_, result);
  end = totals.end > 0;
  if (rank() == 0) adaptation_.after_step(result);
  return result;
}

/// Of this rank.
StepTotals TrainingRun::totals_of(const at::Tensor& loss, const Adaptation::Change& change, StepResult& result) {
  // The loss is waited for, too: then the energy is that of all work of the step.
  const measure::WindowMeasurement measured = meter_.take_energy();
  StepTotals totals;
  totals.loss = loss_share(loss);
  totals.energy_j = measured.gpu_energy_j().value_or(0);
  totals.energy_uncertainty_j = measured.gpu_energy_uncertainty_j().value_or(0);
  totals.without_energy = measured.gpu_energy_j() && measured.gpu_energy_covers_all() ? 0 : 1;
  totals.without_uncertainty = measured.gpu_energy_uncertainty_j() ? 0 : 1;
  for (const measure::GpuMeasurement& gpu : measured.gpus) {  // that of the rank
    if (gpu.source == measure::EnergySource::counter || !gpu.energy_j) continue;
    totals.by_power = 1;
    result.energy_problem = gpu.problem;
  }
  totals.simulated = measured.simulated ? 1 : 0;
  totals.invalid = marks_.invalid() ? 1 : 0;
  totals.peak_flop_s = meter_.peak_flop_s().value_or(0);
  totals.without_peak = meter_.peak_flop_s() ? 0 : 1;
  if (config_.server) {
    const client::Status status = client_->status();
    totals.without_server = status.server_connected ? 0 : 1;
    result.server_problem = status.server_problem;
  }
  totals.not_switched = change.agent_accepts ? 0 : 1;
  return totals;
}

void TrainingRun::run(const std::function<bool()>& asked_to_end, const std::function<void(const StepResult&)>& report) {
  bool end = false;
  std::optional<ChosenPrecision> precision;
  if (config_.fp8 && config_.fp8->probe && !all_steps_done()) precision = choose_precision(asked_to_end);
  while (!all_steps_done() && !end) {
    follow_profile_clock(steps_.done);
    StepResult result = step(steps_.done, asked_to_end, end);
    result.precision = std::exchange(precision, std::nullopt);
    ++steps_.done;
    if (evaluation_ && config_.evaluation->is_due(steps_.done, config_.steps)) {
      result.held_out_loss = evaluation_->measure(part_.stages());
    }
    if (rank() == 0) report(result);
    require_finite(result);
    if (checkpoints_) checkpoints_->after_step(steps_.done, end || all_steps_done());
  }
  if (config_.export_folder && all_steps_done()) {
    export_weights(*config_.export_folder, config_.model, part_.store(), {part_.place().pp, config_.parallel.pp},
                   ranks_);
  }
}

void TrainingRun::require_finite(const StepResult& result) const {
  if (std::isfinite(result.loss) && std::isfinite(result.gradient_norm)) return;
  const std::string what = fmt::format("step {}: the loss is {} and the norm of the gradients {}: ", result.step,
                                       result.loss, result.gradient_norm);
  if (result.step == 0 && config_.weights) throw Diverged(what + blame_of_weights(*config_.weights, config_.model));
  throw Diverged(fmt::format("{}training has diverged; lower the learning rate{}", what,
                             checkpoints_ ? "; " + checkpoints_->newest_text() : ""));
}

void TrainingRun::finish() {
  ranks_.world->all_reduce(at::zeros({1}));
  synchronize(part_.device());
  if (ranks_.close) ranks_.close();
}

}  // namespace lowgear::trainer
