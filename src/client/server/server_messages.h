#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/http/message/message.h"
#include "client/measure/iteration_meter.h"
#include "client/rank/rank_environment.h"
#include "client/server/profile_collector.h"
#include "protocol/rank_cells.h"
#include "protocol/rank_reports.h"

namespace lowgear::client {

/// An iteration as it is reported. `plan_version` was followed throughout; 0: none of the server's.
[[nodiscard]] protocol::IterationReport report_of(const MeasuredIteration& measured, int plan_version);

/// The message of a decision, without number and age: its texts as the server accepts them. Throws InputError when
/// technique or change is no word.
[[nodiscard]] protocol::TrainingDecision sendable(protocol::TrainingDecision decision);
/// Throws InputError when a number is out of range or the precision is no word.
[[nodiscard]] protocol::JobWork sendable(protocol::JobWork work);
/// The printable part of a text that fits into this number of bytes, in whole characters.
[[nodiscard]] std::string fitting_text(std::string_view text, std::size_t bytes);

/// What units took, as it is posted. Cells whose energy is not known are left out.
[[nodiscard]] protocol::RankCells cells_of(int rank, const ProfileResult& result);

/// The job as it is registered: `text` with `run`, `user` and `gpu` filled in where it does not name them; an empty
/// user is none. Throws InputError when the text is no JSON object, or neither it nor the rank says which start of a
/// job this is.
[[nodiscard]] std::string complete_job(std::string_view text, const RankInfo& rank, const std::string& gpu);

/// The error of this server's response for display: http::refusal_text, and where no token is needed.
[[nodiscard]] std::string refusal_of(int status, std::string_view answer, const http::Endpoint& server);

}  // namespace lowgear::client
