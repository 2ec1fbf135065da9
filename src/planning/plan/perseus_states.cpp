#include "planning/plan/perseus_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/units.h"
#include "base/core/utf8.h"
#include "planning/schedule/generators.h"

namespace lowgear::plan {
namespace {

constexpr std::size_t kMaxStates = std::size_t{1} << 24;
constexpr std::size_t kLastInstructions = 3;  ///< sums of tied gradients, of gradients, optimizer

/// What Merak's stage does in one step of its schedule.
enum class Step : unsigned char { nothing, forward, backward };

std::vector<Step> steps_of(int stage, int stages, int microbatches) {
  std::vector<Step> steps(2 * (static_cast<std::size_t>(microbatches) + static_cast<std::size_t>(stages) - 1));
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
    steps.at(static_cast<std::size_t>(stage + 2 * microbatch)) = Step::forward;
    steps.at(static_cast<std::size_t>(2 * stages - 1 - stage + 2 * microbatch)) = Step::backward;
  }
  return steps;
}

void require_1f1b(const schedule::PipelineDag& dag) {
  const schedule::PipelineDag expected = build_dag(schedule::one_f_one_b_schedule(dag.ranks, dag.microbatches));
  const bool same = std::ranges::equal(dag.ops, expected.ops, [](const auto& a, const auto& b) {
    return a.rank == b.rank && a.stage == b.stage && a.kind == b.kind && a.microbatch == b.microbatch;
  });
  if (!same) throw InputError("power states of Perseus' server are of Merak's 1F1B: give --schedule 1f1b");
}

/// The states of the ops of a stage, or what is wrong.
struct StageStates {
  std::vector<int> ops;
  std::string fault;
};

StageStates states_of_ops(const std::vector<int>& states, const std::vector<bool>& computes) {
  if (states.size() != computes.size()) {
    return {{},
            fmt::format("has {} power states, but Merak's 1F1B has {} instructions", states.size(), computes.size())};
  }
  StageStates result;
  std::optional<int> current;
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (computes[i]) {
      current = states[i];
      if (result.ops.empty() && std::ranges::any_of(states.begin(), states.begin() + static_cast<std::ptrdiff_t>(i),
                                                    [&](int before) { return before != *current; })) {
        return {{}, "changes its power state before it computes"};
      }
      result.ops.push_back(*current);
    } else if (current && states[i] != *current) {
      return {{}, fmt::format("changes its power state at instruction {}, where Merak's 1F1B computes nothing", i)};
    }
  }
  return result;
}

/// Which rank's states are those of each stage.
std::vector<std::size_t> rank_of_stages(const PowerStates& states, int stages) {
  const auto count = static_cast<std::size_t>(stages);
  const std::size_t copies = states.ranks.size() / count;
  if (copies * count != states.ranks.size()) {
    throw InputError(fmt::format("power states of {} ranks cannot be of {} stages", states.ranks.size(), stages));
  }
  for (const bool is_stage_outermost : {true, false}) {
    std::vector<std::size_t> first(count);
    bool alike = true;
    for (std::size_t stage = 0; stage < count; ++stage) {
      const auto rank = [&](std::size_t copy) {
        return is_stage_outermost ? stage * copies + copy : copy * count + stage;
      };
      first[stage] = rank(0);
      for (std::size_t copy = 1; copy < copies; ++copy) {
        alike = alike && states.ranks[rank(copy)] == states.ranks[first[stage]];
      }
    }
    if (alike) return first;
  }
  throw InputError(
      fmt::format("power states of {} ranks: ranks of a stage differ, numbered with the stage outermost or innermost; "
                  "give the ranks of one pipeline",
                  states.ranks.size()));
}

}  // namespace

PowerStates read_power_states(std::string_view text, const std::string& source) {
  const Json document = parse_json(text, source, kMaxStates);
  const JsonView view(document, source);
  PowerStates states;
  states.ranks.resize(view.size());
  if (states.ranks.empty()) view.fail("no ranks", "the server writes one object for each rank");
  for (std::size_t i = 0; i < view.size(); ++i) {
    const JsonView rank = view.at(i);
    const int number = rank.at("rank").integer_in(0, static_cast<int>(view.size()) - 1);
    std::vector<int>& of_rank = states.ranks[static_cast<std::size_t>(number)];
    if (!of_rank.empty()) rank.fail(fmt::format("rank {} is there twice", number));
    const JsonView list = rank.at("power_states");
    for (std::size_t k = 0; k < list.size(); ++k) of_rank.push_back(list.at(k).integer_in(1, kMaxClockMhz));
    if (of_rank.empty()) list.fail("no power states", "there is one for each instruction");
  }
  return states;
}

bool is_power_states(std::string_view text) {
  if (text.starts_with(kUtf8ByteOrderMark)) text.remove_prefix(kUtf8ByteOrderMark.size());
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t list = text.find_first_not_of(kBlank);
  if (list == std::string_view::npos || text[list] != '[') return false;
  const std::size_t element = text.find_first_not_of(kBlank, list + 1);
  return element != std::string_view::npos && text[element] == '{';
}

std::vector<bool> merak_instructions(int stage, int stages, int microbatches) {
  const bool has_previous = stage > 0;
  const bool has_next = stage + 1 < stages;
  const bool loads = !has_previous || !has_next;
  std::vector<bool> computes;
  Step before = Step::nothing;
  std::size_t number = 0;
  for (const Step step : steps_of(stage, stages, microbatches)) {
    // Forwards are on the steps of the stage's own parity. What comes from and goes to a neighbour is one instruction.
    const bool forward_turn = number++ % 2 == static_cast<std::size_t>(stage) % 2;
    const bool exchanges = step != Step::nothing || before != Step::nothing;
    if (exchanges && (forward_turn ? has_previous : has_next)) computes.push_back(false);
    if (loads && step == Step::forward) computes.push_back(false);
    if (step != Step::nothing) computes.push_back(true);
    before = step;
  }
  computes.insert(computes.end(), kLastInstructions, false);
  return computes;
}

std::vector<int> clocks_for(const PowerStates& states, const schedule::PipelineDag& dag) {
  require_1f1b(dag);
  const std::vector<std::size_t> rank_of_stage = rank_of_stages(states, dag.ranks);
  std::vector<int> clocks_mhz;
  for (int stage = 0; stage < dag.ranks; ++stage) {
    const std::size_t rank = rank_of_stage[static_cast<std::size_t>(stage)];
    const StageStates found = states_of_ops(states.ranks[rank], merak_instructions(stage, dag.ranks, dag.microbatches));
    if (!found.fault.empty()) {
      throw InputError(
          fmt::format("power states: rank {} {}; give the --stages and --microbatches of the job", rank, found.fault));
    }
    clocks_mhz.insert(clocks_mhz.end(), found.ops.begin(), found.ops.end());
  }
  return clocks_mhz;
}

}  // namespace lowgear::plan
