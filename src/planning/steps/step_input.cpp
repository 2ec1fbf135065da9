#include "planning/steps/step_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/numbers/number.h"
#include "base/core/units.h"
#include "planning/steps/cells.h"
#include "planning/steps/foresight.h"

namespace lowgear::steps {

namespace {

constexpr double kUsPerS = 1e6;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// A row of a trace.
struct UnitRow {
  int step = 0, replica = 0, stage = 0, microbatch = 0, tensor_rank = 0;
  OpKind kind = OpKind::forward;
  double time_s = 0;
};

std::optional<OpKind> kind_of(std::string_view op) {
  if (op == "forward-compute") return OpKind::forward;
  if (op == "backward-compute") return OpKind::backward;
  return std::nullopt;
}

std::vector<UnitRow> unit_rows(std::string_view text, const std::string& source) {
  std::vector<UnitRow> rows;
  std::set<std::tuple<int, int, int, int, int, OpKind>> met;
  CsvBlocks blocks(text, source);
  while (const std::optional<CsvTable> table = blocks.next()) {
    const std::size_t step = table->column("step"), replica = table->column("dp_rank"), stage = table->column("stage"),
                      op = table->column("op"), microbatch = table->column("microbatch"),
                      duration = table->column("duration_us");
    const bool has_tensor_rank = table->has_column("tp_rank");
    for (std::size_t row = 0; row < table->rows(); ++row) {
      const std::optional<OpKind> kind = kind_of(table->text(row, op));
      if (!kind) continue;
      UnitRow unit{.step = whole_at(*table, row, step, std::numeric_limits<int>::max()),
                   .replica = whole_at(*table, row, replica, kMaxReplicas - 1),
                   .stage = whole_at(*table, row, stage, kMaxPlaces - 1),
                   .microbatch = whole_at(*table, row, microbatch, kMaxPlaces - 1),
                   .tensor_rank = has_tensor_rank ? whole_at(*table, row, table->column("tp_rank"), kMaxPlaces) : 0,
                   .kind = *kind,
                   .time_s = table->number(row, duration) / kUsPerS};
      if (!(unit.time_s > 0 && unit.time_s <= kMaxTimeS)) {
        throw_input_error(table->where(row, duration),
                          fmt::format("{} us are not in 0 to {:g}", table->number(row, duration), kMaxTimeS * kUsPerS));
      }
      const auto key = std::tuple(unit.step, unit.replica, unit.stage, unit.microbatch, unit.tensor_rank, unit.kind);
      if (!met.insert(key).second) {
        throw_input_error(table->where(row, op), "the same unit is there already", "leave one of them out");
      }
      rows.push_back(unit);
      refuse_many(source, rows.size());
    }
  }
  return rows;
}

std::string missing_unit(const Trace& trace, const Trace::Step& step) {
  for (int replica = 0; replica < trace.replicas; ++replica) {
    for (int stage = 0; stage < trace.stages; ++stage) {
      for (int microbatch = 0; microbatch < trace.microbatches; ++microbatch) {
        for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
          if (!std::isnan(step.time_s[trace.unit(replica, stage, kind, microbatch)])) continue;
          return fmt::format("replica {} has no {} of microbatch {} on stage {}", replica, name(kind), microbatch,
                             stage);
        }
      }
    }
  }
  return "";
}

/// A microbatch's amounts, and why they cannot be right.
struct StatedAmounts {
  Amounts amounts;
  std::string fault = {};
};

StatedAmounts of_documents(const CsvTable& table, std::size_t row, std::size_t column) {
  StatedAmounts stated;
  for_each_word(table.text(row, column), [&](std::string_view word) {
    if (word.empty()) return;
    const std::optional<long long> length = parse_integer(word);
    if (!length || *length < 1 || static_cast<double>(*length) > kMaxTokens) {
      throw_input_error(table.where(row, column), fmt::format("{} is no length of a document", quote(word)),
                        "write lengths in tokens with blanks between them");
    }
    const auto tokens = static_cast<double>(*length);
    stated.amounts.tokens += tokens;
    stated.amounts.squared_tokens += tokens * tokens;
  });
  if (stated.amounts.tokens == 0) stated.fault = "has no documents";
  if (table.has_column("tokens")) {
    const double tokens = table.number(row, table.column("tokens"));
    if (tokens != stated.amounts.tokens) {
      stated.fault = fmt::format("has {} tokens, and its lengths add up to {}", tokens, stated.amounts.tokens);
    }
  }
  return stated;
}

StatedAmounts of_sums(const CsvTable& table, std::size_t row) {
  const double tokens = table.number(row, table.column("tokens"));
  const double squared = table.number(row, table.column("squared_tokens"));
  StatedAmounts stated{{tokens, squared}};
  if (tokens > kMaxTokens || !stated.amounts.add_up()) {
    stated.fault = fmt::format("cannot have {} tokens with a sum of squared lengths of {}", tokens, squared);
  }
  return stated;
}

/// Steps on which a model is fitted: the first of those.
std::size_t fitted_count(std::size_t usable, int fit_steps) {
  return fit_steps > 0 ? std::min(usable, static_cast<std::size_t>(fit_steps)) : (usable + 1) / 2;
}

void require_shape(const schedule::PipelineDag& dag, const Trace& trace) {
  if (dag.stages != trace.stages || dag.microbatches != trace.microbatches) {
    throw InputError(fmt::format("the trace has {} stages and {} microbatches, and the schedule {} and {}",
                                 trace.stages, trace.microbatches, dag.stages, dag.microbatches));
  }
  for (const schedule::ComputeOp& op : dag.ops) {
    if (op.kind == OpKind::forward || op.kind == OpKind::backward) continue;
    throw InputError(fmt::format(
        "a trace times forwards and whole backwards, and the schedule has a {}: name another schedule", name(op.kind)));
  }
}

std::vector<std::vector<double>> by_op(const schedule::PipelineDag& dag, const Trace& trace, const Trace::Step& step) {
  std::vector<std::vector<double>> times;
  for (int replica = 0; replica < trace.replicas; ++replica) {
    std::vector<double>& of_replica = times.emplace_back();
    for (const schedule::ComputeOp& op : dag.ops) {
      of_replica.push_back(step.time_s[trace.unit(replica, op.stage, op.kind, op.microbatch)]);
    }
  }
  return times;
}

/// A step's units as recorded, without amounts, microbatch by microbatch: those of a microbatch follow each other.
std::vector<MicrobatchTimes> microbatches_of(const Trace& trace, const Trace::Step& step, bool fits) {
  std::vector<MicrobatchTimes> microbatches;
  for (int replica = 0; replica < trace.replicas; ++replica) {
    for (int microbatch = 0; microbatch < trace.microbatches; ++microbatch) {
      MicrobatchTimes& times = microbatches.emplace_back(MicrobatchTimes{replica, {}, fits});
      for (int stage = 0; stage < trace.stages; ++stage) {
        for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
          times.units.push_back({replica, stage, kind, {}, step.time_s[trace.unit(replica, stage, kind, microbatch)]});
        }
      }
    }
  }
  return microbatches;
}

