#include "planning/plan/literal_cursor.h"

#include <algorithm>

namespace lowgear::plan {

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

}  // namespace lowgear::plan
