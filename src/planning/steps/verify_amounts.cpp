#include "planning/steps/verify_amounts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "planning/profile/stage_profile.h"
#include "planning/steps/cells.h"

namespace lowgear::steps {

namespace {

/// As docs/formats.md states it.
constexpr double kShareOfNewest = 1.0 / 4;

bool is_off(double stated, double own) {
  constexpr double kSumError = 1e-9;
  return !(std::abs(stated - own) <= kSumError * std::abs(own));
}

double amount_at(const CsvTable& table, std::size_t row, std::size_t column, double most) {
  const double value = table.number(row, column);
  if (!(value >= 0 && value <= most)) {
    throw_input_error(table.where(row, column), fmt::format("{} is not in 0 to {:g}", value, most));
  }
  return value;
}

}  // namespace

AmountsCheck::AmountsCheck(const planner::PlanFolder::File& table, const StepsFile& file, int stages) : file_(&file) {
  read(table, stages);
  if (file.foresight == Foresight::own) return;
  Cells mean;
  double count = 0;
  for (const auto& [step, own] : own_) {
    const Cells of_step = of_mean_microbatches(own);
    ++count;
    const bool forgets = file.foresight == Foresight::last && count * kShareOfNewest > 1;
    const double newest = forgets ? kShareOfNewest : 1 / count;
    if (mean.empty()) mean.resize(of_step.size());
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const auto mix = [newest](double old_mean, double value) { return (1 - newest) * old_mean + newest * value; };
      mean[i].amounts.tokens = mix(mean[i].amounts.tokens, of_step[i].amounts.tokens);
      mean[i].amounts.squared_tokens = mix(mean[i].amounts.squared_tokens, of_step[i].amounts.squared_tokens);
      mean[i].mean_tokens = mix(mean[i].mean_tokens, of_step[i].mean_tokens);
    }
    after_[step] = mean;
  }
}

void AmountsCheck::read(const planner::PlanFolder::File& file, int stages) {
  const CsvTable table(file.text, file.name);
  const std::size_t step = table.column("step"), replica = table.column("replica"),
                    microbatch = table.column("microbatch"), stage = table.column("stage"),
                    tokens = table.column("tokens"), squared = table.column("squared_tokens"),
                    mean = table.column("mean_tokens");
  for (std::size_t row = 0; row < table.rows(); ++row) {
    stages_ = std::max(stages_, whole_at(table, row, stage, profile::kMaxStages - 1) + 1);
  }
  if (stages_ != 1 && stages_ != stages) {
    throw_input_error({file.name, 0, 0}, fmt::format("has {} stages, and the schedule {}", stages_, stages),
                      "plan again");
  }
  const auto count = static_cast<std::size_t>(file_->replicas) * static_cast<std::size_t>(file_->microbatches) *
                     static_cast<std::size_t>(stages_);
  if (table.rows() % count != 0) {
    throw_input_error({file.name, 0, 0}, fmt::format("has {} rows, no multiple of {} a step", table.rows(), count),
                      "plan again");
  }
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::size_t at =
        place(whole_at(table, row, replica, file_->replicas - 1),
              whole_at(table, row, microbatch, file_->microbatches - 1), whole_at(table, row, stage, stages_ - 1));
    if (at != row % count) throw_input_error(table.where(row, microbatch), "is not the next microbatch", "plan again");
    Cells& cells = own_[whole_at(table, row, step, std::numeric_limits<int>::max())];
    if (cells.size() != at) throw_input_error(table.where(row, step), "is another step's row", "plan again");
    cells.push_back(
        {{amount_at(table, row, tokens, kMaxTokens), amount_at(table, row, squared, kMaxTokens * kMaxTokens)},
         amount_at(table, row, mean, kMaxTokens)});
  }
}

/// The same for all microbatches of a replica on a stage.
AmountsCheck::Cells AmountsCheck::of_mean_microbatches(const Cells& own) const {
  Cells result(own.size());
  for (int replica = 0; replica < file_->replicas; ++replica) {
    for (int stage = 0; stage < stages_; ++stage) {
      Cell sum;
      for (int m = 0; m < file_->microbatches; ++m) {
        const Cell& cell = own[place(replica, m, stage)];
        sum.amounts.tokens += cell.amounts.tokens;
        sum.amounts.squared_tokens += cell.amounts.squared_tokens;
        sum.mean_tokens += cell.mean_tokens;
      }
      const double count = file_->microbatches;
      for (int m = 0; m < file_->microbatches; ++m) {
        result[place(replica, m, stage)] = {{sum.amounts.tokens / count, sum.amounts.squared_tokens / count},
                                            sum.mean_tokens / count};
      }
    }
  }
  return result;
}

const AmountsCheck::Cells* AmountsCheck::planned_by(int step) const {
  if (file_->foresight == Foresight::own) {
    const auto found = own_.find(step);
    return found == own_.end() ? nullptr : &found->second;
  }
  const auto first_not_before = after_.lower_bound(step);
  return first_not_before == after_.begin() ? nullptr : &std::prev(first_not_before)->second;
}

std::string AmountsCheck::fault(const StepRow& step, std::span<const ReplicaRow> rows,
                                std::span<const planner::verifier::PipelineOp> ops) const {
  const Cells* const cells = planned_by(step.step);
  if (cells == nullptr) return "has a plan, and no amounts to plan it by";
  const auto own = own_.find(step.step);
  if (step.replayed_by_fit && own == own_.end()) return "is replayed by the fit, and has no amounts of its own";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const ReplicaRow& row = rows[r];
    const auto replica = static_cast<int>(r);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const auto& op = ops[i];
      const auto time_s = [&](const Amounts& amounts) {
        return file_->model.time_s(replica, op.stage, op.kind, amounts);
      };
      const auto busy = [&](const Cell& cell) {
        return time_s({cell.mean_tokens, cell.amounts.squared_tokens}) / time_s(cell.amounts);
      };
      const std::size_t at = place(replica, op.microbatch, op.stage);
      const Cell& cell = (*cells)[at];
      if (is_off(row.predicted_s[i], time_s(cell.amounts))) {
        return fmt::format(
            "replica {}: {} of microbatch {} on stage {} is predicted to take {:.9g} s, and by its "
            "amounts takes {:.9g} s",
            replica, name(op.kind), op.microbatch, op.stage, row.predicted_s[i], time_s(cell.amounts));
      }
      if (step.replayed_by_fit && !row.recorded_s.empty() &&
          is_off(row.recorded_s[i], time_s(own->second[at].amounts))) {
        return fmt::format("replica {}: {} of microbatch {} on stage {} is not replayed with the time of the fit",
                           replica, name(op.kind), op.microbatch, op.stage);
      }
      const bool is_busy_wrong =
          (!row.predicted_busy.empty() && is_off(row.predicted_busy[i], busy(cell))) ||
          (!row.recorded_busy.empty() && own != own_.end() && is_off(row.recorded_busy[i], busy(own->second[at])));
      if (is_busy_wrong) return fmt::format("replica {}: a mean rank is not busy for that share", replica);
    }
  }
  return "";
}

}  // namespace lowgear::steps
