#include "planning/schedule/torch_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "planning/schedule/schedule.h"

namespace lowgear::schedule {
namespace {

/// Meaning of a type of action for the pipeline.
struct ActionType {
  std::string_view name;
  bool in_pipeline = true;
  ActionKind kind = ActionKind::compute;
  OpKind op = OpKind::forward;
};

constexpr std::array kActionTypes{
    ActionType{"F", true, ActionKind::compute, OpKind::forward},
    ActionType{"B", true, ActionKind::compute, OpKind::backward},
    ActionType{"I", true, ActionKind::compute, OpKind::input_gradient},
    ActionType{"W", true, ActionKind::compute, OpKind::weight_gradient},
    ActionType{"R", true, ActionKind::compute, OpKind::recomputation},
    ActionType{"C", true, ActionKind::compute, OpKind::recomputing_backward},
    ActionType{"SEND_F", true, ActionKind::send_f, OpKind::forward},
    ActionType{"RECV_F", true, ActionKind::recv_f, OpKind::forward},
    ActionType{"SEND_B", true, ActionKind::send_b, OpKind::forward},
    ActionType{"RECV_B", true, ActionKind::recv_b, OpKind::forward},
    ActionType{"UNSHARD", false},
    ActionType{"RESHARD", false},
    ActionType{"REDUCE_GRAD", false},
};

constexpr std::string_view kOverlap = "OVERLAP_F_B";
constexpr std::string_view kActionForm =
    "write [stage][type][microbatch], as 0F3, 1B0, 2I1, 2W1, 0R3, 0C4, 0SEND_F3 or 1RECV_F3";

/// A whole backward before PyTorch renamed the parts of backwards.
constexpr std::string_view kOldBackward = "BW";
constexpr std::string_view kOldLetters = "as older PyTorch wrote it: BW is now B, B is I";

/// How to write what is no action.
std::string_view form_for(std::string_view text) {
  if (text.starts_with('#')) return "remove the comment: every line is a rank";
  if (text.find(';') != std::string_view::npos) return "separate the actions by commas";
  return kActionForm;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Reads the actions of one cell.
class CellReader {
 public:
  CellReader(std::string_view text, const SourceLocation& where) : text_(text), where_(where) {}

  void read(std::vector<Action>& actions) const {
    if (text_.empty()) return;
    if (text_.front() == '(') {
      read_overlap(actions);
    } else if (const auto action = read_action(text_)) {
      actions.push_back(*action);
    }
  }

 private:
  [[noreturn]] void fail(std::string_view what, std::string_view fix) const { throw_input_error(where_, what, fix); }

  [[nodiscard]] int read_number(std::string_view digits, std::string_view what) const {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || end != digits.data() + digits.size() || value >= static_cast<int>(kMaxActions)) {
      fail(fmt::format("{}: the {} is too large", quote(text_), what), fmt::format("at most {}", kMaxActions - 1));
    }
    return value;
  }

  /// Empty for an action that is no part of the pipeline.
  [[nodiscard]] std::optional<Action> read_action(std::string_view text) const {
    const auto type_begin = std::find_if_not(text.begin(), text.end(), is_digit);
    const auto type_end = std::find_if(type_begin, text.end(), is_digit);
    const std::string_view name(type_begin, type_end);
    const std::string_view stage(text.begin(), type_begin);
    const std::string_view microbatch(type_end, text.end());
    const auto type = std::find_if(kActionTypes.begin(), kActionTypes.end(),
                                   [&](const ActionType& candidate) { return candidate.name == name; });
    const bool ends_in_digits = std::all_of(microbatch.begin(), microbatch.end(), is_digit);
    if (type == kActionTypes.end() || stage.empty() || !ends_in_digits || (microbatch.empty() && type->in_pipeline)) {
      fail(fmt::format("{} is not an action", quote(text)), name == kOldBackward ? kOldLetters : form_for(text));
    }
    const int stage_number = read_number(stage, "stage");
    if (!type->in_pipeline) return std::nullopt;
    return Action{type->kind, type->op, stage_number, read_number(microbatch, "microbatch")};
  }

  void read_overlap(std::vector<Action>& actions) const {
    const std::size_t close = text_.find(')');
    if (close == std::string_view::npos || trimmed(text_.substr(close + 1)) != kOverlap) {
      fail(fmt::format("{} is not an action", quote(text_)), "write overlapped actions as (0F1;1B2)OVERLAP_F_B");
    }
    std::string_view rest = text_.substr(1, close - 1);
    while (true) {
      const std::size_t end = std::min(rest.find(';'), rest.size());
      const auto action = read_action(trimmed(rest.substr(0, end)));
      if (!action || action->kind != ActionKind::compute) {
        fail(fmt::format("{}: only computations overlap", quote(text_)), "write the others as cells of their own");
      }
      actions.push_back(*action);
      if (end == rest.size()) break;
      rest.remove_prefix(end + 1);
    }
  }

  std::string_view text_;
  const SourceLocation& where_;
};

/// Whether B and W of a stage and microbatch are there, and I nowhere: B was the input gradient.
bool has_old_letters(const Schedule& schedule) {
  if (runs(schedule, OpKind::input_gradient)) return false;
  std::set<std::pair<int, int>> whole;
  std::set<std::pair<int, int>> weight;
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (const Action& action : actions) {
      if (action.kind != ActionKind::compute) continue;
      if (action.op == OpKind::backward) whole.emplace(action.stage, action.microbatch);
      if (action.op == OpKind::weight_gradient) weight.emplace(action.stage, action.microbatch);
    }
  }
  return std::ranges::any_of(weight, [&](const auto& at) { return whole.contains(at); });
}

}  // namespace

Schedule read_torch_csv(std::string_view text, const std::string& source) {
  const std::vector<CsvRow> rows = parse_csv(text, source);
  if (rows.empty()) throw_input_error({source, 0, 0}, "is empty", "a schedule has one row per rank");
  Schedule schedule{source, 0, 0, {}};
  for (const CsvRow& row : rows) {
    auto& actions = schedule.ranks.emplace_back();
    for (const CsvCell& cell : row.cells) {
      const SourceLocation where{source, cell.line, cell.column};
      CellReader(trimmed(cell.text), where).read(actions);
    }
    for (const Action& action : actions) {
      schedule.stages = std::max(schedule.stages, action.stage + 1);
      schedule.microbatches = std::max(schedule.microbatches, action.microbatch + 1);
    }
  }
  schedule.frozen_stages = stages_without_backward(schedule);
  try {
    validate(schedule);
  } catch (const InputError& error) {
    if (!has_old_letters(schedule)) throw;
    throw InputError(fmt::format("{} ({})", error.what(), kOldLetters));
  }
  return schedule;
}

std::string write_torch_csv(const Schedule& schedule) {
  std::string text;
  for (const auto& actions : schedule.ranks) {
    for (std::size_t step = 0; step < actions.size(); ++step) {
      if (step > 0) text += ',';
      text += to_string(actions[step]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace lowgear::schedule
