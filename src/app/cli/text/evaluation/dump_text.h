#pragma once

#include <span>
#include <string>

#include "base/core/formats/json.h"
#include "report/evaluation/dump.h"

namespace lowgear::cli {

/// The windows of each job, with what they save against its windows 0 and 1.
[[nodiscard]] std::string dumps_text(std::span<const evaluation::Dump> dumps);
[[nodiscard]] Json dumps_json(std::span<const evaluation::Dump> dumps);

}  // namespace lowgear::cli
