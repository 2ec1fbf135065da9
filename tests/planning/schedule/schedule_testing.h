#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "planning/schedule/dag.h"
#include "planning/schedule/schedule.h"

/// What the tests of this module share.
namespace lowgear::schedule {

/// A schedule from one line per rank in PyTorch's notation, actions separated by blanks. Not validated.
[[nodiscard]] Schedule schedule_from(const std::vector<std::string_view>& ranks, std::string name = "test");

/// The rank's actions in PyTorch's notation, separated by blanks.
[[nodiscard]] std::string row(const Schedule& schedule, int rank);

/// A random schedule that is legal by construction: stages scattered over up to 4 ranks, whole and split backwards
/// mixed, and each rank's order taken from one random order of all computations that respects the data.
[[nodiscard]] Schedule random_schedule(std::mt19937& random);

/// The same with every send and receive at a random place where `validate` allows it: some can run, many cannot.
[[nodiscard]] Schedule with_random_communication(const Schedule& schedule, std::mt19937& random);

/// Each send right after the computation that makes its data, each receive right before the one that needs it.
[[nodiscard]] Schedule with_naive_communication(const Schedule& schedule);

/// True when `to` needs data that `from` makes, by the definition of pipeline training.
[[nodiscard]] bool needs_data(const ComputeOp& from, const ComputeOp& to, int stages);

}  // namespace lowgear::schedule
