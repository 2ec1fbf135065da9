#include "training/trainer/run/server_presence.h"

#include <fmt/format.h>

namespace lowgear::trainer {

std::string ServerPresence::observe(int ranks_without, const std::string& problem) {
  const bool was_away = std::exchange(away_, ranks_without > 0);
  if (away_) {
    problem_ =
        problem.empty() ? fmt::format("{}: {} of {} ranks get no response", address_, ranks_without, ranks_) : problem;
  }
  if (away_ == was_away) return "";
  return away_
             ? fmt::format("no server: {}; training continues without plans of the server until it responds", problem_)
             : fmt::format("the server {} responds again", address_);
}

void ServerPresence::count_step() {
  ++steps_;
  if (away_) ++steps_without_;
}

std::string ServerPresence::summary() const {
  if (steps_without_ == 0) return "";
  return fmt::format("{} of {} steps were done without the server: {}", steps_without_, steps_, problem_);
}

}  // namespace lowgear::trainer
