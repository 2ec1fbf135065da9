#pragma once

#include <memory>

#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// A meeting place for ranks that are threads of one process; for tests. Made once, given to every thread.
class InProcessHub {
 public:
  InProcessHub();
  ~InProcessHub();
  InProcessHub(const InProcessHub&) = delete;
  InProcessHub& operator=(const InProcessHub&) = delete;

  /// A pipeline of the ranks that name it the same, seen by the one at `position`.
  [[nodiscard]] std::unique_ptr<PointToPoint> pipeline(const std::string& name, int position);
  /// Rank `rank` of the group of `size` ranks that name it the same.
  [[nodiscard]] std::unique_ptr<Collective> group(const std::string& name, int rank, int size);
  /// Every transfer that waits, now or later, throws Error: for a rank that has failed.
  void abort();

  class State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lowgear::trainer
