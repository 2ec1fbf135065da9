#include "report/experiment/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "report/experiment/run_validity.h"

namespace lowgear::experiment {
namespace {

constexpr auto kBasisNames = std::to_array<std::string_view>({"measured", "simulated", "replayed"});
/// Of one step: a year, and what no cluster draws in it.
constexpr double kMostTimeS = 3.2e7;
constexpr double kMostEnergyJ = 1e18;
constexpr double kMostTokens = 1e15;
/// Members and values of a line: far more than any has.
constexpr std::size_t kMostValues = 1000;

double number_in(const JsonView& view, double low, double high) {
  const double value = view.number();
  if (value < low || value > high) view.fail(fmt::format("{} is not in {} to {}", value, low, high));
  return value;
}

Basis basis_at(const JsonView& view) {
  const std::string text = view.text();
  const auto* const found = std::ranges::find(kBasisNames, text);
  if (found == kBasisNames.end()) {
    view.fail(fmt::format("unknown kind of energy {}", quote(text)), "there are measured, simulated, replayed");
  }
  return static_cast<Basis>(found - kBasisNames.begin());
}

void read_step(const JsonView& line, RunRecord& run, RunValidity& validity) {
  const long long number = line.at("step").integer();
  if (number != static_cast<long long>(run.steps.size())) {
    line.at("step").fail(fmt::format("step {} stands where step {} was expected", number, run.steps.size()),
                         "the file has to hold one run from its first step on, without lost lines");
  }
  RunStep step{.work = number_in(line.at("tokens"), 1, kMostTokens),
               .time_s = number_in(line.at("time_s"), 0, kMostTimeS),
               .energy_j = std::nullopt,
               .loss = std::nullopt};
  if (line.has("loss")) step.loss = line.at("loss").number();
  if (line.has("held_out_loss")) step.held_out_loss = line.at("held_out_loss").number();
  if (line.has("energy_j")) {
    step.energy_j = number_in(line.at("energy_j"), 0, kMostEnergyJ);
    const Basis basis = basis_at(line.at("energy"));
    if (run.basis && *run.basis != basis) {
      line.at("energy").fail(
          fmt::format("the run has {} and {} energies, which do not add up", name(*run.basis), name(basis)));
    }
    run.basis = basis;
  }
  run.policy = line.has("policy") ? line.at("policy").text() : "";
  const auto is_set = [&line](std::string_view member) { return line.has(member) && line.at(member).boolean(); };
  validity.add({.time_s = step.time_s,
                .simulated = run.basis == Basis::simulated,
                .invalid = is_set("invalid"),
                .continued = is_set("continued")});
  run.steps.push_back(step);
}

}  // namespace

std::string_view name(Basis basis) { return kBasisNames[static_cast<std::size_t>(basis)]; }

std::string_view name(WorkUnit unit) { return unit == WorkUnit::token ? "token" : "iteration"; }

bool RunRecord::has_energy() const {
  return std::ranges::all_of(steps, [](const RunStep& step) { return step.energy_j.has_value(); });
}

RunRecord read_metrics(std::string_view text, const std::string& source) {
  RunRecord run;
  run.source = source;
  RunValidity validity;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      run.warnings.push_back(fmt::format("{}:{}: the last line is cut off and left out", source, number));
      break;
    }
    const std::string line_source = fmt::format("{}:{}", source, number);
    const Json json = parse_json(text.substr(0, end), line_source, kMostValues);
    read_step(JsonView(json, line_source), run, validity);
    text.remove_prefix(end + 1);
  }
  if (run.steps.empty()) {
    throw_input_error({source, 0, 0}, "holds no step", "name a file that lowgear train --metrics has written");
  }
  run.invalid = validity.reason();
  if (const std::string note = validity.note(); !note.empty()) {
    run.warnings.push_back(fmt::format("{}: {}", source, note));
  }
  const auto without = std::ranges::count_if(run.steps, [](const RunStep& step) { return !step.energy_j; });
  if (run.basis && without > 0) {
    run.warnings.push_back(
        fmt::format("{}: {} of {} steps have no energy: no energy is reported", source, without, run.steps.size()));
  }
  return run;
}

RunRecord with_tokens(RunRecord run, double tokens_per_iteration) {
  if (run.unit == WorkUnit::token) return run;
  run.unit = WorkUnit::token;
  for (RunStep& step : run.steps) step.work = tokens_per_iteration;
  return run;
}

}  // namespace lowgear::experiment
