#pragma once

#include <functional>

#include "base/core/error.h"
#include "estimating/sampling/sampled_operator.h"

namespace lowgear::trainer {

/// The tensors of an operator do not fit into the device's memory.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// The tensors of one operator of the given sizes, filled with random values, and what each pass runs on them.
class OperatorWorkload {
 public:
  /// Throws OutOfMemory, and Error where libtorch refuses the operator on this device.
  OperatorWorkload(sampling::SampledOperator op, const sampling::OperatorShape& shape, sampling::SampleType type,
                   bool gpu, int local_rank);

  [[nodiscard]] int passes() const { return backward_ ? 2 : 1; }
  /// Runs pass 0 (forward) or 1 (backward); on a GPU, begins to. Throws as the constructor does.
  void run(int pass) const;

 private:
  std::function<void()> forward_;
  std::function<void()> backward_;  ///< empty for the optimizer
};

}  // namespace lowgear::trainer
