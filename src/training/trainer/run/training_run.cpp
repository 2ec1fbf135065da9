#include "training/trainer/run/training_run.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "base/core/files/file.h"
#include "estimating/model/partition.h"
#include "hardware/gpu/peak_compute.h"
#include "planning/plan/plan_json.h"
#include "planning/plan/uniform_plan.h"
#include "planning/schedule/communication.h"
#include "training/launcher/training_schedule.h"
#include "training/trainer/checkpoint/sharding.h"
#include "training/trainer/checkpoint/weights.h"
#include "training/trainer/engine/learning_rate.h"
#include "training/trainer/fp8/matrix.h"
#include "training/trainer/run/step_totals.h"

namespace lowgear::trainer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<int> stages_of_rank(const schedule::Schedule& schedule, int position) {
  std::vector<int> stages;
  const std::vector<int> rank_of = rank_of_stage(schedule);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    if (rank_of[static_cast<std::size_t>(stage)] == position) stages.push_back(stage);
  }
  return stages;
}

void require_fp8(at::Device device) {
  const std::string reason = fp8::missing(device);
  if (!reason.empty()) throw InputError(fmt::format("type: fp8: {}; set type: bf16", reason));
}

std::optional<Fp8Blocks> fp8_blocks(const launcher::TrainConfig& config) {
  if (!config.fp8) return std::nullopt;
  return Fp8Blocks{
      .begin = config.fp8->keep_first, .end = config.model.layers - config.fp8->keep_last, .on = !config.fp8->probe};
}

}  // namespace

/// Tells client and simulated GPU about units.
class TrainingRun::Observer final : public UnitObserver {
 public:
  Observer(TrainingRun& run, std::map<int, Stage*> stages) : run_(&run), stages_(std::move(stages)) {}

  void unit_begins(const schedule::Action& unit) override {
    wait_for_gpu();
    run_->client_->unit_begin(unit.op, static_cast<std::uint16_t>(unit.stage),
                              static_cast<std::uint32_t>(unit.microbatch));
    if (!run_->simulated_gpu_) return;
    const Stage& stage = *stages_.at(unit.stage);
    const std::int64_t frozen = stage.range().layers.size() - stage.trained_blocks();
    run_->simulated_gpu_->begin(simulated_kernel(*run_->config_.simulated_gpu, stage.range(), frozen, unit.op));
  }
  void unit_ended(const schedule::Action& unit) override {
    wait_for_gpu();
    if (run_->simulated_gpu_) run_->simulated_gpu_->end();
    run_->client_->unit_end(unit.op, static_cast<std::uint16_t>(unit.stage),
                            static_cast<std::uint32_t>(unit.microbatch));
  }

 private:
  /// A GPU lags the CPU that gives it work. Where units decide about clocks or are recorded, both have to be at
  /// the same place.
  void wait_for_gpu() const {
    const launcher::TrainConfig& config = run_->config_;
    const bool decides = config.plan || config.profile || config.server || config.adapt.slowdown;
    if (decides || config.recording) synchronize_computation(run_->device_);
  }

  TrainingRun* run_;
  std::map<int, Stage*> stages_;
};

TrainingRun::TrainingRun(launcher::TrainConfig config, int rank, Backend backend, client::Client& client,
                         std::unique_ptr<SimulatedDevice> simulated_gpu)
    : config_(std::move(config)),
      rank_(rank),
      place_(launcher::RankLayout(config_.parallel).place_of(rank)),
      device_(backend.device),
      peak_flop_s_(peak_flop_s(backend.gpu_name, config_.bf16 ? gpu::MatrixType::bf16 : gpu::MatrixType::fp32)),
      ranks_(std::move(backend.ranks)),
      client_(&client),
      simulated_gpu_(std::move(simulated_gpu)),
      schedule_(training_schedule(config_)),
      data_(config_),
      measures_(!client.status().gpu_uuid.empty()),
      profile_clocks_(config_.profile) {
  const std::vector<model::LayerRange> partition =
      partition_layers(config_.model, schedule_.stages, model::parse_partition_rule(config_.partition));
  const at::ScalarType type = config_.bf16 ? at::kBFloat16 : at::kFloat;
  if (config_.fp8 && !config_.fp8->probe) require_fp8(device_);
  part_ = std::make_unique<ModelPart>(config_.model, partition, stages_of_rank(schedule_, place_.pp),
                                      ModelPartOptions{.type = type,
                                                       .device = device_,
                                                       .recompute = config_.recompute,
                                                       .buffer_multiple = config_.parallel.dp,
                                                       .fp8 = fp8_blocks(config_),
                                                       .frozen_blocks = config_.freeze.blocks_at(0)},
                                      ranks_);
  load_state();
  assemble();
  observer_ = std::make_unique<Observer>(*this, part_->stages());
  if (config_.plan) load_plan(*config_.plan);
}

