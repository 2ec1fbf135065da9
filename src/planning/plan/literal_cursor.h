#pragma once

#include <cstddef>
#include <string_view>

namespace lowgear::plan {

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

}  // namespace lowgear::plan
