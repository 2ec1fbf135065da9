#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "client/client.h"
#include "client/periodic_thread.h"
#include "client/steps/begun_steps.h"
#include "client/steps/step_clocks.h"
#include "client/steps/step_planning.h"
#include "client/steps/step_rows.h"
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
  void iteration_begins(std::uint64_t number) noexcept { begun_.begins(static_cast<std::int64_t>(number)); }
  /// Whether iterations are planned.
  [[nodiscard]] bool plans() const { return clocks_.has_value(); }
  /// At the end, once. As StepClocks::finish; empty where lengths are recorded alone. Standard error says how many
  /// iterations' lengths were not recorded, unless none were told.
  [[nodiscard]] std::optional<std::string> finish();

 private:
  void record();
  void leave_out_before(std::int64_t iteration);

  AttachedStepsOptions options_;
  BegunSteps begun_;
  ToldLengths told_;
  std::optional<StepClocks> clocks_;

  // Of the thread, which is there where this rank records.
  BegunSteps::Run run_;                          ///< as it was when it was looked at last
  std::int64_t seen_ = -1;                       ///< newest iteration that was looked at
  std::int64_t recorded_ = 0;                    ///< iterations whose lengths are recorded
  std::map<std::int64_t, std::string> waiting_;  ///< iterations that have begun, and why they are not recorded yet
  std::int64_t left_out_ = 0;                    ///< iterations whose lengths are not recorded
  std::string why_left_out_;                     ///< of the first
  std::optional<StepRows> file_;
  std::optional<PeriodicThread> thread_;  ///< last: it uses everything above
};

}  // namespace lowgear::client