/// Root mean square of relative errors of the units of steps that were recorded and not fitted.
double held_out_error(const std::vector<StepUnits>& steps) {
  double squares = 0, count = 0;
  for (const StepUnits& step : steps) {
    if (step.fitted || step.replayed_by_fit || !step.fault.empty()) continue;
    for (std::size_t replica = 0; replica < step.recorded_s.size(); ++replica) {
      for (std::size_t op = 0; op < step.recorded_s[replica].size(); ++op) {
        const double error = step.predicted_s[replica][op] / step.recorded_s[replica][op] - 1;
        squares += error * error;
        ++count;
      }
    }
  }
  return count > 0 ? std::sqrt(squares / count) : 0;
}

bool are_possible(const std::vector<std::vector<double>>& times_s) {
  return std::ranges::all_of(times_s, [](const std::vector<double>& of_replica) {
    return std::ranges::all_of(of_replica, [](double time_s) { return time_s > 0 && time_s <= kMaxTimeS; });
  });
}

/// Gives a step that has an impossible prediction a fault.
void check_predictions(StepUnits& step) {
  for (std::size_t replica = 0; replica < step.predicted_s.size(); ++replica) {
    for (const double time_s : step.predicted_s[replica]) {
      if (time_s > 0 && time_s <= kMaxTimeS) continue;
      step.fault = fmt::format("a unit of replica {} is predicted to take {} s", replica, time_s);
      return;
    }
  }
}

