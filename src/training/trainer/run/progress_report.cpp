#include "training/trainer/run/progress_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <utility>

#include "base/core/formats/json.h"
#include "planning/adapt/techniques/technique_record.h"
#include "training/launcher/envpipe_order.h"

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

const char* type_name(const ChosenPrecision& precision) { return precision.fp8 ? "fp8" : "bf16"; }

Json precision_json(const ChosenPrecision& precision) {
  Json json = {{"type", type_name(precision)},
               {"reason", precision.reason},
               {"probe_steps", precision.steps},
               {"probe_time_s", precision.time_s}};
  if (precision.energy_j) json["probe_energy_j"] = *precision.energy_j;
  return json;
}

Json envpipe_json(const EnvPipeDecision& decided) {
  Json json = {{"phase", name(decided.phase)}};
  if (decided.phase == EnvPipeDecision::Phase::reconfiguring) {
    json["path"] = decided.path;
    json["raised"] = decided.raised;
  }
  if (!decided.problem.empty()) json["problem"] = decided.problem;
  return json;
}

}  // namespace

ProgressReport::ProgressReport(const launcher::TrainConfig& config, Output output, std::int64_t first_step)
    : config_(&config),
      output_(output),
      terminal_(::isatty(STDOUT_FILENO) != 0),
      totals_(first_step, config.steps, config.tokens_per_step()) {
  if (output_ == Output::lines && first_step > 0) {
    fmt::print("continuing after step {}, from the newest checkpoint\n", first_step);
    std::fflush(stdout);
  }
  say(launcher::starting_note(config));
  if (config.metrics) metrics_.emplace(*config.metrics, first_step);
  if (!config.server) return;
  server_.emplace(config.server->address, config.parallel.world_size());
  totals_.set_steps_without_server(0);
}

void ProgressReport::observe_server(bool answers, const std::string& problem) {
  if (server_) say(server_->observe(answers ? 0 : 1, problem));
}

void ProgressReport::count_server(const StepResult& result) {
  if (!server_) return;
  say(server_->observe(result.ranks_without_server, result.server_problem));
  server_->count_step();
  totals_.set_steps_without_server(server_->steps_without());
}

/// Once: an error that is larger from then on.
void ProgressReport::note_energy(const StepResult& result) {
  if (result.ranks_by_power == 0 || std::exchange(said_by_power_, true)) return;
  say(
      fmt::format("step {}: the energy of {} of {} ranks is that of power readings, whose error is larger than a "
                  "counter's{}{}; ranks_by_power_readings of the metrics counts them from now on",
                  result.step + 1, result.ranks_by_power, config_->parallel.world_size(),
                  result.energy_problem.empty() ? "" : ": ", result.energy_problem));
}

void ProgressReport::add(const StepResult& result) {
  totals_.add(result);
  count_server(result);
  note_energy(result);
  if (metrics_) write_metrics(result);
  if (result.precision && output_ == Output::lines) {
    fmt::print("type: {}: {}; {} steps were tried and undone in {:.3g} s\n", type_name(*result.precision),
               result.precision->reason, result.precision->steps, result.precision->time_s);
  }
  for (const adapt::TechniqueDecision& decision : result.decisions) {
    if (output_ != Output::lines) break;
    fmt::print("{}after step {}: {}{}: {}: {}\n", terminal_ ? "\r\033[K" : "", decision.steps_done,
               config_->adapt.placebo ? "placebo: " : "", name(decision.technique), name(decision.change),
               decision.reason);
  }
  if (output_ != Output::lines) return;
  if (result.envpipe) print_envpipe(result);
  if (result.moved) {
    fmt::print("{}before step {}: partition {}: {:.3g} GB moved in {:.3g} s\n", terminal_ ? "\r\033[K" : "",
               result.step + 1, result.partition, result.moved->bytes / 1e9, result.moved->time_s);
  }
  print_line(result);
}

/// The plan as EnvPipe prints it, after each step in which it decides.
void ProgressReport::print_envpipe(const StepResult& result) const {
  const EnvPipeDecision& decided = *result.envpipe;
  const auto print = [&](const std::string& what) {
    fmt::print("{}after step {}: envpipe: {}\n", terminal_ ? "\r\033[K" : "", result.step + 1, what);
  };
  if (!decided.problem.empty()) {
    print(fmt::format("{}; the clocks stay", decided.problem));
  } else if (!decided.plan.empty()) {
    print(fmt::format("clocks of {} units rise, of {} on the critical path", decided.raised, decided.path));
    fmt::print("{}", decided.plan);
  }
  if (!decided.news.empty()) print(decided.news);
}

