#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/op_kind.h"
#include "planning/schedule/dag.h"

namespace lowgear::formats {

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
  double total_cost_j = 0;    ///< effective energy: without the energy of blocking
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

/// Steps through a text of Python literals. Blanks, and comments from `#` to the end of their line, mean nothing.
class LiteralCursor {
 public:
  /// `text` outlives the cursor.
  explicit LiteralCursor(std::string_view text) : text_(text) {}

  [[nodiscard]] std::size_t position() const { return position_; }
  /// At most to the end of the text.
  void move_to(std::size_t position);
  [[nodiscard]] bool at_end() const { return position_ == text_.size(); }
  [[nodiscard]] std::string_view text() const { return text_; }
  /// The character at the cursor; NUL at the end.
  [[nodiscard]] char peek() const { return at_end() ? '\0' : text_[position_]; }

  void skip_blank();
  /// Skips what means nothing, and `wanted` where it comes next.
  bool accept(char wanted);

 private:
  std::string_view text_;
  std::size_t position_ = 0;
};

/// What Perseus' server leaves as `N.sched.json`: for every rank the clock or power limit of each instruction that its
/// client registered, those that send, receive, load and sum included. The file does not say which they are.
struct PowerStates {
  std::vector<std::vector<int>> ranks;  ///< by rank
};

/// Reads `[{"rank": 0, "power_states": [1410, ...]}, ...]`. Throws InputError for ranks that are absent or come twice,
/// states that are no clocks or watts, and more than kMaxStates of them.
[[nodiscard]] PowerStates read_power_states(std::string_view text, const std::string& source);

/// Whether a text is of that form rather than a plan of clocks: it begins a list of objects.
[[nodiscard]] bool is_power_states(std::string_view text);

/// Of the instructions that Merak gives a stage in 1F1B with merged messages (`MergeP2PTrainSchedule`), in their order:
/// whether each is a forward or a backward.
[[nodiscard]] std::vector<bool> merak_instructions(int stage, int stages, int microbatches);

/// The clock of every op of `dag`, in its order, if the ranks ran Merak's 1F1B: an instruction that computes nothing
/// has the state of the computation before it, or of the first, and every rank of a stage the same states. Ranks of
/// several pipelines or of tensor parallelism are numbered with the stage outermost or innermost. Throws InputError
/// where that does not hold, or `dag` is not 1F1B.
[[nodiscard]] std::vector<int> clocks_for(const PowerStates& states, const schedule::PipelineDag& dag);

}  // namespace lowgear::formats