/// By replica, then microbatch: the most that any stage has.
std::vector<Amounts> largest_of_stages(const Lengths& lengths, const Lengths::Step& step) {
  std::vector<Amounts> largest(step.amounts.size() / static_cast<std::size_t>(lengths.stages));
  for (std::size_t i = 0; i < step.amounts.size(); ++i) {
    Amounts& most = largest[i / static_cast<std::size_t>(lengths.stages)];
    most.tokens = std::max(most.tokens, step.amounts[i].tokens);
    most.squared_tokens = std::max(most.squared_tokens, step.amounts[i].squared_tokens);
  }
  return largest;
}

/// Times of a step's units by the model, and the share of each in which a mean rank computes where that differs.
struct StepTimes {
  std::vector<std::vector<double>> time_s;
  std::vector<std::vector<double>> busy;
};

StepTimes times_of(const WorkModel& model, const schedule::PipelineDag& dag, const Lengths& lengths,
                   const Lengths::Step& step) {
  StepTimes times;
  for (int replica = 0; replica < lengths.replicas; ++replica) {
    std::vector<double>& time_s = times.time_s.emplace_back();
    for (const schedule::ComputeOp& op : dag.ops) {
      const Amounts& amounts = step.amounts[lengths.place(replica, op.microbatch, op.stage)];
      time_s.push_back(model.time_s(replica, op.stage, op.kind, amounts));
    }
    if (step.mean_tokens.empty()) continue;
    std::vector<double>& busy = times.busy.emplace_back();
    for (std::size_t i = 0; i < dag.ops.size(); ++i) {
      const schedule::ComputeOp& op = dag.ops[i];
      const std::size_t place = lengths.place(replica, op.microbatch, op.stage);
      const Amounts mean{step.mean_tokens[place], step.amounts[place].squared_tokens};
      busy.push_back(model.time_s(replica, op.stage, op.kind, mean) / time_s[i]);
    }
  }
  return times;
}

/// What a model of lengths is fitted on.
struct FitUnits {
  std::map<int, const Trace::Step*> recorded;  ///< by number of a step with lengths; null: not recorded as a whole
  std::set<int> steps;
  std::vector<RecordedUnit> units;
};

FitUnits fit_units(const Lengths& lengths, const Trace& recorded, int fit_steps) {
  FitUnits fit;
  for (const Lengths::Step& step : lengths.steps) fit.recorded[step.number] = nullptr;
  for (const Trace::Step& step : recorded.steps) {
    const auto found = fit.recorded.find(step.number);
    if (found != fit.recorded.end() && step.fault.empty()) found->second = &step;
  }
  std::vector<const Lengths::Step*> usable;
  for (const Lengths::Step& step : lengths.steps) {
    if (step.fault.empty() && fit.recorded.at(step.number) != nullptr) usable.push_back(&step);
  }
  if (usable.empty())
    throw InputError("no recorded step has lengths: nothing to fit times to; give both for some steps");
  usable.resize(fitted_count(usable.size(), fit_steps));
  for (const Lengths::Step* const step : usable) {
    fit.steps.insert(step->number);
    int place = 0;
    for (const MicrobatchTimes& microbatch : microbatches_of(recorded, *fit.recorded.at(step->number), true)) {
      for (RecordedUnit unit : microbatch.units) {
        unit.amounts = step->amounts[lengths.place(unit.replica, place % lengths.microbatches, unit.stage)];
        fit.units.push_back(unit);
      }
      ++place;
    }
  }
  return fit;
}

}  // namespace

bool is_trace(std::string_view text, const std::string& source) {
  const CsvTable header(text.substr(0, std::min(text.find('\n'), text.size())), source);
  return header.has_column("duration_us") || header.has_column("op");
}

