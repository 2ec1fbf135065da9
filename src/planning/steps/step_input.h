#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/op_kind.h"
#include "planning/schedule/dag.h"
#include "planning/steps/work_model.h"

namespace lowgear::steps {

/// Times of the forwards and backwards of a data-parallel pipeline, step by step, as recorded at full clocks.
struct Trace {
  struct Step {
    int number = 0;
    std::vector<double> time_s;  ///< by `unit`; NaN where none was recorded
    std::string fault = {};      ///< why it cannot be used; empty: it can
  };
  int replicas = 0;
  int stages = 0;
  int microbatches = 0;
  std::vector<Step> steps;  ///< by number

  [[nodiscard]] std::size_t unit(int replica, int stage, OpKind kind, int microbatch) const {
    const auto size = [](int count) { return static_cast<std::size_t>(count); };
    const std::size_t place = (size(replica) * size(stages) + size(stage)) * size(microbatches) + size(microbatch);
    return 2 * place + (kind == OpKind::backward ? 1 : 0);
  }
};

/// What the times of every microbatch depend on, step by step: lengths of documents, or loads of experts.
struct Lengths {
  struct Step {
    int number = 0;
    std::vector<Amounts> amounts;  ///< by replica, then microbatch, then stage (`stages`)
    std::string fault = {};        ///< why it cannot be used; empty: it can
    /// Of a replica whose experts are on several ranks, where `amounts` are those of the fullest: tokens of a mean one.
    std::vector<double> mean_tokens = {};
  };
  int replicas = 0;
  int microbatches = 0;
  int stages = 1;           ///< that have amounts of their own; 1: those of a microbatch are the same on all stages
  std::vector<Step> steps;  ///< by number
  std::vector<std::string> doubts = {};  ///< what was assumed of them

  /// Numbers of amounts in a step.
  [[nodiscard]] std::size_t places() const {
    return static_cast<std::size_t>(replicas) * static_cast<std::size_t>(microbatches) *
           static_cast<std::size_t>(stages);
  }
  [[nodiscard]] std::size_t place(int replica, int microbatch, int stage) const {
    return static_cast<std::size_t>((replica * microbatches + microbatch) * stages + (stages > 1 ? stage : 0));
  }
};

/// By what a step's amounts are planned: its own, which are known before it begins; an exponentially weighted mean of
/// the steps before; or the plain mean of all steps before, as a plan that is made once has it.
enum class Foresight : unsigned char { own, last, mean };

/// Whether a CSV has the columns of a trace rather than those of lengths.
[[nodiscard]] bool is_trace(std::string_view text, const std::string& source);

/// Reads the columns `step,dp_rank,stage,op,microbatch,duration_us` and where it is there `tp_rank`, in any order:
/// those of ByteDance's StragglerAnalysis. Rows whose `op` is neither `forward-compute` nor `backward-compute` are
/// skipped; of several tensor-parallel ranks the slowest counts. A step that lacks a unit has a fault. Throws
/// InputError with file, line and column on anything else that is wrong.
[[nodiscard]] Trace read_trace(std::string_view text, const std::string& source);

/// Reads the columns `step,replica,microbatch` and either `lengths` (those of the documents, in tokens, with blanks
/// between them) and where it is there `tokens` (their sum), or `tokens,squared_tokens`. A step that lacks a
/// microbatch, or whose lengths do not add up, has a fault. Throws InputError with file, line and column on anything
/// else that is wrong.
[[nodiscard]] Lengths read_lengths(std::string_view text, const std::string& source);

/// A step with the times of its units at full clocks, both by replica and op of the graph.
struct StepUnits {
  int number = 0;
  bool fitted = false;     ///< whether the model saw its times
  std::string fault = {};  ///< why it is not planned but runs at full clocks; empty: it is planned
  std::vector<std::vector<double>> predicted_s;
  std::vector<std::vector<double>> recorded_s;  ///< with its own amounts; empty: neither recorded nor modelled
  /// Of a replica whose experts are on several ranks: the share of an op's time in which its mean rank computes, by
  /// replica and op, by the amounts of either; empty: all.
  std::vector<std::vector<double>> predicted_busy = {};
  std::vector<std::vector<double>> recorded_busy = {};
  std::vector<std::vector<double>> tokens = {};  ///< by replica and microbatch; empty: not stated
  bool replayed_by_fit = false;  ///< `recorded_s` are what the model predicts from its own amounts: it was not recorded
  std::string not_replayed = {};  ///< why `recorded_s` is empty where earlier steps plan it: what its own amounts lack
};

/// Steps whose times were predicted.
struct PredictedSteps {
  int replicas = 0;
  WorkModel model;
  bool deals_are_given = false;  ///< amounts are not known when microbatches are dealt
  bool inferred = false;         ///< lengths were not stated: amounts of work were found from times (`infer_amounts`)
  double error = 0;              ///< root mean square of relative errors of units that were recorded and not fitted
  std::vector<StepUnits> steps;
};

/// Predicts the units of a trace that states no lengths, each from the other units of its microbatch; the model is
/// fitted on the first `fit_steps` usable ones (0: half of them). Throws InputError when none is usable, or the graph
/// has other stages, microbatches or kinds than the trace.
[[nodiscard]] PredictedSteps predict_steps(const schedule::PipelineDag& dag, const Trace& trace, int fit_steps);

/// Predicts the units of all steps from the amounts that they are planned by (`foreseen`); the model is
/// fitted on the own amounts of the first `fit_steps` usable steps that `recorded` has, too (0: half of them). Where
/// amounts are foreseen, steps that were not recorded are replayed with the times that the model predicts from their
/// own (`replayed_by_fit`), and steps whose own amounts have a fault are not (`not_replayed`). Throws as the other one,
/// and where no recorded step has lengths.
[[nodiscard]] PredictedSteps predict_steps(const schedule::PipelineDag& dag, const Lengths& lengths,
                                           const Trace& recorded, int fit_steps, Foresight foresight = Foresight::own);

}  // namespace lowgear::steps
