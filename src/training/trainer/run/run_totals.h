#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "report/experiment/run_validity.h"
#include "training/trainer/run/step_result.h"

namespace lowgear::trainer {

/// What a run comes to, as its summary shows it, in text and JSON: the first steps, in which memory is allocated and
/// clocks settle, are left out of the means.
struct RunSummary {
  std::int64_t first_step = 0;  ///< steps that were done before
  std::int64_t steps = 0;
  std::int64_t counted_steps = 0;
  double first_loss = 0;
  double last_loss = 0;
  std::optional<double> held_out_loss;  ///< as measured last
  double step_time_s = 0;               ///< mean
  std::optional<double> step_energy_j;  ///< mean, all GPUs
  double tokens_per_s = 0;
  std::optional<double> mfu;  ///< over the same time, 0 to 1; empty unless every step has one
  bool simulated = false;
  std::string invalid = {};        ///< why the figures mean nothing (run_validity.h); empty: they do
  std::string validity_note = {};  ///< about steps that do not count against the run
  std::int64_t lost_metrics = 0;   ///< steps whose metrics could not be written
  /// Steps in which a rank or more had no answer from the job's server; empty where it has none.
  std::optional<std::int64_t> steps_without_server;

  [[nodiscard]] std::string json() const;
  [[nodiscard]] std::string text() const;
};

/// Sums over the steps of a run.
class RunTotals {
 public:
  /// `steps` of the whole job, of which `first_step` were done before; each has `tokens_per_step`.
  RunTotals(std::int64_t first_step, std::int64_t steps, std::int64_t tokens_per_step);

  void add(const StepResult& result);
  void set_lost_metrics(std::int64_t steps) { summary_.lost_metrics = steps; }
  void set_steps_without_server(std::int64_t steps) { summary_.steps_without_server = steps; }
  [[nodiscard]] RunSummary summary() const;

 private:
  /// Steps that are left out of the means, unless there are no others.
  static constexpr std::int64_t kWarmUpSteps = 2;
  void count(const StepResult& result);

  std::int64_t left_out_;
  std::int64_t tokens_per_step_;
  RunSummary summary_;  ///< without its validity
  experiment::RunValidity validity_;
  double time_s_ = 0;  ///< of the steps that are counted; so are the others
  double energy_j_ = 0;
  bool all_energy_ = true;
  double time_at_peak_s_ = 0;  ///< that the steps would take at the GPUs' peak
  bool all_mfu_ = true;
};

}  // namespace lowgear::trainer
