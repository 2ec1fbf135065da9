#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lowgear {

/// How deadlines are given; at most one of the first three.
struct DeadlineArguments {
  std::optional<double> deadline_s;
  std::optional<double> slowdown_pct;
  std::optional<double> straggler_factor;
  std::optional<int> plans;
};

/// `--deadline`, `--slowdown` and `--straggler`, which exclude each other.
void add_single_deadline_options(CLI::App& app, DeadlineArguments& arguments);
/// `--deadline`, `--slowdown`, `--straggler` and `--plans`, which exclude each other.
void add_deadline_options(CLI::App& app, DeadlineArguments& arguments);

/// The one deadline that was asked for, in seconds; empty when none was. `fastest_s` is T_min and `slowest_s` T*.
[[nodiscard]] std::optional<double> single_deadline_s(const DeadlineArguments& arguments, double fastest_s,
                                                      double slowest_s);

/// The deadlines to plan for: the one that was asked for, or `plans` (20) of them evenly from T_min to T*, both
/// included; one where they are the same.
[[nodiscard]] std::vector<double> deadlines_s(const DeadlineArguments& arguments, double fastest_s, double slowest_s);

}  // namespace lowgear
