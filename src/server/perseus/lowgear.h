#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/progress.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/schedule.h"
#include "server/perseus/scheduler.h"

namespace lowgear::server::perseus {

/// Time and energy of every stage's forwards and backwards at the power states that ran so far.
class Profile {
 public:
  /// `blocking_power_w` as in Arguments; may be empty.
  Profile(const Layout& layout, std::vector<double> blocking_power_w);

  /// Adds a window in which everything ran at one power state; a position of the layout is a rank. A stage's time is
  /// that of its slowest rank, its energy the mean of its ranks: that of one GPU. Where a rank did not report
  /// energies by instruction (Merak's client does not), its iteration energy, less the energy at blocking power
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

/// Clocks of the layout that are profiled: not below the minimum; highest first. Throws InputError when there are none.
[[nodiscard]] std::vector<int> profiled_states(const Layout& layout, int minimum_power_state);

/// Lowgear's own way of serving such jobs: profiles a few clocks, a window each, predicts the others, plans, and serves
/// the plan for as long as the job trains. Nothing stops.
class LowgearScheduler final : public Scheduler {
 public:
  /// `layout` has a position for every rank. `progress`, of planning, may be null. Throws InputError when the ranks'
  /// instructions are no pipeline schedule, or there are too few clocks.
  LowgearScheduler(const Layout& layout, const Arguments& arguments, std::shared_ptr<Progress> progress = nullptr);
  [[nodiscard]] Step schedule() const override;
  [[nodiscard]] bool observes() const override { return warmup_windows_ == 0 && !plan_; }
  /// Plans when the last clock has run.
  void end_window(std::span<const Window> window) override;
  [[nodiscard]] std::vector<std::string> take_doubts() override { return std::exchange(doubts_, {}); }
  /// The profile so far and, once there is one, the plan in the artifact's form.
  [[nodiscard]] std::vector<File> files() const override;

 private:
  void make_plan();

  Layout layout_;
  Arguments arguments_;
  std::shared_ptr<Progress> progress_;
  schedule::Schedule pipeline_;
  int warmup_windows_;
  std::vector<int> clocks_mhz_;  ///< that are profiled; highest first
  std::size_t next_ = 0;
  Profile profile_;
  std::optional<Schedule> plan_;
  std::vector<File> plan_files_;
  std::vector<std::string> doubts_;  ///< about the profile, until they are taken
};

/// The pipeline schedule that the ranks' forwards and backwards make: the m-th of a kind is for microbatch m, as in
/// GPipe and 1F1B. Throws InputError when that is no schedule, such as where forwards are computed anew for backwards.
[[nodiscard]] schedule::Schedule pipeline_of(const Layout& layout);

}  // namespace lowgear::server::perseus
