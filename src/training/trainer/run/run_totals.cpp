#include "training/trainer/run/run_totals.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/core/formats/json.h"

namespace lowgear::trainer {

std::string RunSummary::json() const {
  Json json = {{"first_step", first_step},    {"steps", steps},         {"counted_steps", counted_steps},
               {"first_loss", first_loss},    {"last_loss", last_loss}, {"step_time_s", step_time_s},
               {"tokens_per_s", tokens_per_s}};
  if (held_out_loss) json["held_out_loss"] = *held_out_loss;
  if (step_energy_j) json["step_energy_j"] = *step_energy_j;
  if (mfu) json["mfu"] = *mfu;
  json["energy"] = !step_energy_j ? "none" : simulated ? "simulated" : "measured";
  json["invalid"] = !invalid.empty();
  json["lost_metrics"] = lost_metrics;
  if (steps_without_server) json["steps_without_server"] = *steps_without_server;
  return json.dump();
}

std::string RunSummary::text() const {
  if (steps == 0) return fmt::format("nothing to do: {} steps were done before", first_step);
  std::string text = fmt::format("{} steps: loss {:.4f} -> {:.4f}, {:.4g} s per step, {:.4g} tokens/s", steps,
                                 first_loss, last_loss, step_time_s, tokens_per_s);
  if (held_out_loss) text += fmt::format(", held-out loss {:.4f}", *held_out_loss);
  if (mfu) text += fmt::format(", {:.1f} % MFU", 100 * *mfu);
  if (step_energy_j) {
    text += fmt::format(", {:.5g} J a step ({:.4g} J/token, {})", *step_energy_j,
                        *step_energy_j / (tokens_per_s * step_time_s), simulated ? "simulated" : "measured");
  }
  if (!invalid.empty()) {
    text += fmt::format("\ninvalid: {}. Make simulated_gpu.layer_forward_s longer, or the model smaller", invalid);
  }
  if (!validity_note.empty()) text += fmt::format("\nnote: {}", validity_note);
  return text;
}

RunTotals::RunTotals(std::int64_t first_step, std::int64_t steps, std::int64_t tokens_per_step)
    : left_out_(std::min(kWarmUpSteps, steps - first_step - 1)), tokens_per_step_(tokens_per_step) {
  summary_.first_step = first_step;
}

void RunTotals::add(const StepResult& result) {
  if (summary_.steps == 0) summary_.first_loss = result.loss;
  summary_.last_loss = result.loss;
  if (result.held_out_loss) summary_.held_out_loss = result.held_out_loss;
  summary_.simulated = summary_.simulated || result.simulated;
  validity_.add(
      {.time_s = result.time_s, .simulated = result.simulated, .invalid = result.invalid, .continued = false});
  if (++summary_.steps > left_out_) count(result);
}

RunSummary RunTotals::summary() const {
  RunSummary summary = summary_;
  summary.invalid = validity_.reason();
  summary.validity_note = validity_.note();
  return summary;
}

void RunTotals::count(const StepResult& result) {
  ++summary_.counted_steps;
  time_s_ += result.time_s;
  energy_j_ += result.energy_j.value_or(0);
  all_energy_ = all_energy_ && result.energy_j.has_value();
  time_at_peak_s_ += result.mfu.value_or(0) * result.time_s;
  all_mfu_ = all_mfu_ && result.mfu.has_value();
  const auto counted = static_cast<double>(summary_.counted_steps);
  summary_.step_time_s = time_s_ / counted;
  summary_.step_energy_j = all_energy_ ? std::optional(energy_j_ / counted) : std::nullopt;
  summary_.mfu = all_mfu_ ? std::optional(time_at_peak_s_ / time_s_) : std::nullopt;
  summary_.tokens_per_s = static_cast<double>(tokens_per_step_) / summary_.step_time_s;
}

}  // namespace lowgear::trainer
