#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/progress.h"

namespace lowgear::planner {

/// The activity that `verify` reports.
inline constexpr std::string_view kVerifying = "verifying";

/// The texts of an output folder of `lowgear plan`, as read from its files.
struct PlanFolder {
  struct File {
    std::string name;  ///< path within the folder, for messages
    std::string text;
  };
  File run;                 ///< run.json
  File profile;             ///< profile.csv
  File schedule;            ///< schedule.csv
  File frontier;            ///< frontier.csv
  File plans_table;         ///< plans.csv
  File certificate;         ///< certificate.txt
  std::vector<File> plans;  ///< plans/NNNNN.json, in order
};

/// Faults that the checks found; the first ones, at most 20.
struct VerifyReport {
  std::vector<std::string> failures = {};
  std::size_t vertices = 0;  ///< frontier vertices proven
  std::size_t plans = 0;     ///< plans replayed and bounded
  double epsilon = 0;        ///< largest relative distance between the frontier and its proven bound
  double max_gap_pct = 0;    ///< largest proven gap of a plan
  /// The deadline that was asked for, where a plan takes longer: the policy cannot aim at it. No failure of the proof.
  std::optional<double> missed_deadline_s = {};
  /// Largest proven gap of a plan to all orders that fit into memory, where the order was free.
  std::optional<double> max_joint_gap_pct = {};
  std::optional<int> layers = {};  ///< whose sums are the profiles of both partitions, where layers could move
  bool simulated = false;          ///< the profile is of simulated GPUs
  [[nodiscard]] bool ok() const { return failures.empty(); }
};

/// Checks an output folder from its inputs, with code that shares nothing with the solver: it derives the dependencies
/// and effective energies again, and for every vertex of the certificate that
///   - the ops' times are possible, their longest path is the vertex's time and their energies sum to its energy,
///   - the flow is non-negative and conserved, and the bound that it proves meets the vertex (primal = dual),
/// that the table of the frontier is what was proven, and that every plan replays to its figures, keeps its deadline,
/// and has the gap that it states. Throws InputError when a file cannot be read at all.
/// `progress` may be null; it hears of every vertex and plan.
[[nodiscard]] VerifyReport verify(const PlanFolder& folder, Progress* progress = nullptr);

}  // namespace lowgear::planner
