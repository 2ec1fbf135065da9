#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "planning/planner/verifier/pipeline.h"
#include "planning/planner/verifier/verify.h"
#include "planning/steps/step_folder.h"

namespace lowgear::steps {

/// Derives the times that steps are planned for from `amounts.csv`: from the step's own amounts, or those of earlier
/// steps alone. Shares nothing with the planner but the model of times.
class AmountsCheck {
 public:
  /// Throws InputError where the table cannot be read, lacks a microbatch of a step that it has, or has neither one
  /// stage nor the schedule's `stages`. `file` outlives it.
  AmountsCheck(const planner::PlanFolder::File& table, const StepsFile& file, int stages);

  /// What is wrong with a step's rows of the given deal; empty: nothing.
  [[nodiscard]] std::string fault(const StepRow& step, std::span<const ReplicaRow> rows,
                                  std::span<const planner::verifier::PipelineOp> ops) const;

 private:
  struct Cell {
    Amounts amounts;
    double mean_tokens = 0;
  };
  using Cells = std::vector<Cell>;  ///< by replica, microbatch, stage

  void read(const planner::PlanFolder::File& table, int stages);
  [[nodiscard]] Cells of_mean_microbatches(const Cells& own) const;
  [[nodiscard]] const Cells* planned_by(int step) const;
  [[nodiscard]] std::size_t place(int replica, int microbatch, int stage) const {
    return static_cast<std::size_t>((replica * file_->microbatches + microbatch) * stages_ + (stages_ > 1 ? stage : 0));
  }

  const StepsFile* file_;
  int stages_ = 1;
  std::map<int, Cells> own_;
  std::map<int, Cells> after_;  ///< what steps after this one are planned by
};

}  // namespace lowgear::steps
