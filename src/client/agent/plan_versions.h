#pragma once

#include <cstdint>
#include <map>

namespace lowgear::client {

/// Which version of the plan was in force during the whole of an iteration: 0 where none was, or another than the
/// server's.
class PlanVersions {
 public:
  /// From this iteration on; what was said of this and later ones is void.
  void follow(std::uint64_t from_iteration, int version) {
    forget_from(from_iteration);
    from_[from_iteration] = version;
  }
  /// What was followed before is followed in this and later iterations too.
  void forget_from(std::uint64_t iteration) { from_.erase(from_.lower_bound(iteration), from_.end()); }
  /// Iterations are asked for in order: what lies before is forgotten.
  [[nodiscard]] int version_of(std::uint64_t iteration) {
    auto after = from_.upper_bound(iteration);
    if (after == from_.begin()) return 0;
    const auto in_force = --after;
    from_.erase(from_.begin(), in_force);
    return in_force->second;
  }

 private:
  std::map<std::uint64_t, int> from_;
};

}  // namespace lowgear::client
