#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/core/formats/json.h"
#include "planning/profile/few_clock_fit.h"
#include "planning/profile/latency/switch_latency.h"
#include "planning/profile/recorded_profile.h"

namespace lowgear::cli {

/// What was measured, with errors, as a table for people and as JSON.
[[nodiscard]] std::string recorded_table(const profile::RecordedProfile& profile);
[[nodiscard]] Json recorded_json(const profile::RecordedProfile& profile);

/// Bytes of a microbatch's activations by stage; empty where they were not measured.
[[nodiscard]] std::string activations_text(std::span<const double> bytes_by_stage);

/// What recordings tell of the switch latency.
[[nodiscard]] std::string switch_latency_text(const std::optional<profile::SwitchLatency>& latency);
[[nodiscard]] Json switch_latency_json(const profile::SwitchLatency& latency);

/// A profile that was filled: rows say whether they are measured or predicted.
[[nodiscard]] std::string filled_table(const profile::FewClockFit& fit);
[[nodiscard]] Json filled_json(const profile::FewClockFit& fit);

/// The companion of a profile, `stage,instruction,frequency,origin,time_error,energy_error,throttled`: origin is
/// `measured` or `predicted`, errors are standard errors in s and J, empty where they are not known.
[[nodiscard]] std::string error_csv(const profile::RecordedProfile& profile);
/// The same of one that was filled; `recorded` gives the errors of measured rows where it has them, and may be null.
[[nodiscard]] std::string error_csv(const profile::FewClockFit& fit, const profile::RecordedProfile* recorded);

}  // namespace lowgear::cli
