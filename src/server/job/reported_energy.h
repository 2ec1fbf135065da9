#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/rank_cells.h"
#include "protocol/rank_reports.h"
#include "server/job/rank_registry.h"

namespace lowgear::server {

/// Reports without the energies that no GPU can have used, and those that count elsewhere. Times stay.
struct JudgedReports {
  protocol::RankReports reports;
  std::vector<std::string_view> left_out;  ///< a word for metrics, by energy left out
  std::string decision;                    ///< the rank's energies count from now on, or no longer; empty: as before
};

/// The job's progress before the reports.
struct ReportedBefore {
  std::int64_t iteration = -1;  ///< last one of this rank, judged already
  int plan_version = 0;         ///< newest that was issued
};

/// Judges new reports by the GPU of `rank`, and notes in it whether its energies count.
[[nodiscard]] JudgedReports judge(const protocol::RankReports& reports, RegisteredRank& rank,
                                  const ReportedBefore& before);

/// Cells without those that no GPU can have measured.
struct JudgedCells {
  protocol::RankCells cells;
  std::string decision;  ///< number of cells left out, and why the first was; empty: none
};
[[nodiscard]] JudgedCells judge(const protocol::RankCells& cells, const RegisteredRank& rank);

}  // namespace lowgear::server
