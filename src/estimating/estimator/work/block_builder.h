#pragma once

#include <array>
#include <cstdint>

#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/work/stage_work.h"

namespace lowgear::estimator {

/// Of an operator of the job.
[[nodiscard]] inline DataType type_of(const TrainingJob& job, OperatorKind kind) {
  return is_narrow(job.dtype) && kind != OperatorKind::linear ? DataType::bf16 : job.dtype;
}

/// Writes the passes of a block down in the order of the forward.
class BlockBuilder {
 public:
  explicit BlockBuilder(const TrainingJob& job, std::int64_t window = 0) : job_(job), window_(window) {}

  /// An operator forward and backward. Returns its index in both passes.
  int add(WorkPart part, OperatorKind kind, std::array<std::int64_t, 4> dims, double times = 1) {
    return add(part, kind, dims, {times, times});
  }
  /// The same where the passes run it different numbers of times.
  int add(WorkPart part, OperatorKind kind, std::array<std::int64_t, 4> dims, PassTimes times) {
    const int index = forward(part, kind, dims, times.forward);
    backward(part, kind, dims, times.backward);
    return index;
  }

  int forward(WorkPart part, OperatorKind kind, std::array<std::int64_t, 4> dims, double times = 1) {
    return append(work_.forward, part, kind, Pass::forward, dims, times);
  }
  int backward(WorkPart part, OperatorKind kind, std::array<std::int64_t, 4> dims, double times = 1) {
    return append(work_.backward, part, kind, Pass::backward, dims, times);
  }

  void communicate(PassWork BlockWork::*pass, const CollectiveUse& use) {
    if (use.group.ranks > 1) (work_.*pass).collectives.push_back(use);
  }

  BlockWork& work() { return work_; }

 private:
  int append(PassWork& pass, WorkPart part, OperatorKind kind, Pass direction, std::array<std::int64_t, 4> dims,
             double times) {
    Operator op{kind, direction, {dims[0], dims[1], dims[2], dims[3]}, type_of(job_, kind)};
    // Unfused attention computes all pairs, and masks those outside of a window.
    if (kind == OperatorKind::fused_attention || kind == OperatorKind::fused_dropout) op.window = window_;
    if (kind == OperatorKind::fused_attention) op.kernel = job_.stack.attention;
    pass.operators.push_back({op, times, part});
    return static_cast<int>(pass.operators.size()) - 1;
  }

  const TrainingJob& job_;
  std::int64_t window_;
  BlockWork work_;
};

}  // namespace lowgear::estimator
