#include "planning/plan/perseus_plan.h"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <iterator>

#include "base/core/error.h"
#include "base/core/units.h"
#include "planning/plan/literal_cursor.h"

namespace lowgear::plan {

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

}  // namespace lowgear::plan
