#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lowgear::trainer {

/// How many tokens chose each expert in the forwards of a step, where that is asked for. A layer sorts its tokens by
/// counts that the host has, so stating them waits for nothing.
class ExpertLoads {
 public:
  struct Pass {
    int microbatch = 0;
    std::int64_t layer = 0;  ///< of the model
    std::vector<std::int64_t> tokens;
  };
  /// Has the layers state the loads of a microbatch's forward while it lives: of no evaluation, no recomputation.
  class Guard {
   public:
    Guard(ExpertLoads& loads, int microbatch) : loads_(&loads) { loads.microbatch_ = microbatch; }
    ~Guard() { loads_->microbatch_.reset(); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    ExpertLoads* loads_;
  };

  void begin_step(bool stated) {
    stated_ = stated;
    passes_.clear();
  }
  void add(std::int64_t layer, const std::vector<std::int64_t>& tokens) {
    if (stated_ && microbatch_) passes_.push_back({*microbatch_, layer, tokens});
  }
  /// Of the step, in the order in which they were computed.
  [[nodiscard]] const std::vector<Pass>& passes() const { return passes_; }

 private:
  bool stated_ = false;
  std::optional<int> microbatch_;  ///< of the forward at hand
  std::vector<Pass> passes_;
};

}  // namespace lowgear::trainer
