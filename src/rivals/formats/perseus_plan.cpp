#include "rivals/formats/perseus_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <optional>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/text.h"
#include "base/core/units.h"
#include "planning/schedule/generators.h"

namespace lowgear::formats {

namespace {

/// Reads the subset of Python literals that plans are made of: a list of lists of integers or of pairs. Nothing nests
/// deeper, so nothing recurses.
class PlanParser {
 public:
  PlanParser(std::string_view text, const std::string& source) : cursor_(text), source_(source) {}

  PerseusPlan parse() {
    PerseusPlan plan;
    expect('[', "a plan is a list with one list of clocks per stage");
    while (!accept(']')) {
      plan.stages.push_back(parse_stage());
      separator();
    }
    cursor_.skip_blank();
    if (!cursor_.at_end()) {
      fail("text after the plan", "only comments may follow the list");
    }
    if (plan.stages.empty()) {
      fail("a plan without stages", "give one list of clocks per stage");
    }
    return plan;
  }

 private:
  std::vector<PerseusPlan::Entry> parse_stage() {
    expect('[', "each stage is a list of clocks in MHz");
    std::vector<PerseusPlan::Entry> entries;
    while (!accept(']')) {
      entries.push_back(parse_entry());
      separator();
    }
    return entries;
  }

  PerseusPlan::Entry parse_entry() {
    if (!accept('(')) {
      return {std::nullopt, parse_clock()};
    }
    PerseusPlan::Entry entry;
    entry.kind = parse_kind();
    expect(',', "a tuple is ('forward', 1410)");
    entry.clock_mhz = parse_clock();
    accept(',');
    expect(')', "a tuple is ('forward', 1410)");
    return entry;
  }

  OpKind parse_kind() {
    cursor_.skip_blank();
    const std::string_view text = cursor_.text();
    const std::size_t begin = cursor_.position() + 1;
    const char mark = cursor_.peek();
    if (mark != '\'' && mark != '"') {
      fail(found(), "a tuple begins with 'forward' or 'backward'");
    }
    const std::size_t end = text.find_first_of("'\"\\\r\n", begin);
    if (end == std::string_view::npos || text[end] != mark) {
      fail("a quoted name that does not end", "a tuple is ('forward', 1410)");
    }
    const auto kind = op_kind_from_name(text.substr(begin, end - begin));
    if (!kind) {
      fail("unknown instruction " + quote(text.substr(begin, end - begin)),
           fmt::format("plans hold {}", op_kind_names()));
    }
    cursor_.move_to(end + 1);
    return *kind;
  }

  int parse_clock() {
    cursor_.skip_blank();
    int clock_mhz = 0;
    const char* text = cursor_.text().data();
    const auto [rest, error] = std::from_chars(text + cursor_.position(), text + cursor_.text().size(), clock_mhz);
    if (error == std::errc::invalid_argument) {
      fail(found(), "clocks are whole numbers of MHz");
    }
    if (error != std::errc{} || clock_mhz < 1 || clock_mhz > kMaxClockMhz) {
      fail("a clock that is out of range", fmt::format("clocks are from 1 to {} MHz", kMaxClockMhz));
    }
    cursor_.move_to(static_cast<std::size_t>(rest - text));
    return clock_mhz;
  }

  /// After an element: a comma, which may also stand before the end, or the end itself.
  void separator() {
    if (!accept(',') && cursor_.peek() != ']') {
      fail(found(), "separate the elements of a list with commas");
    }
  }

  void expect(char wanted, std::string_view fix) {
    if (!accept(wanted)) {
      fail(fmt::format("expected '{}' but {}", wanted, found()), fix);
    }
  }

  bool accept(char wanted) { return cursor_.accept(wanted); }

  [[nodiscard]] std::string found() const {
    if (cursor_.at_end()) {
      return "the text ends here";
    }
    const char character = cursor_.peek();
    const bool printable = character >= ' ' && character <= '~';
    return printable ? fmt::format("found '{}'", character)
                     : fmt::format("found byte 0x{:02x}", static_cast<unsigned char>(character));
  }

  [[noreturn]] void fail(std::string_view what, std::string_view fix) const {
    throw_input_error(locate(cursor_.text(), cursor_.position(), source_), what, fix);
  }

