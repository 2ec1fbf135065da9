#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "client/client.h"
#include "planning/adapt/change_controller.h"
#include "protocol/rank_reports.h"
#include "report/experiment/run_record.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/measuring/metrics_file.h"
#include "training/trainer/run/iteration_result.h"
#include "training/trainer/run/training_run.h"

namespace lowgear::trainer {

/// Whether the job's server responds to its ranks, and the number of steps without it.
class ServerPresence {
 public:
  /// A job of `ranks` ranks, which all report to the server at `address`.
  ServerPresence(std::string address, int ranks) : address_(std::move(address)), ranks_(ranks) {}

  /// `ranks_without` get no response; `problem` is this rank's, or empty. Returns a message for people when the server
  /// has gone or is back; otherwise it is empty.
  [[nodiscard]] std::string observe(int ranks_without, const std::string& problem);
  /// Counts a step, as without the server if that was observed last.
  void count_step();

  [[nodiscard]] std::int64_t steps_without() const { return steps_without_; }
  /// For the end of a run: `40 of 40 steps were done with up to 4 of 4 ranks without the server: http://...: cannot be
  /// reached: ...`; empty when there was none.
  [[nodiscard]] std::string summary() const;

 private:
  std::string address_;
  int ranks_;
  int ranks_without_ = 0;  ///< as observed last
  int most_without_ = 0;
  std::string problem_;  ///< the newest of this rank; where it had none, the first of others
  std::int64_t steps_ = 0;
  std::int64_t steps_without_ = 0;
};

/// Summary of a run as text and JSON. Means leave out the first steps, in which memory is allocated and clocks settle.
struct RunSummary {
  std::int64_t first_step = 0;  ///< steps that were done before
  std::int64_t steps = 0;
  std::int64_t counted_steps = 0;
  double first_loss = 0;
  double last_loss = 0;
  std::optional<double> held_out_loss;  ///< the last one
  double step_time_s = 0;               ///< mean
  std::optional<double> step_energy_j;  ///< mean, all GPUs
  double tokens_per_s = 0;
  std::optional<double> mfu;  ///< over the same time, 0 to 1; empty unless every step has one
  bool simulated = false;
  std::string invalid = {};                    ///< why the figures are invalid (run_record.h); empty: they are valid
  std::string validity_note = {};              ///< about steps that do not count against the run
  std::int64_t lost_metrics = 0;               ///< steps whose metrics could not be written
  std::optional<int> ranks_without_recording;  ///< whose recording ended early; empty: nothing is recorded
  /// Steps in which a rank got no response from the server; empty: the job has no server.
  std::optional<std::int64_t> steps_without_server;

  [[nodiscard]] std::string json() const;
  [[nodiscard]] std::string text() const;
};

/// Sums over the steps of a run.
class RunTotals {
 public:
  /// `steps` of the whole job, of which `first_step` were done before; each has `tokens_per_step`.
  RunTotals(std::int64_t first_step, std::int64_t steps, std::int64_t tokens_per_step);

  void add(const IterationResult& result);
  void set_lost_metrics(std::int64_t steps) { summary_.lost_metrics = steps; }
  void set_ranks_without_recording(int ranks) { summary_.ranks_without_recording = ranks; }
  void set_steps_without_server(std::int64_t steps) { summary_.steps_without_server = steps; }
  [[nodiscard]] RunSummary summary() const;

 private:
  /// Steps that are left out of the means, unless there are no others.
  static constexpr std::int64_t kWarmUpSteps = 2;
  void count(const IterationResult& result);

  std::int64_t left_out_;
  std::int64_t tokens_per_step_;
  RunSummary summary_;  ///< without its validity
  experiment::RunValidity validity_;
  double time_s_ = 0;  ///< of the steps that are counted; so are the others
  double energy_j_ = 0;
  bool all_energy_ = true;
  double time_at_peak_s_ = 0;  ///< of the steps at the GPUs' peak
  bool all_mfu_ = true;
};

/// Whether the figures of simulated GPUs count, where that is news.
class ValidityNews {
 public:
  /// Of each step. False from the third invalid step in a row on, true when they count again; empty: no news.
  [[nodiscard]] std::optional<bool> observe(bool invalid);

 private:
  int invalid_steps_ = 0;  ///< in a row
};

/// Reports the progress of a training: some lines on standard output, and a JSON line for every step in a file.
class ProgressReport {
 public:
  enum class Output : unsigned char { lines, summary_json };
  /// `first_step` steps were done before. Throws what MetricsFile throws.
  ProgressReport(const launcher::TrainConfig& config, Output output, std::int64_t first_step);

  /// Before the first step: whether the server responds to this rank, and its problem. Problems and later changes are
  /// reported on standard error.
  void observe_server(bool answers, const std::string& problem);
  /// Metrics that cannot be written are reported on standard error, the first of them at once.
  void add(const IterationResult& result);
  /// Prints the summary, and on standard error how many metrics are lost, recordings ended before the last step, and
  /// steps were done without the server.
  void finish();
  [[nodiscard]] RunSummary summary() const { return totals_.summary(); }

 private:
  void count_server(const IterationResult& result);
  void note_energy(const IterationResult& result);
  void note_simulation(const IterationResult& result);
  void write_metrics(const IterationResult& result);
  void print_envpipe(const IterationResult& result) const;
  void print_line(const IterationResult& result);

  const launcher::TrainConfig* config_;
  Output output_;
  bool terminal_;
  bool line_is_open_ = false;  ///< of a terminal, which the next step changes
  std::optional<MetricsFile> metrics_;
  std::optional<ServerPresence> server_;  ///< empty: the job has none
  RunTotals totals_;
  std::optional<std::chrono::steady_clock::time_point> printed_;
  bool said_by_power_ = false;
  bool said_idle_ = false;
  ValidityNews validity_;
};

/// Reports decisions about changes, the current work of the job, and whether its figures are invalid, to its server.
/// Does nothing without one.
class DecisionReports {
 public:
  /// Both outlive this.
  DecisionReports(const launcher::TrainConfig& config, client::Client& client)
      : config_(&config), client_(&client), in_fp8_(config.fp8 && !config.fp8->probe) {}

  /// After each step, on rank 0. Never waits.
  void add(const IterationResult& result);

 private:
  void report_validity(const IterationResult& result);

  const launcher::TrainConfig* config_;
  client::Client* client_;
  bool in_fp8_;  ///< as configured, or chosen by a probe
  ValidityNews validity_;
};

/// The decision as the server shows it, with the configuration in words.
[[nodiscard]] protocol::TrainingDecision reported(const adapt::ChangeDecision& decision,
                                                  const launcher::TrainConfig& config);

/// A message about decisions that the server will not get, at the end of a run; empty: there are none.
[[nodiscard]] std::string unsent_decisions(const client::Status& status);

}  // namespace lowgear::trainer