TrainingRun::~TrainingRun() = default;

/// What executes a step, for what is frozen now.
void TrainingRun::assemble() {
  const at::TensorOptions activations = part_->store().values().options();
  engine_ = std::make_unique<PipelineEngine>(
      schedule_, place_.pp, part_->stages(), *ranks_.pipeline,
      EngineOptions{.activation_shape = {config_.microbatch_size, config_.sequence_length, config_.model.hidden},
                    .activation_options = activations,
                    .loss_gradient = 1.0 / (config_.microbatches * config_.parallel.dp)});
  constexpr std::int64_t kGradientBytes = sizeof(float);
  reducer_.emplace(part_->store(), *ranks_.data,
                   GradientReducerOptions{.bucket_elements = config_.gradient_bucket_bytes / kGradientBytes,
                                          .additions = config_.microbatches,
                                          .to_owners = config_.optimizer.zero1});
}

void TrainingRun::freeze(std::int64_t blocks) {
  if (blocks == part_->store().frozen_blocks()) return;
  optimizer_->freeze(blocks, [this] { part_->bind(); });
  schedule_ = launcher::training_schedule(config_, blocks);
  assemble();
}

/// Weights as training begins with them, and the state that it continues from where there is a checkpoint.
void TrainingRun::load_state() {
  if (config_.export_folder) prepare_export(*config_.export_folder, *ranks_.world);
  if (config_.weights) {
    load_weights(*config_.weights, config_.model, part_->store());
  } else {
    initialize(part_->store(), config_.model.layers, config_.seed);
  }
  optimizer_ = std::make_unique<AdamW>(part_->store(), config_.optimizer, ranks_);
  const auto measure_on = [&](std::optional<HeldOutLoss>& loss, launcher::TrainConfig text) {
    loss.emplace(config_, std::move(text), place_, part_->stages(), ranks_, part_->store().values().options());
  };
  if (config_.freeze.controller) {
    measure_on(held_out_, launcher::held_out_quarter_config(config_, config_.freeze.controller->held_out));
  }
  if (config_.evaluation) measure_on(evaluation_, launcher::held_out_config(config_, config_.evaluation->held_out));
  freezing_.emplace(config_, part_->store(), *optimizer_, ranks_, [this] { return held_out_->measure(); });
  SavedState* adapted = &*freezing_;
  if (config_.adapt.is_on()) {
    if (!measures_)
      throw InputError(
          fmt::format("adapt.techniques: no energy can be measured, which decides: {}", client_->status().problem));
    adapted = &adapting_.emplace(config_, *freezing_, *client_, ranks_, place_.pp);
  }
  if (config_.checkpoint) {
    checkpoints_.emplace(config_, TrainingState{&part_->store(), optimizer_.get(), &data_.sampler(), adapted}, ranks_);
    first_step_ = checkpoints_->resume();
    steps_done_ = first_step_;
  }
  freezing_->begin(first_step_);
  if (adapting_) adapting_->begin(first_step_, schedule_);
}

void TrainingRun::load_plan(const std::filesystem::path& plan) {
  client_->load_plan(plan, place_.pp, /*nearest_below=*/false);
}

void TrainingRun::follow_profile_clock(std::int64_t step) {
  const std::optional<int> clock_mhz = profile_clocks_.change_before(step);
  if (!clock_mhz) return;
  const std::filesystem::path file = *config_.recording / fmt::format("clock-{}-rank-{}.json", *clock_mhz, rank_);
  write_file_atomically(file, plan::write_plan(plan::uniform_plan(schedule_, *clock_mhz, "profile")));
  load_plan(file);
}

bool TrainingRun::prepare(std::int64_t step) {
  if (adapting_) adapting_->agree(step);
  freeze(freezing_->blocks_at(step));
  return !adapting_ || adapting_->follow(schedule_);
}

at::Tensor TrainingRun::accumulate_gradients(const std::vector<Microbatch>& microbatches, UnitObserver* observer) {
  reducer_->begin();
  at::Tensor loss = engine_->run(microbatches, observer);
  part_->reduce_tied_gradients();
  reducer_->finish();
  return loss;
}

/// Of the mean over all ranks; tensor-parallel ranks have the same sum.
double TrainingRun::loss_share(const at::Tensor& sum) const {
  return place_.tp == 0 ? sum.item<double>() / (config_.microbatches * config_.parallel.dp) : 0;
}

