#pragma once

#include <span>
#include <vector>

namespace lowgear::server {

/// An iteration of a job: its time, and the energy of all its GPUs.
struct CurvePoint {
  double time_s = 0;
  double energy_j = 0;
};

/// How long an iteration takes at a mean power of all GPUs of a job. Between two vertices of its frontier the energy is
/// linear in time, E(t) = c - s t, and every deadline between them has a plan; so the mean power is E(t) / t = c / t -
/// s. It falls with time and is convex, since E falls and is convex: power has falling returns.
class PowerCurve {
 public:
  /// `vertices`: fastest first, times rising, energies falling and convex (as `frontier` of the server returns them),
  /// at least one. Slower iterations than `slowest_s` are left out, but not the fastest one. Throws InputError naming
  /// the vertex.
  PowerCurve(std::span<const CurvePoint> vertices, double slowest_s);

  /// Without the iterations that draw less than this; the fastest one stays.
  [[nodiscard]] PowerCurve with_floor(double least_w) const { return {vertices_, time_s(least_w)}; }

  [[nodiscard]] double fastest_s() const { return vertices_.front().time_s; }
  [[nodiscard]] double slowest_s() const { return vertices_.back().time_s; }
  [[nodiscard]] double most_w() const { return power_w(fastest_s()); }
  [[nodiscard]] double least_w() const { return power_w(slowest_s()); }

  /// Mean power of an iteration of this time, clamped to [fastest_s, slowest_s].
  [[nodiscard]] double power_w(double time_s) const;
  /// The shortest time with at most this power; slowest_s where none has so little.
  [[nodiscard]] double time_s(double power_w) const;
  /// The time with the least `time_weight * time + price * power`: the time weighs per second, the price is per watt.
  [[nodiscard]] double best_time_s(double time_weight, double price) const;

 private:
  /// Of the line of energies from vertex `i` to the next one: E at time 0.
  [[nodiscard]] double intercept_j(std::size_t i) const;

  std::vector<CurvePoint> vertices_;
};

}  // namespace lowgear::server
