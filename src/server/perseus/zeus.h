#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "server/perseus/scheduler.h"

namespace lowgear::server::perseus {

/// The result of one setting of power states, all positions together.
struct ZeusMeasurement {
  int power_state = 0;            ///< common limit, or state of the heaviest stage
  std::vector<int> power_states;  ///< by position
  double time_s = 0;              ///< of the slowest position
  double energy_j = 0;            ///< of all
  double power_w = 0;

  /// Zeus' cost of an iteration (You et al., NSDI 2023): (eta x power + (1 - eta) x largest power) x time.
  [[nodiscard]] double cost(double eta_knob, double max_power_w) const {
    return (eta_knob * power_w + (1 - eta_knob) * max_power_w) * time_s;
  }
};

[[nodiscard]] ZeusMeasurement measure(int power_state, std::vector<int> power_states, std::span<const Window> window);

/// The power limit that is best for all GPUs at once: every limit but the lowest in turn, from the top, after a window
/// of warm-up; then stops. (The artifact counts the world size twice in the largest power; here it counts once.)
class ZeusGlobalPowerLimit final : public Scheduler {
 public:
  /// Throws InputError when there are fewer than two power limits.
  ZeusGlobalPowerLimit(const Layout& layout, const Arguments& arguments);
  [[nodiscard]] Step schedule() const override;
  [[nodiscard]] bool observes() const override { return !is_warming_up_ && measured_.size() < limits_.size(); }
  void end_window(std::span<const Window> window) override;
  /// `ZeusGlobalPowerLimit.json`: time and energy by limit.
  [[nodiscard]] std::vector<File> files() const override;

 private:
  Layout layout_;
  double eta_knob_;
  std::vector<int> limits_;
  std::vector<ZeusMeasurement> measured_;
  bool is_warming_up_ = true;
};

/// Balances stages: for every power state of the heaviest one, the others are lowered until their forwards (or
/// backwards) take as long as its; then stops. One position for every stage.
class ZeusLocalPowerState final : public Scheduler {
 public:
  ZeusLocalPowerState(const Layout& layout, Arguments arguments);
  [[nodiscard]] Step schedule() const override;
  [[nodiscard]] bool observes() const override { return phase_ == Phase::balancing; }
  /// Throws InputError when the balanced phase was not measured.
  void end_window(std::span<const Window> window) override;
  /// `ZeusLocalPowerState.json`: the balanced states by the heaviest stage's, and their results.
  [[nodiscard]] std::vector<File> files() const override;

 private:
  enum class Phase : unsigned char { warm_up, balancing, done };

  /// The search for one stage's balanced state, within one state of the heaviest stage.
  struct Search {
    bool found = false;
    std::optional<double> previous_distance_s;
    double previous_time_s = 0;
  };

  [[nodiscard]] double phase_time_s(const Window& window, std::size_t stage) const;
  [[nodiscard]] std::vector<int> states() const;
  void begin_round();
  void lower(std::size_t stage, double time_s);
  void finish_round(std::span<const Window> window);

  Layout layout_;
  Arguments arguments_;
  Phase phase_ = Phase::warm_up;
  std::size_t round_ = 0;                      ///< index of the heaviest stage's power state
  std::vector<std::size_t> index_;             ///< by stage: of the power state that runs
  std::optional<std::size_t> heaviest_stage_;  ///< known from the first window
  std::optional<double> target_s_;             ///< time of its phase in this round; known from the round's first window
  std::vector<Search> search_;
  std::vector<ZeusMeasurement> measured_;
};

}  // namespace lowgear::server::perseus
