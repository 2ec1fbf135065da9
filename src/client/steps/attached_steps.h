#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "client/client.h"
#include "client/periodic_thread.h"
#include "client/steps/lengths_file.h"
#include "client/steps/step_clocks.h"
#include "client/steps/step_planning.h"
#include "client/steps/told_lengths.h"
#include "planning/schedule/schedule.h"
#include "planning/steps/work_model.h"

namespace lowgear::client {

struct AttachedStepsOptions {
  schedule::Schedule schedule;
  int replicas = 1;
  int replica = 0;
  int pp_rank = 0;
  bool speaks = true;               ///< for the job: one rank records lengths and reports their faults
  std::optional<StepFiles> files;   ///< empty: lengths are recorded alone
  std::filesystem::path recording;  ///< folder in which lengths are recorded; empty: they are not
};

/// What becomes of the lengths that a job tells: clocks of each iteration, and the recording's lengths.csv.
class AttachedSteps {
 public:
  /// The client outlives this. Throws InputError as read_step_planning, and where the schedule has no such rank.
  AttachedSteps(AttachedStepsOptions options, Client& client);
  AttachedSteps(const AttachedSteps&) = delete;
  AttachedSteps& operator=(const AttachedSteps&) = delete;
  ~AttachedSteps() = default;

  /// As ToldLengths::tell. Does not wait: planning and writing is done by other threads.
  void tell(std::int64_t iteration, int replica, std::span<const steps::Amounts> microbatches);
  /// By the training thread: neither waits nor makes a system call.
  void iteration_begins(std::uint64_t number) noexcept;
  /// At the end, once. As StepClocks::finish; empty where lengths are recorded alone.
  [[nodiscard]] std::optional<std::string> finish();

 private:
  void look_after();

  AttachedStepsOptions options_;
  ToldLengths told_;
  std::atomic<std::int64_t> begun_{-1};
  std::int64_t written_ = -1;  ///< newest iteration whose lengths are recorded
  std::optional<LengthsFile> file_;
  std::optional<StepClocks> clocks_;
  std::optional<PeriodicThread> thread_;  ///< last: it uses everything above
};

}  // namespace lowgear::client
