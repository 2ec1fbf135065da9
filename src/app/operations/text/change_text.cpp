#include "app/operations/text/change_text.h"

#include <fmt/format.h>

namespace lowgear::operations {

std::string change_text(double pct) {
  const std::string text = fmt::format("{:+.2f} %", pct);
  return text == "-0.00 %" ? "+0.00 %" : text;
}

}  // namespace lowgear::operations
