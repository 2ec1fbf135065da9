#pragma once

#include "report/report/report_data.h"

namespace lowgear::report {

/// A report on an invented 1F1B pipeline, filled by simple arithmetic: as large and as varied as a real one, with no
/// claim to be optimal. Ops are slowed down one by one as far as the iteration allows.
[[nodiscard]] Data sample_report(int ranks, int microbatches);

/// `copies` of a timeline one after the other, with microbatches counted on: many ops in little time.
[[nodiscard]] Timeline repeated(const Timeline& once, int copies);

}  // namespace lowgear::report
