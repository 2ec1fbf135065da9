#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/core/formats/json.h"
#include "estimating/power/predicted_clocks.h"
#include "planning/profile/compose/composed_profile.h"
#include "planning/profile/few_clock_fit.h"
#include "planning/profile/recorded_profile.h"
#include "planning/profile/recording.h"
#include "planning/profile/stage_profile.h"
#include "planning/profile/switch_latency.h"
#include "planning/steps/work_model.h"
#include "report/report/html_page.h"

namespace lowgear::cli {

/// The measured profile with its errors, as a table and as an object.
[[nodiscard]] std::string recorded_table(const profile::RecordedProfile& profile);
[[nodiscard]] Json recorded_json(const profile::RecordedProfile& profile);

/// Bytes of a microbatch's activations by stage; empty where they were not measured.
[[nodiscard]] std::string activations_text(std::span<const double> bytes_by_stage);

/// The switch latency that recordings show, or why they show none.
[[nodiscard]] std::string switch_latency_text(const std::optional<profile::SwitchLatency>& latency,
                                              std::span<const profile::Recording> recordings);
[[nodiscard]] Json switch_latency_json(const profile::SwitchLatency& latency);

/// Times by length at the highest clock, with their standard errors.
[[nodiscard]] std::string work_table(const steps::WorkModel& work);

/// A filled profile: each row says whether it is measured (`simulated`: on simulated GPUs) or predicted.
[[nodiscard]] std::string filled_table(const profile::FewClockFit& fit, bool simulated);
[[nodiscard]] Json filled_json(const profile::FewClockFit& fit, bool simulated);

/// Origin of predicted clocks: the part of each op's time that follows the clock, recorded or assumed. Empty without
/// shares.
[[nodiscard]] std::string time_shares_table(std::span<const power::TimeShare> shares);
[[nodiscard]] Json time_shares_json(std::span<const power::TimeShare> shares);

/// The companion of a profile, `stage,instruction,frequency,origin,time_error,energy_error,throttled`: origin is
/// `measured`, `simulated` or `predicted`, errors are standard errors in s and J, empty where they are unknown.
[[nodiscard]] std::string error_csv(const profile::RecordedProfile& profile);
/// The companion of a filled profile. `recorded` gives the errors of measured rows that it has, and may be null.
[[nodiscard]] std::string error_csv(const profile::FewClockFit& fit, const profile::RecordedProfile* recorded,
                                    bool simulated);

/// The origin of every (stage, kind, clock) of a composed profile, as a table and as an object.
[[nodiscard]] std::string composed_table(const profile::ComposedProfile& composed);
[[nodiscard]] Json composed_json(const profile::ComposedProfile& composed);

/// The page of a stage profile: energy over clock of every stage and kind, and where it is least. `basis` says how the
/// rows were made: `measured`, `simulated`.
[[nodiscard]] report::Page profile_page(const profile::StageProfile& profile, const std::string& basis,
                                        std::string command);

}  // namespace lowgear::cli