  LiteralCursor cursor_;
  const std::string& source_;
};

void require_kind_fits(const PerseusPlan::Entry& entry, const schedule::ComputeOp& op, std::size_t rank,
                       std::size_t position) {
  if (entry.kind && *entry.kind != op.kind) {
    throw InputError(fmt::format(
        "plan: stage {}, entry {} is a {}, but the schedule runs the {} of microbatch {} there; use the schedule that "
        "the plan was made for",
        rank, position, name(*entry.kind), name(op.kind), op.microbatch));
  }
}

void write_entry(std::string& out, const PerseusPlan::Entry& entry, PerseusDialect dialect) {
  if (dialect == PerseusDialect::artifact) {
    fmt::format_to(std::back_inserter(out), "{}", entry.clock_mhz);
    return;
  }
  if (!entry.kind) {
    throw Error("a plan of bare clocks cannot be written as tuples: its instructions are not known");
  }
  fmt::format_to(std::back_inserter(out), "('{}', {})", name(*entry.kind), entry.clock_mhz);
}

/// Every line ends with a blank, as the artifact's do.
std::string artifact_comments(const PerseusPlanFigures& figures) {
  return fmt::format(
      "# Iteration {0}: cost change {1} \n# Iteration {0}: total cost {2} \n# Iteration {0}: refined cost {3} \n",
      figures.iteration, figures.cost_change_j, figures.total_cost_j, figures.refined_cost_j);
}

std::string zeus_comments(const PerseusPlanFigures& figures) {
  return fmt::format(
      "# Iteration {0} cost change: {1}\n# Iteration {0} total cost: {2}\n# Iteration {0} total cost with P2P: {3}\n",
      figures.iteration, figures.cost_change_j, figures.total_cost_j, figures.refined_cost_j);
}

}  // namespace

PerseusPlan read_perseus_plan(std::string_view text, const std::string& source) {
  if (text.size() > kMaxPerseusPlanBytes) {
    throw_input_error({source, 0, 0}, fmt::format("a plan of {} bytes is larger than any pipeline's", text.size()),
                      fmt::format("plans have at most {} bytes", kMaxPerseusPlanBytes));
  }
  return PlanParser(text, source).parse();
}

std::string write_perseus_plan(const PerseusPlan& plan, const PerseusPlanFigures& figures, PerseusDialect dialect) {
  std::string out = "[\n";
  for (const auto& stage : plan.stages) {
    out += '[';
    for (std::size_t i = 0; i < stage.size(); ++i) {
      out += i == 0 ? "" : ", ";
      write_entry(out, stage[i], dialect);
    }
    out += "],\n";
  }
  out += "]\n";
  out += dialect == PerseusDialect::artifact ? artifact_comments(figures) : zeus_comments(figures);
  return out;
}

PerseusPlan perseus_plan(const schedule::PipelineDag& dag, std::span<const int> clocks_mhz) {
  PerseusPlan plan;
  plan.stages.resize(static_cast<std::size_t>(dag.ranks));
  for (std::size_t i = 0; i < dag.ops.size(); ++i) {
    plan.stages[static_cast<std::size_t>(dag.ops[i].rank)].push_back({dag.ops[i].kind, clocks_mhz[i]});
  }
  return plan;
}

std::vector<int> clocks_for(const PerseusPlan& plan, const schedule::PipelineDag& dag) {
  if (plan.stages.size() != static_cast<std::size_t>(dag.ranks)) {
    throw InputError(fmt::format(
        "plan: it is for {} stages, but the schedule has {} ranks; use the schedule that the plan was made for",
        plan.stages.size(), dag.ranks));
  }
  std::vector<int> clocks_mhz;
  clocks_mhz.reserve(dag.ops.size());
  for (std::size_t rank = 0; rank < plan.stages.size(); ++rank) {
    const auto& entries = plan.stages[rank];
    const auto begin = static_cast<std::size_t>(dag.rank_begin[rank]);
    const auto count = static_cast<std::size_t>(dag.rank_begin[rank + 1]) - begin;
    if (entries.size() != count) {
      throw InputError(fmt::format(
          "plan: stage {} has {} clocks, but the schedule runs {} ops there; use the schedule and the number of "
          "microbatches that the plan was made for",
          rank, entries.size(), count));
    }
    for (std::size_t i = 0; i < count; ++i) {
      require_kind_fits(entries[i], dag.ops[begin + i], rank, i);
      clocks_mhz.push_back(entries[i].clock_mhz);
    }
  }
  return clocks_mhz;
}

void LiteralCursor::move_to(std::size_t position) { position_ = std::min(position, text_.size()); }

void LiteralCursor::skip_blank() {
  while (!at_end()) {
    if (peek() == '#') {
      move_to(text_.find('\n', position_));
    } else if (std::string_view(" \t\r\n\f").find(peek()) != std::string_view::npos) {
      ++position_;
    } else {
      return;
    }
  }
}

bool LiteralCursor::accept(char wanted) {
  skip_blank();
  if (at_end() || peek() != wanted) return false;
  ++position_;
  return true;
}

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
  if (!same) throw InputError("power states of Perseus' server belong to Merak's 1F1B: give --schedule 1f1b");
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
    throw InputError(fmt::format("power states of {} ranks cannot belong to {} stages", states.ranks.size(), stages));
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
    if (!of_rank.empty()) rank.fail(fmt::format("rank {} occurs twice", number));
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

}  // namespace lowgear::formats
