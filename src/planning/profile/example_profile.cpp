#include "planning/profile/example_profile.h"

#include <algorithm>
#include <cmath>

namespace lowgear::profile {
namespace {

constexpr double kBytesPerNumber = 2;  // bf16

double tokens(const TransformerModel& model) { return static_cast<double>(model.microbatch) * model.sequence; }

/// Matrix products of one layer, forward, all GPUs: 24 B s h^2 + 4 B s^2 h (Narayanan et al. 2021, appendix).
double layer_flop(const TransformerModel& model) {
  const double h = model.hidden_size;
  return 24 * tokens(model) * h * h + 4 * tokens(model) * model.sequence * h;
}

/// Of the language model head: 2 B s h V (the same).
double head_flop(const TransformerModel& model) { return 2 * tokens(model) * model.hidden_size * model.vocabulary; }

/// Forward matrix products of a stage, one GPU.
double stage_flop(const TransformerModel& model, int stage) {
  const double layers = static_cast<double>(model.layers) / model.stages;
  const double head = stage == model.stages - 1 ? head_flop(model) : 0;
  return (layers * layer_flop(model) + head) / model.tensor_parallel;
}

/// Two all-reduces of the activations per layer and direction (Shoeybi et al. 2019), each of which passes 2 (t - 1) / t
/// of the data over a GPU's link (ring).
double stage_link_bytes(const TransformerModel& model) {
  const double t = model.tensor_parallel;
  const double all_reduce = 2 * (t - 1) / t * tokens(model) * model.hidden_size * kBytesPerNumber;
  return 2.0 * model.layers / model.stages * all_reduce;
}

/// Activations of a layer, s B h (10 + 24 / t + 5 a s / (h t)) bytes (Korthikanti et al. 2022, equation 2), written
/// once and read once.
double stage_memory_bytes(const TransformerModel& model) {
  const double t = model.tensor_parallel;
  const double attention = 5.0 * model.heads * model.sequence / (model.hidden_size * t);
  const double activations = tokens(model) * model.hidden_size * (10 + 24 / t + attention);
  return 2 * activations * model.layers / model.stages;
}

/// t = a + b / f for `passes` times the forward's matrix products and memory traffic.
double pass_time_s(const ExampleGpu& gpu, const TransformerModel& model, int stage, int clock_mhz, double passes) {
  const double clock_share = static_cast<double>(clock_mhz) / gpu.max_clock_mhz;
  const double products_s = passes * stage_flop(model, stage) / (gpu.peak_flop_s * gpu.matrix_efficiency * clock_share);
  const double memory_s = passes * stage_memory_bytes(model) / gpu.memory_byte_s;
  const double links_s = stage_link_bytes(model) / (gpu.link_byte_s * gpu.link_efficiency);
  return products_s + memory_s + links_s;
}

/// Compilers differ in the last digits.
bool same_measurement(const Measurement& a, const Measurement& b) {
  constexpr double kRounding = 1e-9;
  const auto same = [](double x, double y) { return std::abs(x - y) <= kRounding * y; };
  return a.clock_mhz == b.clock_mhz && a.setting == b.setting && same(a.time_s, b.time_s) &&
         same(a.energy_j, b.energy_j);
}

}  // namespace

double relative_voltage(const ExampleGpu& gpu, int clock_mhz) {
  const double along =
      static_cast<double>(clock_mhz - gpu.voltage_knee_mhz) / (gpu.max_clock_mhz - gpu.voltage_knee_mhz);
  return gpu.voltage_floor + (1 - gpu.voltage_floor) * std::clamp(along, 0.0, 1.0);
}

double power_w(const ExampleGpu& gpu, int clock_mhz) {
  const double clock_share = static_cast<double>(clock_mhz) / gpu.max_clock_mhz;
  const double voltage = relative_voltage(gpu, clock_mhz);
  return gpu.static_power_w + (gpu.power_at_max_clock_w - gpu.static_power_w) * clock_share * voltage * voltage;
}

double forward_time_s(const ExampleGpu& gpu, const TransformerModel& model, int stage, int clock_mhz) {
  return pass_time_s(gpu, model, stage, clock_mhz, 1);
}

double backward_time_s(const ExampleGpu& gpu, const TransformerModel& model, int stage, int clock_mhz) {
  return pass_time_s(gpu, model, stage, clock_mhz, 2);
}

StageProfile modelled_profile(const ExampleGpu& gpu, const TransformerModel& model) {
  StageProfile profile(model.stages);
  for (int stage = 0; stage < model.stages; ++stage) {
    for (int clock = gpu.max_clock_mhz; clock >= gpu.min_clock_mhz; clock -= gpu.clock_step_mhz) {
      const double forward_s = forward_time_s(gpu, model, stage, clock);
      const double backward_s = backward_time_s(gpu, model, stage, clock);
      profile.add(stage, OpKind::forward, {clock, forward_s, forward_s * power_w(gpu, clock)});
      profile.add(stage, OpKind::backward, {clock, backward_s, backward_s * power_w(gpu, clock)});
    }
  }
  return profile;
}

StageProfile example_profile() { return modelled_profile(ExampleGpu{}, TransformerModel{}); }

bool is_example_profile(const StageProfile& profile) {
  const StageProfile example = example_profile();
  if (profile.stages() != example.stages()) return false;
  for (int stage = 0; stage < example.stages(); ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      if (!std::ranges::equal(profile.measurements(stage, kind), example.measurements(stage, kind), same_measurement)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace lowgear::profile