Trace read_trace(std::string_view text, const std::string& source) {
  refuse_web_page(text, source);
  const std::vector<UnitRow> rows = unit_rows(text, source);
  if (rows.empty()) throw_input_error({source, 0, 0}, "has no row of forward-compute or backward-compute");
  Trace trace;
  std::map<int, std::size_t> place_of_step;
  for (const UnitRow& row : rows) {
    trace.replicas = std::max(trace.replicas, row.replica + 1);
    trace.stages = std::max(trace.stages, row.stage + 1);
    trace.microbatches = std::max(trace.microbatches, row.microbatch + 1);
    place_of_step[row.step] = 0;
  }
  const auto units = static_cast<std::size_t>(trace.replicas) * static_cast<std::size_t>(trace.stages) *
                     static_cast<std::size_t>(trace.microbatches) * 2;
  refuse_many(source, units);
  refuse_many(source, units * place_of_step.size());
  for (auto& [number, place] : place_of_step) {
    place = trace.steps.size();
    trace.steps.push_back({number, std::vector<double>(units, kUnknown)});
  }
  for (const UnitRow& row : rows) {
    double& time_s =
        trace.steps[place_of_step.at(row.step)].time_s[trace.unit(row.replica, row.stage, row.kind, row.microbatch)];
    time_s = std::isnan(time_s) ? row.time_s : std::max(time_s, row.time_s);
  }
  for (Trace::Step& step : trace.steps) step.fault = missing_unit(trace, step);
  return trace;
}

Lengths read_lengths(std::string_view text, const std::string& source) {
  refuse_web_page(text, source);
  const CsvTable table(text, source);
  const std::size_t step = table.column("step"), replica = table.column("replica"),
                    microbatch = table.column("microbatch");
  const std::optional<std::size_t> documents =
      table.has_column("lengths") ? std::optional(table.column("lengths")) : std::nullopt;
  std::map<int, std::map<std::pair<int, int>, StatedAmounts>> steps;
  Lengths lengths;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::pair place(whole_at(table, row, replica, kMaxReplicas - 1),
                          whole_at(table, row, microbatch, kMaxPlaces - 1));
    StatedAmounts stated = documents ? of_documents(table, row, *documents) : of_sums(table, row);
    if (!steps[whole_at(table, row, step, std::numeric_limits<int>::max())].emplace(place, std::move(stated)).second) {
      throw_input_error(table.where(row, microbatch), "the same microbatch is there already", "leave one of them out");
    }
    lengths.replicas = std::max(lengths.replicas, place.first + 1);
    lengths.microbatches = std::max(lengths.microbatches, place.second + 1);
  }
  if (steps.empty()) throw_input_error({source, 0, 0}, "has no rows");
  refuse_many(source, steps.size() * static_cast<std::size_t>(lengths.replicas) *
                          static_cast<std::size_t>(lengths.microbatches));
  for (const auto& [number, stated] : steps) {
    Lengths::Step& of_step = lengths.steps.emplace_back(Lengths::Step{number, {}});
    for (int r = 0; r < lengths.replicas; ++r) {
      for (int m = 0; m < lengths.microbatches; ++m) {
        const auto found = stated.find({r, m});
        const std::string fault = found == stated.end() ? "is missing" : found->second.fault;
        of_step.amounts.push_back(found == stated.end() ? Amounts{} : found->second.amounts);
        if (!fault.empty() && of_step.fault.empty()) {
          of_step.fault = fmt::format("microbatch {} of replica {} {}", m, r, fault);
        }
      }
    }
  }
  return lengths;
}

