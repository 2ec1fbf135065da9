#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planning/planner/planners/at.h"
#include "planning/planner/planners/planning_model.h"

namespace lowgear::planner {

/// Times and energies of a model's choices, each in one array: rounding reads little else, and a `ClockChoice` with its
/// name takes a cache line.
class OptionTable {
 public:
  /// Copies what it needs.
  explicit OptionTable(const PlanningModel& model);

  /// Of an op's choices, fastest first.
  [[nodiscard]] std::span<const TimePs> times_ps(std::int32_t op) const {
    return std::span(time_ps_).subspan(place_[at(op)].begin, place_[at(op)].count);
  }
  [[nodiscard]] std::span<const EnergyZj> effective_energies_zj(std::int32_t op) const {
    return std::span(effective_energy_zj_).subspan(place_[at(op)].begin, place_[at(op)].count);
  }

  /// Of one choice.
  [[nodiscard]] TimePs time_ps(std::int32_t op, std::int32_t choice) const {
    return time_ps_[place_[at(op)].begin + at(choice)];
  }
  [[nodiscard]] EnergyZj effective_energy_zj(std::int32_t op, std::int32_t choice) const {
    return effective_energy_zj_[place_[at(op)].begin + at(choice)];
  }

 private:
  struct Place {
    std::uint32_t begin = 0;
    std::uint32_t count = 0;
  };
  std::vector<Place> place_;  ///< by op
  std::vector<TimePs> time_ps_;
  std::vector<EnergyZj> effective_energy_zj_;
};

}  // namespace lowgear::planner
