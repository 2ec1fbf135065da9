#include "planning/steps/foresight.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace lowgear::steps {

namespace {

constexpr auto kForesightNames = std::to_array<std::pair<Foresight, std::string_view>>(
    {{Foresight::own, "own"}, {Foresight::last, "last"}, {Foresight::mean, "mean"}});

/// Amounts of a mean microbatch of each replica on each stage.
class MeanAmounts {
 public:
  MeanAmounts(const Lengths& lengths, Foresight foresight) : lengths_(&lengths), foresight_(foresight) {}

  [[nodiscard]] bool empty() const { return steps_ == 0; }

  void add(const Lengths::Step& step) {
    const double newest = 1.0 / ++steps_;
    const double share = foresight_ == Foresight::last ? std::max(newest, kNewestShare) : newest;
    const Lengths::Step of_step = mean_of(step);
    if (mean_.amounts.empty()) mean_ = of_step;
    const auto move = [share](double& mean, double own) { mean += share * (own - mean); };
    for (std::size_t i = 0; i < of_step.amounts.size(); ++i) {
      move(mean_.amounts[i].tokens, of_step.amounts[i].tokens);
      move(mean_.amounts[i].squared_tokens, of_step.amounts[i].squared_tokens);
    }
    for (std::size_t i = 0; i < of_step.mean_tokens.size(); ++i) move(mean_.mean_tokens[i], of_step.mean_tokens[i]);
  }

  [[nodiscard]] Lengths::Step foreseen(int number) const {
    Lengths::Step step{number, {}};
    for (std::size_t place = 0; place < lengths_->places(); ++place) {
      step.amounts.push_back(mean_.amounts[cell_of(place)]);
      if (!mean_.mean_tokens.empty()) step.mean_tokens.push_back(mean_.mean_tokens[cell_of(place)]);
    }
    return step;
  }

 private:
  /// Of a place: replica and stage.
  [[nodiscard]] std::size_t cell_of(std::size_t place) const {
    const auto stages = static_cast<std::size_t>(lengths_->stages);
    return place / (stages * static_cast<std::size_t>(lengths_->microbatches)) * stages + place % stages;
  }

  [[nodiscard]] Lengths::Step mean_of(const Lengths::Step& step) const {
    const auto cells = static_cast<std::size_t>(lengths_->replicas) * static_cast<std::size_t>(lengths_->stages);
    Lengths::Step mean{step.number, std::vector<Amounts>(cells)};
    if (!step.mean_tokens.empty()) mean.mean_tokens.resize(cells);
    const double share = 1.0 / lengths_->microbatches;
    for (std::size_t place = 0; place < step.amounts.size(); ++place) {
      mean.amounts[cell_of(place)].tokens += share * step.amounts[place].tokens;
      mean.amounts[cell_of(place)].squared_tokens += share * step.amounts[place].squared_tokens;
      if (!step.mean_tokens.empty()) mean.mean_tokens[cell_of(place)] += share * step.mean_tokens[place];
    }
    return mean;
  }

  const Lengths* lengths_;
  Foresight foresight_;
  int steps_ = 0;
  Lengths::Step mean_;
};

}  // namespace

std::string_view name(Foresight foresight) { return kForesightNames.at(static_cast<std::size_t>(foresight)).second; }

std::optional<Foresight> foresight_from_name(std::string_view name) {
  for (const auto& [foresight, own] : kForesightNames) {
    if (own == name) return foresight;
  }
  return std::nullopt;
}

Lengths foreseen(const Lengths& lengths, Foresight foresight) {
  if (foresight == Foresight::own) return lengths;
  Lengths result = lengths;
  MeanAmounts before(lengths, foresight);
  for (std::size_t i = 0; i < lengths.steps.size(); ++i) {
    const Lengths::Step& step = lengths.steps[i];
    if (before.empty()) {
      result.steps[i].fault = "no step before it states its amounts";
    } else {
      result.steps[i] = before.foreseen(step.number);
    }
    if (step.fault.empty()) before.add(step);
  }
  return result;
}

std::string write_amounts_table(const Lengths& lengths) {
  std::string out = "step,replica,microbatch,stage,tokens,squared_tokens,mean_tokens\n";
  for (const Lengths::Step& step : lengths.steps) {
    if (!step.fault.empty()) continue;
    for (std::size_t place = 0; place < step.amounts.size(); ++place) {
      const auto stages = static_cast<std::size_t>(lengths.stages);
      const auto microbatches = static_cast<std::size_t>(lengths.microbatches);
      const auto& [tokens, squared_tokens] = step.amounts[place];
      fmt::format_to(std::back_inserter(out), "{},{},{},{},{},{},{}\n", step.number, place / stages / microbatches,
                     place / stages % microbatches, place % stages, tokens, squared_tokens,
                     step.mean_tokens.empty() ? tokens : step.mean_tokens[place]);
    }
  }
  return out;
}

}  // namespace lowgear::steps
