#include "planning/planner/exponential/perseus_guess.h"

#include <fmt/format.h>

#include <cmath>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "planning/plan/literal_cursor.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::planner {
namespace {

constexpr std::string_view kShape = "the file is {'Forward': [(scale, rate, offset), ...], 'Backward': [...]}";

class GuessParser {
 public:
  GuessParser(std::string_view text, const std::string& source) : cursor_(text), source_(source) {}

  InitialGuess parse() {
    expect('{');
    while (!accept('}')) {
      parse_instruction();
      if (!accept(',') && cursor_.peek() != '}') fail();
    }
    cursor_.skip_blank();
    if (!cursor_.at_end() || guess_.empty()) fail();
    return guess_;
  }

 private:
  void parse_instruction() {
    const OpKind kind = parse_kind();
    expect(':');
    const char end = open();
    int stage = 0;
    while (!accept(end)) {
      if (stage == profile::kMaxStages || !guess_.emplace(std::pair(stage, kind), parse_curve()).second) fail();
      ++stage;
      if (!accept(',') && cursor_.peek() != end) fail();
    }
  }

  OpKind parse_kind() {
    cursor_.skip_blank();
    const char mark = cursor_.peek();
    if (mark != '\'' && mark != '"') fail();
    const std::size_t begin = cursor_.position() + 1;
    const std::size_t end = cursor_.text().find(mark, begin);
    const std::string_view word =
        end == std::string_view::npos ? std::string_view() : cursor_.text().substr(begin, end - begin);
    if (word != "Forward" && word != "Backward") fail();
    cursor_.move_to(end + 1);
    return word == "Forward" ? OpKind::forward : OpKind::backward;
  }

  ExponentialCurve parse_curve() {
    const char end = open();
    ExponentialCurve curve;
    curve.scale_j = parse_value();
    expect(',');
    curve.rate_per_unit = parse_value();
    expect(',');
    curve.offset_j = parse_value();
    accept(',');
    expect(end);
    return curve;
  }

  double parse_value() {
    cursor_.skip_blank();
    const std::size_t begin = cursor_.position();
    const std::string_view word =
        cursor_.text().substr(begin, cursor_.text().find_first_of(" \t\r\n,)]#", begin) - begin);
    const auto value = parse_number(word);
    if (!value || !std::isfinite(*value)) {
      throw_input_error(location(), fmt::format("{} is not a finite number", quote(word)),
                        "write scale, rate and offset of each curve as numbers");
    }
    cursor_.move_to(begin + word.size());
    return *value;
  }

  /// Opens a list or tuple; returns what closes it.
  char open() {
    if (accept('[')) return ']';
    expect('(');
    return ')';
  }

  void expect(char wanted) {
    if (!accept(wanted)) fail();
  }

  bool accept(char wanted) { return cursor_.accept(wanted); }

  [[noreturn]] void fail() const { throw_input_error(location(), "no initial guess", kShape); }
  [[nodiscard]] SourceLocation location() const { return locate(cursor_.text(), cursor_.position(), source_); }

  plan::LiteralCursor cursor_;
  const std::string& source_;
  InitialGuess guess_;
};

}  // namespace

InitialGuess read_initial_guess(std::string_view text, const std::string& source) {
  return GuessParser(text, source).parse();
}

}  // namespace lowgear::planner
