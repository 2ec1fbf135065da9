#include "training/trainer/probe/precision_probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "training/trainer/engine/backend.h"

namespace lowgear::trainer {
namespace {

/// Steps of the blocks of the first pair: memory is allocated, and the length of the others follows from their time.
constexpr std::int64_t kWarmUpSteps = 2;
constexpr double kMostSteps = 10'000;

std::array<at::Tensor*, 3> tensors_of(OptimizerState& state) { return {&state.master, &state.mean, &state.variance}; }

}  // namespace

PrecisionProbe::PrecisionProbe(const launcher::PrecisionProbeConfig& config, ProbedJob job)
    : config_(config), job_(std::move(job)), optimizer_steps_(job_.optimizer->steps()) {
  for (const at::Tensor* tensor : tensors_of(job_.optimizer->state())) {
    state_.push_back(tensor->detach().to(at::kCPU, tensor->scalar_type(), /*non_blocking=*/false, /*copy=*/true));
  }
}

void PrecisionProbe::restore() {
  const torch::autograd::AutoGradMode no_gradient(false);
  const auto tensors = tensors_of(job_.optimizer->state());
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i]->copy_(state_[i]);
  job_.optimizer->set_steps(optimizer_steps_);
  job_.optimizer->publish();
}

PrecisionProbe::Block PrecisionProbe::block(bool fp8, std::int64_t begin, std::int64_t steps) {
  restore();
  job_.use_fp8(fp8);
  synchronize(job_.device);
  const double start_s = job_.now_s();
  const auto window = job_.client != nullptr ? std::optional(job_.client->window_begin("probe")) : std::nullopt;
  double loss = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    // The same steps again where the job has no more.
    const std::int64_t left = job_.steps - job_.first_step;
    loss += job_.train(job_.first_step + (begin + i) % left) / static_cast<double>(steps);
  }
  synchronize(job_.device);
  const double time_s = job_.now_s() - start_s;
  const auto measured = window ? job_.client->window_end(*window) : measure::WindowMeasurement{};
  const bool has_energy = measured.gpu_energy_j() && measured.gpu_energy_covers_all();

  const at::Tensor sums = at::empty({5}, at::kDouble);
  auto* values = sums.data_ptr<double>();
  values[0] = loss;
  values[1] = has_energy ? *measured.gpu_energy_j() : 0;
  values[2] = has_energy ? 0 : 1;
  values[3] = job_.world->rank() == 0 ? time_s : 0;
  values[4] = job_.asked_to_end() ? 1 : 0;
  job_.world->all_reduce(sums);
  trained_steps_ += steps;
  const double energy_j = values[2] == 0 ? values[1] : std::numeric_limits<double>::quiet_NaN();
  energy_j_ += energy_j;
  return {.seen = {.time_s = values[3], .energy_j = energy_j, .loss = values[0]}, .end = values[4] > 0};
}

std::optional<adapt::PrecisionPair> PrecisionProbe::pair(bool fp8_first, std::int64_t begin, std::int64_t steps) {
  adapt::PrecisionPair pair;
  for (const bool fp8 : {fp8_first, !fp8_first}) {
    const Block done = block(fp8, begin, steps);
    if (done.end) return std::nullopt;
    (fp8 ? pair.fp8 : pair.bf16) = done.seen;
  }
  return pair;
}

adapt::PrecisionChoice PrecisionProbe::choose() {
  const adapt::PrecisionChoice cut_off{false, "the probe was cut off, as the training was asked to end"};
  const auto warm_up = pair(false, 0, kWarmUpSteps);
  if (!warm_up) return cut_off;
  const double step_s = std::max(warm_up->bf16.time_s, warm_up->fp8.time_s) / kWarmUpSteps;
  const auto steps = static_cast<std::int64_t>(std::clamp(std::ceil(config_.block_s / step_s), 1.0, kMostSteps));
  std::vector<adapt::PrecisionPair> pairs;
  for (int i = 0; i < config_.pairs; ++i) {
    const auto done = pair(i % 2 == 1, i * steps, steps);
    if (!done) return cut_off;
    pairs.push_back(*done);
  }
  return adapt::choose_precision(pairs, config_.loss_margin_pct);
}

ChosenPrecision PrecisionProbe::run() {
  const double start_s = job_.now_s();
  const adapt::PrecisionChoice choice = choose();
  restore();
  job_.use_fp8(choice.fp8);
  synchronize(job_.device);
  return {.fp8 = choice.fp8,
          .reason = choice.reason,
          .steps = trained_steps_,
          .time_s = job_.now_s() - start_s,
          .energy_j = std::isfinite(energy_j_) ? std::optional(energy_j_) : std::nullopt};
}

}  // namespace lowgear::trainer
