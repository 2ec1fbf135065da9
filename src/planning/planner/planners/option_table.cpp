#include "planning/planner/planners/option_table.h"

namespace lowgear::planner {

OptionTable::OptionTable(const PlanningModel& model) {
  std::vector<Place> place_of_cost;
  for (const std::vector<ClockChoice>& choices : model.choices) {
    place_of_cost.push_back({static_cast<std::uint32_t>(time_ps_.size()), static_cast<std::uint32_t>(choices.size())});
    for (const ClockChoice& choice : choices) {
      time_ps_.push_back(choice.time_ps);
      effective_energy_zj_.push_back(choice.effective_energy_zj);
    }
  }
  for (const int cost : model.instance.cost_of_op) place_.push_back(place_of_cost[at(cost)]);
}

}  // namespace lowgear::planner