PredictedSteps predict_steps(const schedule::PipelineDag& dag, const Trace& trace, int fit_steps) {
  require_shape(dag, trace);
  std::vector<const Trace::Step*> usable;
  for (const Trace::Step& step : trace.steps) {
    if (step.fault.empty()) usable.push_back(&step);
  }
  if (usable.empty()) throw InputError(fmt::format("no step of the trace is whole: {}", trace.steps.front().fault));
  const std::size_t fitted = fitted_count(usable.size(), fit_steps);
  std::vector<MicrobatchTimes> microbatches;
  for (std::size_t i = 0; i < usable.size(); ++i) {
    for (MicrobatchTimes& of_step : microbatches_of(trace, *usable[i], i < fitted)) {
      microbatches.push_back(std::move(of_step));
    }
  }
  const InferredAmounts inferred = infer_amounts(microbatches);
  PredictedSteps result{.replicas = trace.replicas, .model = inferred.model, .inferred = true, .error = 0, .steps = {}};
  std::size_t place = 0;
  std::size_t next_usable = 0;
  for (const Trace::Step& step : trace.steps) {
    StepUnits& units = result.steps.emplace_back(StepUnits{step.number, false, step.fault, {}, {}});
    if (!step.fault.empty()) continue;
    units.fitted = next_usable++ < fitted;
    units.recorded_s = by_op(dag, trace, step);
    Trace::Step predicted{step.number, step.time_s};
    for (int i = 0; i < trace.replicas * trace.microbatches; ++i, ++place) {
      const MicrobatchTimes& microbatch = microbatches[place];
      for (std::size_t u = 0; u < microbatch.units.size(); ++u) {
        const RecordedUnit& unit = microbatch.units[u];
        predicted.time_s[trace.unit(unit.replica, unit.stage, unit.kind, i % trace.microbatches)] =
            inferred.model.time_s(unit.replica, unit.stage, unit.kind, inferred.amounts[place][u]);
      }
    }
    units.predicted_s = by_op(dag, trace, predicted);
    check_predictions(units);
  }
  result.error = held_out_error(result.steps);
  return result;
}

PredictedSteps predict_steps(const schedule::PipelineDag& dag, const Lengths& lengths, const Trace& recorded,
                             int fit_steps, Foresight foresight) {
  require_shape(dag, recorded);
  if (lengths.replicas != recorded.replicas || lengths.microbatches != recorded.microbatches) {
    throw InputError(fmt::format("lengths are of {} replicas with {} microbatches, and times of {} with {}",
                                 lengths.replicas, lengths.microbatches, recorded.replicas, recorded.microbatches));
  }
  const FitUnits fit = fit_units(lengths, recorded, fit_steps);
  PredictedSteps result{.replicas = lengths.replicas, .model = WorkModel::fit(fit.units), .steps = {}};
  const bool foresees = foresight != Foresight::own;
  const Lengths planned = foreseen(lengths, foresight);
  const bool are_groups = !lengths.steps.front().mean_tokens.empty();
  result.deals_are_given = foresees || are_groups;
  for (std::size_t i = 0; i < lengths.steps.size(); ++i) {
    const Lengths::Step& step = lengths.steps[i];
    const Lengths::Step& planned_by = planned.steps[i];
    StepUnits& of_step = result.steps.emplace_back(StepUnits{step.number, fit.steps.contains(step.number), "", {}, {}});
    of_step.fault = planned_by.fault.empty()
                        ? result.model.beyond_fit(largest_of_stages(lengths, planned_by), lengths.microbatches)
                        : planned_by.fault;
    if (const Trace::Step* const times = fit.recorded.at(step.number))
      of_step.recorded_s = by_op(dag, recorded, *times);
    if (step.fault.empty()) {
      StepTimes own = times_of(result.model, dag, lengths, step);
      if (of_step.recorded_s.empty() && foresees && are_possible(own.time_s)) {
        of_step.recorded_s = std::move(own.time_s);
        of_step.replayed_by_fit = true;
      }
      of_step.recorded_busy = std::move(own.busy);
    } else {
      if (foresees) of_step.not_replayed = step.fault;
      if (foresees || are_groups) of_step.recorded_s.clear();  // a mean rank computes for a time that loads alone tell
    }
    if (!of_step.fault.empty()) continue;
    StepTimes predicted = times_of(result.model, dag, lengths, planned_by);
    of_step.predicted_s = std::move(predicted.time_s);
    of_step.predicted_busy = std::move(predicted.busy);
    for (int replica = 0; replica < lengths.replicas && !result.deals_are_given; ++replica) {
      std::vector<double>& tokens = of_step.tokens.emplace_back();
      for (int m = 0; m < lengths.microbatches; ++m) {
        tokens.push_back(step.amounts[lengths.place(replica, m, 0)].tokens);
      }
    }
    check_predictions(of_step);
  }
  result.error = held_out_error(result.steps);
  return result;
}

}  // namespace lowgear::steps
