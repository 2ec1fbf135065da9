#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "training/launcher/train_config.h"
#include "training/trainer/run/metrics_file.h"
#include "training/trainer/run/server_presence.h"
#include "training/trainer/run/training_run.h"

namespace lowgear::trainer {

/// What a run comes to: the first steps, in which memory is allocated and clocks settle, are left out of the means.
struct RunSummary {
  std::int64_t first_step = 0;  ///< steps that were done before
  std::int64_t steps = 0;
  std::int64_t counted_steps = 0;
  double first_loss = 0;
  double last_loss = 0;
  double step_time_s = 0;               ///< mean
  std::optional<double> step_energy_j;  ///< mean, all GPUs
  double tokens_per_s = 0;
  std::optional<double> mfu;  ///< over the same time, 0 to 1; empty unless every step has one
  bool simulated = false;
  bool invalid = false;
  std::int64_t lost_metrics = 0;  ///< steps whose metrics could not be written
  /// Steps in which a rank or more had no answer from the job's server; empty where it has none.
  std::optional<std::int64_t> steps_without_server;

  [[nodiscard]] std::string json() const;
  [[nodiscard]] std::string text() const;
};

/// Tells people and programs how training goes: a line now and then on standard output, a JSON line for every step in a
/// file.
class ProgressReport {
 public:
  enum class Output : unsigned char { lines, summary_json };
  /// `first_step` steps were done before. Throws what MetricsFile throws.
  ProgressReport(const launcher::TrainConfig& config, Output output, std::int64_t first_step);

  /// Before the first step: whether the job's server answers this rank, and what its trouble is. Said on standard error
  /// where it does not, as it is when that changes later.
  void observe_server(bool answers, const std::string& problem);
  /// Metrics that cannot be written are reported on standard error, the first of them at once.
  void add(const StepResult& result);
  /// Prints the summary, and on standard error how many metrics are lost and steps were done without the server.
  void finish();
  [[nodiscard]] const RunSummary& summary() const { return summary_; }

 private:
  static constexpr std::int64_t kWarmUpSteps = 2;
  void count_server(const StepResult& result);
  void write_metrics(const StepResult& result);
  void print_line(const StepResult& result);

  const launcher::TrainConfig* config_;
  Output output_;
  std::int64_t first_step_;
  bool terminal_;
  std::optional<MetricsFile> metrics_;
  std::optional<ServerPresence> server_;  ///< empty: the job has none
  RunSummary summary_;
  double time_s_ = 0;
  double energy_j_ = 0;
  bool all_energy_ = true;
  double time_at_peak_s_ = 0;  ///< that the steps would take at the GPUs' peak
  bool all_mfu_ = true;
  std::optional<std::chrono::steady_clock::time_point> printed_;
};

}  // namespace lowgear::trainer
