#include "planning/planner/exponential/perseus_guess.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::planner {
namespace {

constexpr std::string_view kShape = "the file is {'Forward': [(scale, rate, offset), ...], 'Backward': [...]}";

class GuessParser {
 public:
  GuessParser(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  InitialGuess parse() {
    expect('{');
    while (!accept('}')) {
      parse_instruction();
      if (!accept(',') && peek() != '}') fail();
    }
    skip_blank();
    if (position_ != text_.size() || guess_.empty()) fail();
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
      if (!accept(',') && peek() != end) fail();
    }
  }

  OpKind parse_kind() {
    skip_blank();
    const char mark = peek();
    if (mark != '\'' && mark != '"') fail();
    const std::size_t end = text_.find(mark, position_ + 1);
    const std::string_view word =
        end == std::string_view::npos ? std::string_view() : text_.substr(position_ + 1, end - position_ - 1);
    if (word != "Forward" && word != "Backward") fail();
    position_ = end + 1;
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
    skip_blank();
    const std::size_t end = std::min(text_.find_first_of(" \t\r\n,)]#", position_), text_.size());
    const auto value = parse_number(text_.substr(position_, end - position_));
    if (!value || !std::isfinite(*value)) {
      throw_input_error(locate(text_, std::min(position_, text_.size()), source_),
                        fmt::format("{} is not a finite number", quote(text_.substr(position_, end - position_))),
                        "write scale, rate and offset of each curve as numbers");
    }
    position_ = end;
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

  bool accept(char wanted) {
    skip_blank();
    if (peek() != wanted) return false;
    ++position_;
    return true;
  }

  void skip_blank() {
    while (position_ < text_.size()) {
      if (text_[position_] == '#') {
        position_ = std::min(text_.find('\n', position_), text_.size());
      } else if (std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos) {
        ++position_;
      } else {
        return;
      }
    }
  }

  /// NUL at the end, which nothing that is accepted is.
  [[nodiscard]] char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  [[noreturn]] void fail() const {
    throw_input_error(locate(text_, std::min(position_, text_.size()), source_), "no initial guess", kShape);
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t position_ = 0;
  InitialGuess guess_;
};

}  // namespace

InitialGuess read_initial_guess(std::string_view text, const std::string& source) {
  return GuessParser(text, source).parse();
}

}  // namespace lowgear::planner
