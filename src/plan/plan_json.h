#pragma once

#include <string>
#include <string_view>

#include "plan/plan.h"

namespace lowgear {

/// Writes `lowgear.plan/1` (docs/formats.md): `stages` holds one object per rank with `stage` and its ordered `ops`
/// (`op,microbatch,mhz,start_s,duration_s`, and `virtual_stage` where a rank runs several).
[[nodiscard]] std::string write_plan(const Plan& plan);

/// Reads it back. Throws InputError with the JSON path on anything missing, of the wrong kind, out of range, or of
/// another format version.
[[nodiscard]] Plan read_plan(std::string_view text, const std::string& source);

}  // namespace lowgear
