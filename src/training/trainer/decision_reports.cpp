#include "training/trainer/decision_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace lowgear::trainer {
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

protocol::TrainingDecision reported(const adapt::TechniqueDecision& decision, const launcher::TrainConfig& config) {
  return {.number = 1,
          .age_s = 0,
          .from_iteration = decision.steps_done,
          .technique = word(name(decision.technique)),
          .change = word(name(decision.change)),
          .configuration = configuration_text(decision.configuration, config),
          .reason = decision.reason};
}

void DecisionReports::add(const StepResult& result) {
  if (result.precision) in_fp8_ = result.precision->fp8;
  client_->set_work({.layers = static_cast<int>(config_->model.layers),
                     .frozen_layers = static_cast<int>(result.frozen_blocks),
                     .precision = in_fp8_         ? "fp8"
                                  : config_->bf16 ? "bf16"
                                                  : "fp32"});
  for (const adapt::TechniqueDecision& decision : result.decisions) client_->report(reported(decision, *config_));
}

std::string unsent_decisions(const client::Status& status) {
  const std::uint64_t unsent = status.decisions_lost + (status.server_connected ? 0 : status.decisions_waiting);
  if (unsent == 0) return "";
  return fmt::format("{} {} not reached the server{}; the metrics and adapt.log have them", unsent,
                     unsent == 1 ? "decision has" : "decisions have",
                     status.server_problem.empty() ? "" : ": " + status.server_problem);
}

}  // namespace lowgear::trainer
