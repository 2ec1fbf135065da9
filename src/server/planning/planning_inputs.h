#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/schedule/schedule.h"
#include "protocol/job_spec.h"
#include "protocol/rank_cells.h"

namespace lowgear::server {

/// Measurements of a model on a GPU. All jobs of the same profile key share it.
struct MeasuredProfile {
  std::vector<protocol::ProfileCell> cells;      ///< by stage, kind, highest clock first
  std::vector<protocol::BlockingCell> blocking;  ///< by stage, every stage once
  bool simulated = false;
};
/// By profile key, of jobs that ran before.
using MeasuredProfiles = std::map<std::string, std::shared_ptr<const MeasuredProfile>>;

/// Merges the measurements of all ranks: a stage's units take as long as on its slowest rank, for which a pipeline
/// waits, and use the mean of the ranks' energy. One entry for each rank, as of TrialSweep; of a cell that it names
/// twice the last counts. Throws InputError when a stage has no blocking power, or there are more cells than can be
/// stored.
[[nodiscard]] MeasuredProfile merge_cells(std::span<const protocol::RankCells> ranks, int stages);

[[nodiscard]] std::string write_measured_profile(const MeasuredProfile& profile);
/// Throws InputError.
[[nodiscard]] MeasuredProfile read_measured_profile(std::string_view text);

/// Units of one iteration of the largest job that the server takes: as many as still plan in seconds.
inline constexpr std::size_t kMaxJobActions = 1'000'000;

/// Early forwards of each pipeline rank of a job whose schedule is `envpipe`: those that it states, or those of
/// EnvPipe's rule where a backward takes twice the time of a forward. Empty for another schedule.
[[nodiscard]] std::vector<int> early_forwards(const protocol::JobSpec& spec);
/// Number of forwards and backwards in an iteration of one pipeline.
[[nodiscard]] std::size_t job_units(const protocol::JobSpec& spec);

/// Name of a job's schedule that is a CSV and has the orders of no schedule that Lowgear makes.
inline constexpr std::string_view kOwnSchedule = "the job's own";

/// The job's schedule without communication, with the name of one of Lowgear's also where the job states its orders as
/// a CSV. Throws InputError when there is no such schedule, it cannot run, or it does not fit the job's sizes.
[[nodiscard]] schedule::Schedule make_schedule(const protocol::JobSpec& spec);

}  // namespace lowgear::server