void ProgressReport::write_metrics(const StepResult& result) {
  Json json = {{"step", result.step},
               {"loss", result.loss},
               {"gradient_norm", result.gradient_norm},
               {"learning_rate", result.learning_rate},
               {"time_s", result.time_s},
               {"tokens", config_->tokens_per_step()}};
  if (result.step > 0 && result.step == summary().first_step) json["continued"] = true;
  if (result.held_out_loss) json["held_out_loss"] = *result.held_out_loss;
  if (!result.partition.empty()) json["partition"] = result.partition;
  if (result.moved) json["moved"] = {{"time_s", result.moved->time_s}, {"bytes", result.moved->bytes}};
  if (!result.operating_point.empty()) json["operating_point"] = result.operating_point;
  if (!result.policy.empty()) json["policy"] = result.policy;
  if (result.envpipe) json["envpipe"] = envpipe_json(*result.envpipe);
  if (result.precision) json["precision"] = precision_json(*result.precision);
  for (const adapt::TechniqueDecision& decision : result.decisions) {
    json["decisions"].push_back(adapt::decision_json(decision));
  }
  if (result.dropped_gradients) {
    json["dropped_weight_gradients"] = {{"share", result.dropped_gradients->share},
                                        {"operations", result.dropped_gradients->operations}};
  }
  if (!result.activation_bytes.empty()) json["activation_bytes"] = result.activation_bytes;
  if (result.frozen_blocks > 0) json["frozen_blocks"] = result.frozen_blocks;
  if (result.energy_j) {
    json["energy_j"] = *result.energy_j;
    if (result.energy_uncertainty_j) json["energy_uncertainty_j"] = *result.energy_uncertainty_j;
    json["energy"] = result.simulated ? "simulated" : "measured";
    if (result.ranks_by_power > 0) json["ranks_by_power_readings"] = result.ranks_by_power;
  }
  if (result.mfu) json["mfu"] = *result.mfu;
  if (result.invalid) json["invalid"] = true;
  if (server_) json["ranks_without_server"] = result.ranks_without_server;
  if (metrics_->add(json.dump())) return;
  totals_.set_lost_metrics(metrics_->lost_lines());
  if (metrics_->lost_lines() == 1) fmt::print(stderr, "{}; training continues\n", metrics_->lost_text());
}

void ProgressReport::print_line(const StepResult& result) {
  const bool last = result.step + 1 == config_->steps;
  const auto now = Clock::now();
  if (!last && !result.held_out_loss && printed_ && now - *printed_ < kLineEvery) return;
  printed_ = now;
  const double rate = static_cast<double>(config_->tokens_per_step()) / result.time_s;
  const double left_s = static_cast<double>(config_->steps - result.step - 1) * result.time_s;
  std::string line = fmt::format("step {}/{}  loss {:.4f}  {:.3f} s  {:.0f} tokens/s", result.step + 1, config_->steps,
                                 result.loss, result.time_s, rate);
  if (result.energy_j) {
    line += fmt::format("  {:.3g} J/token{}", *result.energy_j / static_cast<double>(config_->tokens_per_step()),
                        result.simulated ? " simulated" : "");
  }
  if (result.held_out_loss) line += fmt::format("  held-out loss {:.4f}", *result.held_out_loss);
  if (result.mfu) line += fmt::format("  {:.1f} % MFU", 100 * *result.mfu);
  line += fmt::format("  {} left", duration_text(left_s));
  // A terminal shows one line that changes.
  fmt::print("{}{}{}", terminal_ ? "\r\033[K" : "", line, terminal_ && !last ? "" : "\n");
  std::fflush(stdout);
}

void ProgressReport::finish() {
  fmt::print("{}\n", output_ == Output::summary_json ? summary().json() : summary().text());
  std::fflush(stdout);
  if (summary().lost_metrics > 0) fmt::print(stderr, "{}\n", metrics_->lost_text());
  if (server_) say(server_->summary());
}

}  // namespace lowgear::trainer
