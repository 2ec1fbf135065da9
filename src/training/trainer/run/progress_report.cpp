#include "training/trainer/run/progress_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/core/formats/json.h"

namespace lowgear::trainer {
namespace {

void say(const std::string& line) {
  if (!line.empty()) fmt::print(stderr, "{}\n", line);
}

using Clock = std::chrono::steady_clock;

/// Between lines, so that quick steps do not flood the log.
constexpr std::chrono::seconds kLineEvery{1};

std::string duration_text(double time_s) {
  const std::int64_t whole = std::llround(time_s);
  return whole < 3600 ? fmt::format("{}:{:02}", whole / 60, whole % 60)
                      : fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

std::string RunSummary::json() const {
  Json json = {{"first_step", first_step},    {"steps", steps},         {"counted_steps", counted_steps},
               {"first_loss", first_loss},    {"last_loss", last_loss}, {"step_time_s", step_time_s},
               {"tokens_per_s", tokens_per_s}};
  if (step_energy_j) json["step_energy_j"] = *step_energy_j;
  if (mfu) json["mfu"] = *mfu;
  json["energy"] = !step_energy_j ? "none" : simulated ? "simulated" : "measured";
  json["invalid"] = invalid;
  json["lost_metrics"] = lost_metrics;
  if (steps_without_server) json["steps_without_server"] = *steps_without_server;
  return json.dump();
}

std::string RunSummary::text() const {
  if (steps == 0) return fmt::format("nothing to do: {} steps were done before", first_step);
  std::string text = fmt::format("{} steps: loss {:.4f} -> {:.4f}, {:.4g} s per step, {:.4g} tokens/s", steps,
                                 first_loss, last_loss, step_time_s, tokens_per_s);
  if (mfu) text += fmt::format(", {:.1f} % MFU", 100 * *mfu);
  if (step_energy_j) {
    text += fmt::format(", {:.5g} J a step ({:.4g} J/token, {})", *step_energy_j,
                        *step_energy_j / (tokens_per_s * step_time_s), simulated ? "simulated" : "measured");
  }
  if (invalid) {
    text +=
        "\ninvalid: the real computation took longer than the simulated kernels; times and energies are meaningless. "
        "Make "
        "simulated_gpu.layer_forward_s longer, or the model smaller";
  }
  return text;
}

ProgressReport::ProgressReport(const launcher::TrainConfig& config, Output output, std::int64_t first_step)
    : config_(&config), output_(output), first_step_(first_step), terminal_(::isatty(STDOUT_FILENO) != 0) {
  summary_.first_step = first_step;
  if (output_ == Output::lines && first_step_ > 0) {
    fmt::print("continuing after step {}, from the newest checkpoint\n", first_step_);
    std::fflush(stdout);
  }
  if (config.metrics) metrics_.emplace(*config.metrics, first_step_);
  if (!config.server) return;
  server_.emplace(config.server->address, config.parallel.world_size());
  summary_.steps_without_server = 0;
}

void ProgressReport::observe_server(bool answers, const std::string& problem) {
  if (server_) say(server_->observe(answers ? 0 : 1, problem));
}

void ProgressReport::count_server(const StepResult& result) {
  if (!server_) return;
  say(server_->observe(result.ranks_without_server, result.server_problem));
  server_->count_step();
  summary_.steps_without_server = server_->steps_without();
}

void ProgressReport::add(const StepResult& result) {
  if (summary_.steps == 0) summary_.first_loss = result.loss;
  summary_.last_loss = result.loss;
  summary_.simulated = result.simulated;
  summary_.invalid = summary_.invalid || result.invalid;
  if (++summary_.steps > std::min(kWarmUpSteps, config_->steps - first_step_ - 1)) {
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
    summary_.tokens_per_s = static_cast<double>(config_->tokens_per_step()) / summary_.step_time_s;
  }
  count_server(result);
  if (metrics_) write_metrics(result);
  if (output_ == Output::lines) print_line(result);
}

void ProgressReport::write_metrics(const StepResult& result) {
  Json json = {{"step", result.step},
               {"loss", result.loss},
               {"gradient_norm", result.gradient_norm},
               {"learning_rate", result.learning_rate},
               {"time_s", result.time_s},
               {"tokens", config_->tokens_per_step()}};
  if (result.energy_j) {
    json["energy_j"] = *result.energy_j;
    if (result.energy_uncertainty_j) json["energy_uncertainty_j"] = *result.energy_uncertainty_j;
    json["energy"] = result.simulated ? "simulated" : "measured";
  }
  if (result.mfu) json["mfu"] = *result.mfu;
  if (result.invalid) json["invalid"] = true;
  if (server_) json["ranks_without_server"] = result.ranks_without_server;
  if (metrics_->add(json.dump())) return;
  summary_.lost_metrics = metrics_->lost_lines();
  if (summary_.lost_metrics == 1) fmt::print(stderr, "{}; training continues\n", metrics_->lost_text());
}

void ProgressReport::print_line(const StepResult& result) {
  const bool last = result.step + 1 == config_->steps;
  const auto now = Clock::now();
  if (!last && printed_ && now - *printed_ < kLineEvery) return;
  printed_ = now;
  const double rate = static_cast<double>(config_->tokens_per_step()) / result.time_s;
  const double left_s = static_cast<double>(config_->steps - result.step - 1) * result.time_s;
  std::string line = fmt::format("step {}/{}  loss {:.4f}  {:.3f} s  {:.0f} tokens/s", result.step + 1, config_->steps,
                                 result.loss, result.time_s, rate);
  if (result.energy_j) {
    line += fmt::format("  {:.3g} J/token{}", *result.energy_j / static_cast<double>(config_->tokens_per_step()),
                        result.simulated ? " simulated" : "");
  }
  if (result.mfu) line += fmt::format("  {:.1f} % MFU", 100 * *result.mfu);
  line += fmt::format("  {} left", duration_text(left_s));
  // A terminal shows one line that changes.
  fmt::print("{}{}{}", terminal_ ? "\r\033[K" : "", line, terminal_ && !last ? "" : "\n");
  std::fflush(stdout);
}

void ProgressReport::finish() {
  fmt::print("{}\n", output_ == Output::summary_json ? summary_.json() : summary_.text());
  std::fflush(stdout);
  if (summary_.lost_metrics > 0) fmt::print(stderr, "{}\n", metrics_->lost_text());
  if (server_) say(server_->summary());
}

}  // namespace lowgear::trainer
