#pragma once

#include <cstdint>
#include <map>

namespace lowgear {

/// Which version of the plan was in force during the whole of an iteration: 0 where none was, or another than the
/// server's.
class PlanVersions {
 public:
  /// From this iteration on; what was said of this and later ones is void.
  void follow(std::uint64_t from_iteration, int version) {
    from_.erase(from_.lower_bound(from_iteration), from_.end());
    from_[from_iteration] = version;
  }
  /// Iterations are asked for in order: what lies before is forgotten.
  [[nodiscard]] int version_of(std::uint64_t iteration) {
    auto after = from_.upper_bound(iteration);
    if (after == from_.begin()) return 0;
    const auto in_force = --after;
    from_.erase(from_.begin(), in_force);
    return in_force->second;
  }
  /// Version of the plan that was followed last, whether its iteration has begun or not.
  [[nodiscard]] int newest() const { return from_.empty() ? 0 : from_.rbegin()->second; }

 private:
  std::map<std::uint64_t, int> from_;
};

}  // namespace lowgear
