#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/core/formats/json.h"

/// The server's responses to ranks (docs/server-api.md), except plans. There are readers of those that ranks read. They
/// throw InputError with the JSON path when a required member is missing; others have defaults, as another release may
/// leave them out.
namespace lowgear::protocol {

/// To POST /v1/jobs.
struct JobAnswer {
  std::string job;
  bool created = false;  ///< by this request
  std::string state;
  friend bool operator==(const JobAnswer&, const JobAnswer&) = default;
};
[[nodiscard]] Json to_json(const JobAnswer& answer);
[[nodiscard]] JobAnswer read_job_answer(const JsonView& answer);

/// To POST .../ranks.
struct RankAnswer {
  std::string rank_key;  ///< which the rank's requests carry in the header Lowgear-Rank-Key
  int plan_version = 0;  ///< the newest; 0: none
  friend bool operator==(const RankAnswer&, const RankAnswer&) = default;
};
[[nodiscard]] Json to_json(const RankAnswer& answer);
[[nodiscard]] RankAnswer read_rank_answer(const JsonView& answer);

/// Waits of a rank before it begins iterations, so that its job keeps a phase against others.
struct IterationDelays {
  std::int64_t from_iteration = 0;
  int iterations = 0;  ///< number of iterations from that one on
  double delay_s = 0;  ///< before each
  friend bool operator==(const IterationDelays&, const IterationDelays&) = default;
};

/// To POST .../reports.
struct ReportsAnswer {
  std::int64_t last_iteration = -1;         ///< that the rank has reported; -1: none
  int plan_version = 0;                     ///< the newest; 0: none
  bool wants_begins = false;                ///< reports should say when iterations begin
  std::optional<IterationDelays> delays{};  ///< empty: none
  friend bool operator==(const ReportsAnswer&, const ReportsAnswer&) = default;
};
[[nodiscard]] Json to_json(const ReportsAnswer& answer);
[[nodiscard]] ReportsAnswer read_reports_answer(const JsonView& answer);

/// To POST .../profile.
struct CellsAnswer {
  std::size_t accepted = 0;  ///< cells
};
[[nodiscard]] Json to_json(const CellsAnswer& answer);

/// To POST .../decisions.
struct DecisionsAnswer {
  std::size_t accepted = 0;  ///< decisions
};
[[nodiscard]] Json to_json(const DecisionsAnswer& answer);

/// To POST .../finish, and to DELETE of a job.
struct FinishAnswer {
  std::string state;  ///< of the job
};
[[nodiscard]] Json to_json(const FinishAnswer& answer);

}  // namespace lowgear::protocol
