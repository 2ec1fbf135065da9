#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "training/launcher/config/train_config.h"
#include "training/trainer/measuring/metrics_file.h"
#include "training/trainer/run/run_totals.h"
#include "training/trainer/run/server_presence.h"
#include "training/trainer/run/training_run.h"

namespace lowgear::trainer {

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
  [[nodiscard]] RunSummary summary() const { return totals_.summary(); }

 private:
  void count_server(const StepResult& result);
  void note_energy(const StepResult& result);
  void write_metrics(const StepResult& result);
  void print_envpipe(const StepResult& result) const;
  void print_line(const StepResult& result);

  const launcher::TrainConfig* config_;
  Output output_;
  bool terminal_;
  std::optional<MetricsFile> metrics_;
  std::optional<ServerPresence> server_;  ///< empty: the job has none
  RunTotals totals_;
  std::optional<std::chrono::steady_clock::time_point> printed_;
  bool said_by_power_ = false;
};

}  // namespace lowgear::trainer