ChosenPrecision TrainingRun::choose_precision(const std::function<bool()>& asked_to_end) {
  if (const std::string reason = fp8::missing(device_); !reason.empty()) return {.reason = reason};
  freeze(freezing_->blocks_at(steps_done_));
  const auto train = [this](std::int64_t step) {
    const at::Tensor loss = accumulate_gradients(data_.microbatches(step, place_.dp, device_), nullptr);
    optimizer_->step(learning_rate(config_.optimizer, step, config_.steps), freezing_->slower_at(step));
    return loss_share(loss);
  };
  PrecisionProbe probe(*config_.fp8->probe, {.use_fp8 = [this](bool on) { part_->use_fp8(on); },
                                             .train = train,
                                             .asked_to_end = asked_to_end,
                                             .optimizer = optimizer_.get(),
                                             .world = ranks_.world.get(),
                                             .client = measures_ ? client_ : nullptr,
                                             .device = device_,
                                             .first_step = steps_done_,
                                             .steps = config_.steps});
  return probe.run();
}

StepResult TrainingRun::step(std::int64_t number, const std::function<bool()>& asked_to_end, bool& end) {
  const std::vector<Microbatch> microbatches = data_.microbatches(number, place_.dp, device_);
  const auto start = Clock::now();
  const auto window = measures_ ? std::optional(client_->window_begin("step")) : std::nullopt;
  const bool switched = prepare(number);
  client_->iteration_begin(
      {.number = static_cast<std::uint64_t>(number), .settling = profile_clocks_.settles_at(number)});
  const at::Tensor loss = accumulate_gradients(microbatches, observer_.get());
  StepResult result;
  result.step = number;
  result.frozen_blocks = part_->store().frozen_blocks();
  result.learning_rate = learning_rate(config_.optimizer, number, config_.steps);
  result.gradient_norm = optimizer_->step(result.learning_rate, freezing_->slower_at(number));
  client_->iteration_end();
  freezing_->after_step(number, result.learning_rate);
  // The loss is waited for below, too: then the energy is that of all work of the step.
  if (window) synchronize_computation(device_);
  const measure::WindowMeasurement measured = window ? client_->window_end(*window) : measure::WindowMeasurement{};

  StepTotals totals;
  totals.loss = loss_share(loss);
  totals.energy_j = measured.gpu_energy_j().value_or(0);
  totals.energy_uncertainty_j = measured.gpu_energy_uncertainty_j().value_or(0);
  totals.without_energy = measured.gpu_energy_j() && measured.gpu_energy_covers_all() ? 0 : 1;
  totals.without_uncertainty = measured.gpu_energy_uncertainty_j() ? 0 : 1;
  totals.simulated = measured.simulated ? 1 : 0;
  totals.invalid = simulated_gpu_ && simulated_gpu_->times().invalid() ? 1 : 0;
  totals.peak_flop_s = peak_flop_s_.value_or(0);
  totals.without_peak = peak_flop_s_ ? 0 : 1;
  if (config_.server) {
    const client::Status status = client_->status();
    totals.without_server = status.server_connected ? 0 : 1;
    result.server_problem = status.server_problem;
  }
  totals.not_switched = switched ? 0 : 1;
  totals.end = asked_to_end() ? 1 : 0;
  totals.add_up(*ranks_.world);
  result.time_s = seconds_since(start);
  totals.describe(config_, result);
  end = totals.end > 0;
  if (adapting_ && rank_ == 0) {
    adapting_->after_step(result);
    result.operating_point = adapting_->point_name();
    result.decisions = adapting_->take_decisions();
  }
  return result;
}

void TrainingRun::run(const std::function<bool()>& asked_to_end, const std::function<void(const StepResult&)>& report) {
  bool end = false;
  std::optional<ChosenPrecision> precision;
  if (config_.fp8 && config_.fp8->probe && !all_steps_done()) precision = choose_precision(asked_to_end);
  while (!all_steps_done() && !end) {
    follow_profile_clock(steps_done_);
    StepResult result = step(steps_done_, asked_to_end, end);
    result.precision = std::exchange(precision, std::nullopt);
    ++steps_done_;
    if (evaluation_ && config_.evaluation->is_due(steps_done_, config_.steps)) {
      result.held_out_loss = evaluation_->measure();
    }
    if (rank_ == 0) report(result);
    require_finite(result);
    if (checkpoints_) checkpoints_->after_step(steps_done_, end || all_steps_done());
  }
  if (config_.export_folder && all_steps_done()) {
    export_weights(*config_.export_folder, config_.model, part_->store(), {place_.pp, config_.parallel.pp}, ranks_);
  }
}

void TrainingRun::require_finite(const StepResult& result) const {
  if (std::isfinite(result.loss) && std::isfinite(result.gradient_norm)) return;
  throw Diverged(fmt::format(
      "step {}: the loss is {} and the norm of the gradients {}: training has diverged; lower the learning rate{}",
      result.step, result.loss, result.gradient_norm, checkpoints_ ? "; " + checkpoints_->newest_text() : ""));
}

void TrainingRun::finish() {
  ranks_.world->all_reduce(at::zeros({1}));
  synchronize(device_);
  if (ranks_.close) ranks_.close();
}

}  // namespace lowgear::trainer
