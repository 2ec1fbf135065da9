#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "planning/profile/stage_profile.h"
#include "server/perseus/scheduler.h"

namespace lowgear::server::perseus {

/// Time and energy of every stage's forwards and backwards at the power states that ran so far.
class Profile {
 public:
  /// `blocking_power_w` as in Arguments; may be empty.
  Profile(const Layout& layout, std::vector<double> blocking_power_w);

  /// Adds a window in which everything ran at one power state; a position of the layout is a rank. A stage's time is
  /// that of its slowest rank, its energy the mean of its ranks: what one GPU uses. Where a rank did not report
  /// energies by instruction (Merak's client does not), its iteration energy, less what it drew at blocking power
  /// outside of forwards and backwards, is split among them in proportion to their times: they are taken to draw equal
  /// power. Without blocking power the energy of such a stage stays unknown. Throws InputError when a stage has no
  /// times of either kind, or the blocking power is more than the iterations used.
  void add(int power_state, std::span<const Window> window);

  /// Throws InputError when an energy is unknown.
  [[nodiscard]] profile::StageProfile stage_profile() const;
  /// `stage,instruction,frequency,time,energy` as the artifact writes it: the third column is named by the mode, and an
  /// unknown energy is an empty cell.
  [[nodiscard]] std::string csv(Mode mode) const;
  [[nodiscard]] double blocking_power_w(std::size_t stage) const;

 private:
  using CellKey = std::tuple<int, OpKind, int>;  // stage, kind, power state
  struct Cell {
    double time_s = 0;
    double energy_sum_j = 0;
    int ranks = 0;
    int ranks_with_energy = 0;

    [[nodiscard]] std::optional<double> energy_j() const;
  };

  [[nodiscard]] std::optional<double> compute_power_w(std::size_t position, const Window& window) const;

  Layout layout_;
  std::vector<double> blocking_power_w_;
  std::map<CellKey, Cell> cells_;
};

/// Runs every power state from the top down to `minimum_power_state`, a window each, after two windows at the highest;
/// then stops.
class InstructionProfiler final : public Scheduler {
 public:
  /// Throws InputError when no power state is high enough.
  InstructionProfiler(const Layout& layout, const Settings& settings);
  [[nodiscard]] Step schedule() const override;
  [[nodiscard]] bool observes() const override { return warmup_windows_ == 0 && next_ < states_.size(); }
  void end_window(std::span<const Window> window) override;
  /// The profile so far, named as the artifact names it.
  [[nodiscard]] std::vector<File> files() const override;

 private:
  Layout layout_;
  Mode mode_;
  int warmup_windows_ = 2;
  std::vector<int> states_;
  std::size_t next_ = 0;
  Profile profile_;
};

/// Those of the layout that are profiled: not below the minimum; highest first. Throws InputError when there are none.
[[nodiscard]] std::vector<int> profiled_states(const Layout& layout, int minimum_power_state);

}  // namespace lowgear::server::perseus
