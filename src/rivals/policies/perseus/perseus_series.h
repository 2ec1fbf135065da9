#pragma once

#include <functional>
#include <span>
#include <string>

#include "planning/api/profiled_pipeline.h"
#include "planning/plan/plan.h"
#include "rivals/formats/perseus_plan.h"
#include "rivals/policies/perseus/exponential_fit.h"

namespace lowgear::policies {

/// One of several plans for Perseus or Zeus.
struct PerseusCandidate {
  formats::PerseusPlan plan;
  double effective_energy_j = 0;  ///< what plans of Perseus state: without blocking
  double energy_j = 0;            ///< blocking included
};

/// A plan for `pipeline` as Perseus takes it. Throws InputError when it is for another pipeline.
[[nodiscard]] PerseusCandidate perseus_candidate(const api::ProfiledPipeline& pipeline, const plan::Plan& plan);

/// Hands the text of each plan to `write` with its number, as lowtime numbers them: 0 is the slowest. Perseus' server
/// runs a folder in the order of names, and its users look for faster plans at higher numbers.
void write_perseus_series(std::span<const PerseusCandidate> fastest_first, formats::PerseusDialect dialect,
                          const std::function<void(int number, const std::string& text)>& write);

/// How a frontier of Perseus' own is written.
struct PerseusFrontierOptions {
  PerseusOptions model;
  plan::PlanSampling sampling;
  formats::PerseusDialect dialect = formats::PerseusDialect::artifact;
};

/// Hands the text of each sampled plan of the frontier of Perseus' model to `write`, slowest first, with its number:
/// the iteration of lowtime's loop that it is of. All figures in the text are the model's, as lowtime's are. Returns
/// how many were written. Throws what PerseusModel throws.
std::size_t write_perseus_frontier(const api::ProfiledPipeline& pipeline, const PerseusFrontierOptions& options,
                                   const std::function<void(int number, const std::string& text)>& write,
                                   Progress* progress = nullptr);

}  // namespace lowgear::policies
