#include "training/trainer/run/training_run.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/monotonic_clock.h"
#include "estimating/model/partition.h"
#include "hardware/gpu/peak_compute.h"
#include "planning/plan/plan.h"
#include "planning/plan/plan_json.h"
#include "planning/steps/expert_loads.h"
#include "training/launcher/model_weights.h"
#include "training/launcher/training_schedule.h"
#include "training/launcher/training_text.h"
#include "training/trainer/checkpoint/weights.h"
#include "training/trainer/engine/optimizer.h"
#include "training/trainer/fp8/matrix.h"
#include "training/trainer/measuring/expert_load_rows.h"

namespace lowgear::trainer {

namespace {

/// Prepares the outputs of the configuration, so that errors show before weights are read.
const launcher::TrainConfig& with_prepared_outputs(const launcher::TrainConfig& config, Collective& world) {
  if (config.export_folder) prepare_export(*config.export_folder, world);
  return config;
}

/// The policy whose clocks a job follows; empty where it follows none, or the server's.
std::string followed_policy(const launcher::TrainConfig& config) {
  if (config.step_clocks) return "lowgear";
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
      loss_scale_(config_.fp16 ? std::optional<LossScale>(*config_.fp16) : std::nullopt),
      profile_clocks_(config_.profile),
      part_(with_prepared_outputs(config_, *ranks_.world), backend.device, ranks_),
      peak_flop_s_(
          peak_flop_s(backend.gpu_name, config_.bf16 || config_.fp16 ? gpu::MatrixType::bf16 : gpu::MatrixType::fp32)),
      simulated_(client.status().simulated),
      measures_energy_(!client.status().gpu_uuid.empty()),
      marks_(config_, client, backend.device, std::move(simulated_gpu),
             [this](int stage) { return part_.find_stage(stage); }),
      activations_(config_, marks_.activations(), *ranks_.world),
      changes_(config_, part_, client, ranks_, [this] { return freezing_loss_->measure(part_.stages()); }),
      policy_(followed_policy(config_)) {
  load_state();
  if (config_.plan) client_->load_plan(*config_.plan, part_.place().pp, /*nearest_below=*/false);
  if (config_.step_clocks && !all_steps_done()) begin_step_clocks();
  if (!config_.recording) return;
  if (config_.document_end && rank() == 0) {
    lengths_.emplace(client::lengths_file(*config_.recording, steps_.done));
  }
  if (config_.model.experts) begin_expert_loads();
}

void TrainingRun::begin_expert_loads() {
  if (rank() == 0) cut_expert_loads(*config_.recording, steps_.done);
  ranks_.world->all_reduce(at::zeros({1}));
  if (part_.place().tp != 0) return;
  expert_loads_.emplace(*config_.recording / fmt::format("{}{:05}.csv", steps::kExpertLoadsFiles, rank()),
                        kExpertLoadsHeader, steps_.done);
}

void TrainingRun::begin_step_clocks() {
  client::StepClocksOptions clocks;
  clocks.planning = client::read_step_planning(*config_.step_clocks, launcher::training_schedule(config_));
  clocks.pp_rank = part_.place().pp;
  clocks.replica = part_.place().dp;
  clocks.speaks = rank() == 0;
  clocks.lengths = [this](std::int64_t step) -> client::StepLengths {
    if (step >= config_.steps) return {};
    return {.state = client::StepLengths::State::known, .amounts = data_.amounts(step)};
  };
  clocks.offer = [this](client::Client::IterationPlan plan) { return client_->plan_iteration(std::move(plan)); };
  clocks.name = [](std::int64_t step) { return fmt::format("step {}", step + 1); };
  begun_.expect(steps_.done);
  step_clocks_.emplace(begun_, std::move(clocks));
  try {
    step_clocks_->plan_first();
  } catch (const Error& error) {
    throw Error(fmt::format("energy.steps: {}", error.what()));
  }
}

bool TrainingRun::is_recorded(std::int64_t step) const {
  const auto& recorded = config_.recorded_steps;
  return !recorded || (step >= recorded->first && step < recorded->first + recorded->count);
}

void TrainingRun::add_envpipe() {
  envpipe_.emplace(
      config_, EnvPipeLoop::Parts{
                   .others = &changes_,
                   .client = client_,
                   .ranks = &ranks_,
                   .place = part_.place(),
                   .schedule = [this]() -> const schedule::Schedule& { return part_.schedule(); },
                   .reorder = [this](std::vector<int> early_forwards) { part_.reorder(std::move(early_forwards)); }});
}

/// The state that training continues from where there is a checkpoint.
void TrainingRun::load_state() {
  if (config_.freeze.controller) {
    freezing_loss_.emplace(config_, launcher::held_out_quarter_config(config_, config_.freeze.controller->held_out),
                           part_.place(), ranks_, part_.store().values().options());
  }
  if (config_.envpipe && !config_.server) add_envpipe();
  if (config_.evaluation) {
    evaluation_.emplace(config_, launcher::held_out_config(config_, config_.evaluation->held_out), part_.place(),
                        ranks_, part_.store().values().options(), config_.evaluation->batches);
  }
  if (config_.adapt.is_on() && !measures_energy_) {
    throw InputError(fmt::format("adapt.techniques: the techniques decide by energy, which cannot be measured: {}",
                                 client_->status().problem));
  }
  SavedState* const saved = envpipe_ ? static_cast<SavedState*>(&*envpipe_) : &changes_;
  if (config_.checkpoint) {
    checkpoints_.emplace(
        config_, TrainingState{&part_.optimizer(), &data_.sampler(), saved, loss_scale_ ? &*loss_scale_ : nullptr},
        ranks_);
    steps_.before = steps_.done = checkpoints_->resume();
  }
  changes_.begin(steps_.before);
  if (envpipe_) envpipe_->begin(steps_.before);
}

void TrainingRun::follow_profile_clock(std::int64_t step) {
  const std::optional<int> clock_mhz = profile_clocks_.change_before(step);
  if (!clock_mhz) return;
  const std::filesystem::path file = *config_.recording / fmt::format("clock-{}-rank-{}.json", *clock_mhz, rank());
  write_file_atomically(file, plan::write_plan(plan::uniform_plan(part_.schedule(), *clock_mhz, "profile")));
  client_->load_plan(file, part_.place().pp, /*nearest_below=*/false);
}

/// Of the mean over all ranks; tensor-parallel ranks have the same sum.
double TrainingRun::loss_share(const at::Tensor& sum, double loss_weight) const {
  if (part_.place().tp != 0) return 0;
  return sum.item<double>() / (config_.microbatches * config_.parallel.dp) * loss_weight;
}

ChosenPrecision TrainingRun::choose_precision(const std::function<bool()>& asked_to_end) {
  if (const std::string reason = fp8::missing(part_.device()); !reason.empty()) return {.reason = reason};
  (void)apply_changes(steps_.done);
  const auto train = [this](std::int64_t step) {
    const StepBatch batch = data_.batch(step, part_.place().dp, part_.device());
    const double loss_weight = data_.loss_weight(batch.counted_tokens);
    const at::Tensor loss = part_.compute_gradients(batch.microbatches, nullptr, loss_weight);
    part_.optimizer().step(learning_rate(config_.optimizer, step, config_.steps), changes_.slower_at(step));
    return loss_share(loss, loss_weight);
  };
  PrecisionProbe probe(*config_.fp8->probe, {.use_fp8 = [this](bool on) { part_.use_fp8(on); },
                                             .train = train,
                                             .asked_to_end = asked_to_end,
                                             .optimizer = &part_.optimizer(),
                                             .world = ranks_.world.get(),
                                             .client = measures_energy_ ? client_ : nullptr,
                                             .device = part_.device(),
                                             .first_step = steps_.done,
                                             .steps = config_.steps});
  return probe.run();
}

ChangeLoop::Applied TrainingRun::apply_changes(std::int64_t iteration) {
  ChangeLoop::Applied applied = changes_.apply(iteration);
  if (envpipe_) applied.agent_accepts = envpipe_->follow() && applied.agent_accepts;
  return applied;
}

IterationResult TrainingRun::iterate(std::int64_t number, const std::function<bool()>& asked_to_end, bool& end) {
  const bool records_lengths = lengths_ && is_recorded(number);
  const StepBatch batch =
      data_.batch(number, part_.place().dp, part_.device(),
                  records_lengths ? TrainingData::Lengths::of_all_replicas : TrainingData::Lengths::not_asked);
  marks_.set_microbatches(batch.microbatches);
  if (records_lengths) lengths_->add(client::lengths_rows(number, batch.amounts, config_.microbatches));
  client_->stagger(static_cast<std::uint64_t>(number));
  // A wait for the job's turn counts neither in the iteration's time nor in its energy.
  const double begin_s = monotonic_s();
  // What changes before the first unit and is measured after the last one belongs to the iteration: its costs count.
  client_->iteration_begin(
      {.number = static_cast<std::uint64_t>(number), .settling = profile_clocks_.settles_at(number)});
  begun_.begins(number);
  const ChangeLoop::Applied applied = apply_changes(number);
  activations_.prepare(number, part_.store().frozen_blocks(), model::partition_text(part_.partition()));
  IterationResult result;
  result.iteration = number;
  result.counted_tokens = batch.counted_tokens;
  const double loss_weight = data_.loss_weight(result.counted_tokens);
  const double loss_scale = loss_scale_ ? loss_scale_->scale() : 1;
  part_.expert_loads().begin_step(expert_loads_ && is_recorded(number));
  const at::Tensor loss = part_.compute_gradients(batch.microbatches, &marks_, loss_weight * loss_scale);
  result.frozen_blocks = part_.store().frozen_blocks();
  result.dropped_gradients = changes_.drops_at(number);
  result.learning_rate = learning_rate(config_.optimizer, number, config_.steps);
  result.gradient_norm = part_.optimizer().step(result.learning_rate, changes_.slower_at(number), loss_scale);
  if (loss_scale_) {
    result.loss_scale = loss_scale;
    loss_scale_->observe(std::isfinite(result.gradient_norm));
  }
  changes_.after_update(number, result.learning_rate);
  synchronize_computation(part_.device());
  client_->iteration_end();
  if (expert_loads_ && is_recorded(number)) {
    expert_loads_->add(expert_load_rows(number, part_.place().dp, part_.partition(), part_.expert_loads().passes()));
  }
  result.policy = policy_;
  if (step_clocks_) result.step_prediction = step_clocks_->prediction(number);
  IterationTotals totals = totals_of(applied, result);
  totals.loss = loss_share(loss, loss_weight);
  if (envpipe_) {
    envpipe_->observe(
        number, {.energy_j = totals.without_energy > 0 ? std::numeric_limits<double>::quiet_NaN() : totals.energy_j,
                 .units = marks_.take_times(),
                 .activation_bytes = activations_.newest()});
  }
  totals.end = asked_to_end() ? 1 : 0;
  totals.add_up(*ranks_.world);
  if (applied.moved) result.moved = moved_by_all(*applied.moved, *ranks_.world);
  result.time_s = monotonic_s() - begin_s;
  result.activation_bytes = activations_.finish(part_.schedule().stages);
  totals.describe(config_, result);
  end = totals.end > 0;
  if (rank() == 0) changes_.after_iteration(result);
  if (envpipe_) result.envpipe = envpipe_->decision();
  return result;
}

/// Of this rank.
IterationTotals TrainingRun::totals_of(const ChangeLoop::Applied& applied, IterationResult& result) {
  const auto measured = client_->measured_iteration(static_cast<std::uint64_t>(result.iteration));
  IterationTotals totals;
  if (measured && measured->energy_j) {
    totals.energy_j = *measured->energy_j;
    totals.energy_uncertainty_j = measured->energy_error_j.value_or(0);
    totals.without_uncertainty = measured->energy_error_j ? 0 : 1;
    totals.by_power = measured->is_counted ? 0 : 1;
    if (!measured->is_counted) result.energy_problem = measured->energy_problem;
  } else {
    totals.without_energy = totals.without_uncertainty = 1;
  }
  totals.simulated = simulated_ ? 1 : 0;
  totals.invalid = marks_.invalid() ? 1 : 0;
  totals.peak_flop_s = peak_flop_s_.value_or(0);
  totals.without_peak = peak_flop_s_ ? 0 : 1;
  if (config_.server) {
    const client::Status status = client_->status();
    totals.without_server = status.server_connected ? 0 : 1;
    result.server_problem = status.server_problem;
  }
  totals.without_recording = client_->recording_ended() ? 1 : 0;
  totals.not_switched = applied.agent_accepts ? 0 : 1;
  return totals;
}

void TrainingRun::run(const std::function<bool()>& asked_to_end,
                      const std::function<void(const IterationResult&)>& report) {
  bool end = false;
  std::optional<ChosenPrecision> precision;
  if (config_.fp8 && config_.fp8->probe && !all_steps_done()) precision = choose_precision(asked_to_end);
  while (!all_steps_done() && !end) {
    follow_profile_clock(steps_.done);
    IterationResult result = iterate(steps_.done, asked_to_end, end);
    result.precision = std::exchange(precision, std::nullopt);
    client_->set_invalid(result.invalid ? "the real computation took longer than the kernels of the simulated GPUs"
                                        : "");
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

void TrainingRun::require_finite(const IterationResult& result) const {
  if (std::isfinite(result.loss) && std::isfinite(result.gradient_norm)) return;
  const std::string what = fmt::format("step {}: the loss is {} and the norm of the gradients {}: ", result.iteration,
                                       result.loss, result.gradient_norm);
  if (result.iteration == 0 && config_.weights && (!loss_scale_ || !std::isfinite(result.loss))) {
    throw Diverged(what + blame_of_weights(*config_.weights, config_.model));
  }
  const std::string newest = checkpoints_ ? "; " + checkpoints_->newest_text() : "";
  if (loss_scale_) {
    if (!loss_scale_->exhausted()) return;
    throw Diverged(
        fmt::format("{}numbers are beyond fp16 even at the lowest loss scale, {}; lower the learning rate, or "
                    "set type: bf16{}",
                    what, launcher::kLowestLossScale, newest));
  }
  throw Diverged(fmt::format("{}training has diverged; lower the learning rate{}", what, newest));
}

void TrainingRun::finish() {
  if (step_clocks_) {
    const std::string others = step_clocks_->finish();
    if (!others.empty()) fmt::print(stderr, "steps without clocks of their own: {}\n", others);
  }
  ranks_.world->all_reduce(at::zeros({1}));
  synchronize(part_.device());
  if (ranks_.close) ranks_.close();
}

}  // namespace lowgear::trainer
