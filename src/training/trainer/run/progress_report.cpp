#include "training/trainer/run/progress_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "base/core/formats/json.h"
#include "planning/adapt/change_record.h"
#include "training/launcher/training_schedule.h"

namespace lowgear::trainer {

std::string ServerPresence::observe(int ranks_without, const std::string& problem) {
  const bool was_away = std::exchange(ranks_without_, ranks_without) > 0;
  most_without_ = std::max(most_without_, ranks_without);
  const std::string newest =
      problem.empty() ? fmt::format("{}: {} of {} ranks get no response", address_, ranks_without, ranks_) : problem;
  const bool away = ranks_without > 0;
  if (away && (problem_.empty() || !problem.empty())) problem_ = newest;
  if (away == was_away) return "";
  return away ? fmt::format("no server: {}; training continues without plans of the server until it responds", newest)
              : fmt::format("the server {} responds again", address_);
}

void ServerPresence::count_step() {
  ++steps_;
  if (ranks_without_ > 0) ++steps_without_;
}

std::string ServerPresence::summary() const {
  if (steps_without_ == 0) return "";
  return fmt::format("{} of {} steps were done with up to {} of {} ranks without the server: {}", steps_without_,
                     steps_, most_without_, ranks_, problem_);
}

std::string RunSummary::json() const {
  Json json = {{"first_step", first_step}, {"steps", steps},         {"counted_steps", counted_steps},
               {"first_loss", first_loss}, {"last_loss", last_loss}, {"step_time_s", nullptr},
               {"tokens_per_s", nullptr},  {"energy", nullptr}};
  if (held_out_loss) json["held_out_loss"] = *held_out_loss;
  if (step_energy_j) json["step_energy_j"] = *step_energy_j;
  if (mfu) json["mfu"] = *mfu;
  if (counted_steps > 0) {
    json["step_time_s"] = step_time_s;
    json["tokens_per_s"] = tokens_per_s;
    json["energy"] = !step_energy_j ? "none" : simulated ? "simulated" : "measured";
  }
  json["invalid"] = !invalid.empty();
  json["lost_metrics"] = lost_metrics;
  if (ranks_without_recording) json["ranks_without_recording"] = *ranks_without_recording;
  if (steps_without_server) json["steps_without_server"] = *steps_without_server;
  return json.dump();
}

std::string RunSummary::text() const {
  if (steps == 0) return fmt::format("nothing to do: {} steps were done before", first_step);
  std::string text = fmt::format("{} steps: loss {:.4f} -> {:.4f}", steps, first_loss, last_loss);
  text += counted_steps == 0 ? ", too few for times and energy: none of them counts yet"
                             : fmt::format(", {:.4g} s per step, {:.4g} tokens/s", step_time_s, tokens_per_s);
  if (held_out_loss) text += fmt::format(", held-out loss {:.4f}", *held_out_loss);
  if (mfu) text += fmt::format(", {:.1f} % MFU", 100 * *mfu);
  if (step_energy_j) {
    text += fmt::format(", {:.5g} J a step ({:.4g} J/token, {})", *step_energy_j,
                        *step_energy_j / (tokens_per_s * step_time_s), simulated ? "simulated" : "measured");
  }
  // Sums of the metrics have these steps, too.
  if (const std::int64_t settling = steps - counted_steps; counted_steps > 0 && settling > 0) {
    text += fmt::format("; times, rates and energies are means without the first {}",
                        settling == 1 ? "step" : fmt::format("{} steps", settling));
  }
  if (!invalid.empty()) {
    text += fmt::format(
        "\ninvalid: these times and energies do not count: {}. Make simulated_gpu.layer_forward_s longer, or the model "
        "smaller",
        invalid);
  }
  if (!validity_note.empty()) text += fmt::format("\nnote: {}", validity_note);
  return text;
}

RunTotals::RunTotals(std::int64_t first_step, std::int64_t steps, std::int64_t tokens_per_step)
    : left_out_(std::min(kWarmUpSteps, steps - first_step - 1)), tokens_per_step_(tokens_per_step) {
  summary_.first_step = first_step;
}

void RunTotals::add(const IterationResult& result) {
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

void RunTotals::count(const IterationResult& result) {
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

namespace {

void say(const std::string& line) {
  if (!line.empty()) fmt::print(stderr, "{}\n", line);
}

/// The first steps of a process take longer than those after them: fewer invalid ones tell nothing.
constexpr int kInvalidStepsToWarn = 3;

constexpr const char* kInvalid = "the real computation took longer than the kernels of the simulated GPUs";
constexpr const char* kValid = "the real computation does not take longer than the kernels of the simulated GPUs";

using Clock = std::chrono::steady_clock;

/// A run whose steps would take longer trains until it is stopped.
constexpr double kLongestRunS = 365 * 86'400.0;
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

std::optional<bool> ValidityNews::observe(bool invalid) {
  const int before = std::exchange(invalid_steps_, invalid ? invalid_steps_ + 1 : 0);
  if (invalid_steps_ == kInvalidStepsToWarn) return false;
  return !invalid && before >= kInvalidStepsToWarn ? std::optional(true) : std::nullopt;
}

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
  if (config.recording) totals_.set_ranks_without_recording(0);
  if (!config.server) return;
  server_.emplace(config.server->address, config.parallel.world_size());
  totals_.set_steps_without_server(0);
}

void ProgressReport::observe_server(bool answers, const std::string& problem) {
  if (server_) say(server_->observe(answers ? 0 : 1, problem));
}

void ProgressReport::count_server(const IterationResult& result) {
  if (!server_) return;
  say(server_->observe(result.ranks_without_server, result.server_problem));
  server_->count_step();
  totals_.set_steps_without_server(server_->steps_without());
}

/// Once: an error that is larger from then on.
void ProgressReport::note_energy(const IterationResult& result) {
  if (result.ranks_by_power == 0 || std::exchange(said_by_power_, true)) return;
  say(
      fmt::format("step {}: the energy of {} of {} ranks is that of power readings, whose error is larger than a "
                  "counter's{}{}; ranks_by_power_readings of the metrics counts them from now on",
                  result.iteration + 1, result.ranks_by_power, config_->parallel.world_size(),
                  result.energy_problem.empty() ? "" : ": ", result.energy_problem));
}

/// Figures that mean nothing, before the whole run is spent on them.
void ProgressReport::note_simulation(const IterationResult& result) {
  if (result.simulated && !config_->simulated_gpu && !std::exchange(said_idle_, true)) {
    say("the GPUs are simulated and the configuration has no simulated_gpu: nothing computes on them, and energies are "
        "those of idle GPUs; add simulated_gpu (docs/training.md)");
  }
  const std::optional<bool> counts = validity_.observe(result.invalid);
  if (!counts) return;
  say(*counts ? fmt::format("step {}: times and energies count again: {}", result.iteration + 1, kValid)
              : fmt::format("step {}: {}: times and energies do not count while that lasts. Make "
                            "simulated_gpu.layer_forward_s longer, or the model smaller",
                            result.iteration + 1, kInvalid));
}

void ProgressReport::add(const IterationResult& result) {
  totals_.add(result);
  if (config_->recording) totals_.set_ranks_without_recording(result.ranks_without_recording);
  count_server(result);
  note_energy(result);
  note_simulation(result);
  if (result.loss_scale && !std::isfinite(result.gradient_norm)) {
    say(fmt::format(
        "step {}: gradients are beyond fp16 at a loss scale of {}: the step is skipped, and the scale halved",
        result.iteration + 1, *result.loss_scale));
  }
  if (metrics_) write_metrics(result);
  if (result.precision && output_ == Output::lines) {
    fmt::print("type: {}: {}; {} steps were tried and undone in {:.3g} s\n", type_name(*result.precision),
               result.precision->reason, result.precision->steps, result.precision->time_s);
  }
  for (const adapt::ChangeDecision& decision : result.decisions) {
    if (output_ != Output::lines) break;
    fmt::print("{}after step {}: {}{}: {}: {}\n", terminal_ ? "\r\033[K" : "", decision.steps_done,
               config_->adapt.placebo ? "placebo: " : "", name(decision.kind), name(decision.action), decision.reason);
  }
  if (output_ != Output::lines) return;
  if (result.envpipe) print_envpipe(result);
  if (result.moved) {
    fmt::print("{}before step {}: partition {}: {:.3g} GB moved in {:.3g} s\n", terminal_ ? "\r\033[K" : "",
               result.iteration + 1, result.partition, result.moved->bytes / 1e9, result.moved->time_s);
  }
  print_line(result);
}

/// The plan as EnvPipe prints it, after each step in which it decides.
void ProgressReport::print_envpipe(const IterationResult& result) const {
  const EnvPipeDecision& decided = *result.envpipe;
  const auto print = [&](const std::string& what) {
    fmt::print("{}after step {}: envpipe: {}\n", terminal_ ? "\r\033[K" : "", result.iteration + 1, what);
  };
  if (!decided.problem.empty()) {
    print(fmt::format("{}; the clocks stay", decided.problem));
  } else if (!decided.plan.empty()) {
    print(fmt::format("clocks of {} units rise, of {} on the critical path", decided.raised, decided.path));
    fmt::print("{}", decided.plan);
  }
  if (!decided.news.empty()) print(decided.news);
}

void ProgressReport::write_metrics(const IterationResult& result) {
  Json json = {{"step", result.iteration},
               {"loss", result.loss},
               {"gradient_norm", result.gradient_norm},
               {"learning_rate", result.learning_rate},
               {"time_s", result.time_s},
               {"tokens", config_->tokens_per_step()}};
  if (result.iteration > 0 && result.iteration == summary().first_step) json["continued"] = true;
  set_if(json, "counted_tokens", result.counted_tokens);
  set_if(json, "loss_scale", result.loss_scale);
  if (result.held_out_loss) json["held_out_loss"] = *result.held_out_loss;
  if (!result.partition.empty()) json["partition"] = result.partition;
  if (result.moved) json["moved"] = {{"time_s", result.moved->time_s}, {"bytes", result.moved->bytes}};
  if (!result.operating_point.empty()) json["operating_point"] = result.operating_point;
  if (!result.policy.empty()) json["policy"] = result.policy;
  if (const auto& predicted = result.step_prediction) {
    json["step_plan"] = {{"predicted_s", predicted->time_s}};
    if (!predicted->reason.empty()) json["step_plan"]["full_clocks"] = predicted->reason;
  }
  if (result.envpipe) json["envpipe"] = envpipe_json(*result.envpipe);
  if (result.precision) json["precision"] = precision_json(*result.precision);
  for (const adapt::ChangeDecision& decision : result.decisions) {
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

void ProgressReport::print_line(const IterationResult& result) {
  const bool last = result.iteration + 1 == config_->steps;
  const auto now = Clock::now();
  if (!last && !result.held_out_loss && printed_ && now - *printed_ < kLineEvery) return;
  printed_ = now;
  const double rate = static_cast<double>(config_->tokens_per_step()) / result.time_s;
  const double left_s = static_cast<double>(config_->steps - result.iteration - 1) * result.time_s;
  const bool is_endless = left_s > kLongestRunS;
  std::string line =
      fmt::format("step {}{}  loss {:.4f}  {:.3f} s  {:.0f} tokens/s", result.iteration + 1,
                  is_endless ? "" : fmt::format("/{}", config_->steps), result.loss, result.time_s, rate);
  if (result.energy_j) {
    line += fmt::format("  {:.3g} J/token{}", *result.energy_j / static_cast<double>(config_->tokens_per_step()),
                        result.simulated ? " simulated" : "");
  }
  if (result.held_out_loss) line += fmt::format("  held-out loss {:.4f}", *result.held_out_loss);
  if (result.mfu) line += fmt::format("  {:.1f} % MFU", 100 * *result.mfu);
  if (!is_endless) line += fmt::format("  {} left", duration_text(left_s));
  // A terminal shows one line that changes.
  line_is_open_ = terminal_ && !last;
  fmt::print("{}{}{}", terminal_ ? "\r\033[K" : "", line, line_is_open_ ? "" : "\n");
  std::fflush(stdout);
}

void ProgressReport::finish() {
  if (line_is_open_) fmt::print("\n");  // the run was stopped
  fmt::print("{}\n", output_ == Output::summary_json ? summary().json() : summary().text());
  std::fflush(stdout);
  if (summary().lost_metrics > 0) fmt::print(stderr, "{}\n", metrics_->lost_text());
  if (const int ranks = summary().ranks_without_recording.value_or(0); ranks > 0) {
    say(fmt::format("the recordings of {} of {} ranks ended before the last step; each has said why", ranks,
                    config_->parallel.world_size()));
  }
  if (server_) say(server_->summary());
}

namespace {

/// `cut_off` for `cut off`.
std::string word(std::string_view name) {
  std::string word(name);
  std::ranges::replace(word, ' ', '_');
  return word;
}

std::string configuration_text(const adapt::Configuration& configuration, const launcher::TrainConfig& config) {
  std::string text;
  if (config.adapt.freezing) {
    text = fmt::format("{} of {} blocks frozen", configuration.frozen_blocks, config.model.layers);
  }
  if (config.adapt.slowdown) {
    const auto point = static_cast<std::size_t>(configuration.point);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", config.adapt.slowdown->names().at(point));
  }
  return config.adapt.placebo ? "placebo: " + text : text;
}

}  // namespace

protocol::TrainingDecision reported(const adapt::ChangeDecision& decision, const launcher::TrainConfig& config) {
  return {.number = 1,
          .age_s = 0,
          .from_iteration = decision.steps_done,
          .technique = word(name(decision.kind)),
          .change = word(name(decision.action)),
          .configuration = configuration_text(decision.configuration, config),
          .reason = decision.reason};
}

void DecisionReports::add(const IterationResult& result) {
  if (result.precision) in_fp8_ = result.precision->fp8;
  client_->set_work({.layers = static_cast<int>(config_->model.layers),
                     .frozen_layers = static_cast<int>(result.frozen_blocks),
                     .precision = in_fp8_         ? "fp8"
                                  : config_->fp16 ? "fp16"
                                  : config_->bf16 ? "bf16"
                                                  : "fp32"});
  for (const adapt::ChangeDecision& decision : result.decisions) client_->report(reported(decision, *config_));
  report_validity(result);
}

void DecisionReports::report_validity(const IterationResult& result) {
  const std::optional<bool> counts = validity_.observe(result.invalid);
  if (!counts) return;
  client_->report({.number = 1,
                   .age_s = 0,
                   .from_iteration = result.iteration,
                   .technique = "simulated_gpu",
                   .change = *counts ? "valid" : "invalid",
                   .configuration = *counts ? "times and energies count" : "times and energies mean nothing",
                   .reason = *counts ? kValid : kInvalid});
}

std::string unsent_decisions(const client::Status& status) {
  const std::uint64_t unsent = status.decisions_lost + (status.server_connected ? 0 : status.decisions_waiting);
  if (unsent == 0) return "";
  return fmt::format("{} {} not reached the server{}; the metrics and adapt.log have them", unsent,
                     unsent == 1 ? "decision has" : "decisions have",
                     status.server_problem.empty() ? "" : ": " + status.server_problem);
}

}  // namespace lowgear::trainer
