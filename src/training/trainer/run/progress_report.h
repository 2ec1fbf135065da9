#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "client/client.h"
#include "planning/adapt/techniques/technique_controller.h"
#include "protocol/rank_reports.h"
#include "report/experiment/run_record.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/measuring/metrics_file.h"
#include "training/trainer/run/step_result.h"
#include "training/trainer/run/training_run.h"

namespace lowgear::trainer {

/// Whether the server that plans a job answers its ranks, and how many steps were done without it.
class ServerPresence {
 public:
  /// A job of `ranks` ranks, which all talk to the server at `address`.
  ServerPresence(std::string address, int ranks) : address_(std::move(address)), ranks_(ranks) {}

  /// How many ranks get no response now, and what this one's trouble is (empty: it has none). Returns what to say to
  /// people: something only when the server has gone, or is back.
  [[nodiscard]] std::string observe(int ranks_without, const std::string& problem);
  /// A step was done as was observed last.
  void count_step();

  [[nodiscard]] std::int64_t steps_without() const { return steps_without_; }
  /// For the end of a run: `40 of 40 steps were done without the server: http://...: cannot be reached: ...`; empty
  /// when there was none.
  [[nodiscard]] std::string summary() const;

 private:
  std::string address_;
  int ranks_;
  bool away_ = false;
  std::string problem_;  ///< the newest
  std::int64_t steps_ = 0;
  std::int64_t steps_without_ = 0;
};

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
  std::string invalid = {};        ///< why the figures mean nothing (run_record.h); empty: they do
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

/// Reports what techniques decide, and what the job works on, to the job's server. Nothing happens without one.
class DecisionReports {
 public:
  /// Both outlive this.
  DecisionReports(const launcher::TrainConfig& config, client::Client& client)
      : config_(&config), client_(&client), in_fp8_(config.fp8 && !config.fp8->probe) {}

  /// After each step, on rank 0. Waits for nothing.
  void add(const StepResult& result);

 private:
  const launcher::TrainConfig* config_;
  client::Client* client_;
  bool in_fp8_;  ///< as configured, or as a probe has chosen
};

/// The decision as a server shows it: how the job runs from then on in words.
[[nodiscard]] protocol::TrainingDecision reported(const adapt::TechniqueDecision& decision,
                                                  const launcher::TrainConfig& config);

/// For people at the end of a run; empty when the server has all decisions, or may still get them.
[[nodiscard]] std::string unsent_decisions(const client::Status& status);

}  // namespace lowgear::trainer
