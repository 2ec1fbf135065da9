#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/op_kind.h"
#include "planning/schedule/dag.h"

namespace lowgear::plan {

/// A plan in the form of Perseus and Zeus: per stage the clocks of its forwards and backwards in the order of
/// execution.
struct PerseusPlan {
  struct Entry {
    std::optional<OpKind> kind;  ///< given by Zeus' tuples, not by the artifact's bare integers
    int clock_mhz = 0;

    friend bool operator==(const Entry&, const Entry&) = default;
  };
  std::vector<std::vector<Entry>> stages;

  friend bool operator==(const PerseusPlan&, const PerseusPlan&) = default;
};

/// Largest plan text that is read: some millions of clocks. Keeps a hostile file from exhausting the memory.
inline constexpr std::size_t kMaxPerseusPlanBytes = std::size_t{1} << 26;

/// Reads `freqs_pipeline_NNNNN.py`: a Python literal, either lists of integers (SOSP'24 artifact) or lists of tuples
/// `('forward', 1410)` (Zeus), and comments. Parsed as data, never evaluated. Throws InputError with line and column.
[[nodiscard]] PerseusPlan read_perseus_plan(std::string_view text, const std::string& source);

/// What stands in the closing comments of a plan file.
struct PerseusPlanFigures {
  int iteration = 0;          ///< number of the plan on its frontier
  double cost_change_j = 0;   ///< energy by which it differs from the plan before
  double total_cost_j = 0;    ///< effective energy: without what is drawn in blocking
  double refined_cost_j = 0;  ///< energy of the iteration
};
/// Who is to read a plan file: the SOSP'24 artifact takes bare integers, Zeus since then tuples, and their closing
/// comments differ in wording.
enum class PerseusDialect { artifact, zeus };

/// Writes the plan and the three closing comments. Throws Error when Zeus' tuples are asked for and an entry has no
/// kind.
[[nodiscard]] std::string write_perseus_plan(const PerseusPlan& plan, const PerseusPlanFigures& figures,
                                             PerseusDialect dialect = PerseusDialect::artifact);

/// The plan with these clocks, by op of `dag`.
[[nodiscard]] PerseusPlan perseus_plan(const schedule::PipelineDag& dag, std::span<const int> clocks_mhz);

/// The clock of every op of `dag`, in its order: entry i of a stage is for the rank's i-th op. Throws InputError when
/// the numbers of stages or of entries differ from the graph's, or a tuple's kind from the op's.
[[nodiscard]] std::vector<int> clocks_for(const PerseusPlan& plan, const schedule::PipelineDag& dag);

}  // namespace lowgear::plan
