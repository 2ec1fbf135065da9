#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "client/server/profile_collector.h"
#include "protocol/rank_reports.h"

namespace lowgear::client {

/// The training program's decisions about the job until the server has them, and the job's work. The newest
/// decisions are kept also after that, for a job of this run that the server begins later. Not thread-safe.
class DecisionQueue {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxDecisions = 1'000;

  /// Its `number` and `age_s` are set here.
  void add(protocol::TrainingDecision decision, Clock::time_point now);
  void set_work(protocol::JobWork work);

  [[nodiscard]] bool empty() const { return waiting() == 0 && (!work_ || work_sent_); }
  /// The body of the next request; empty: there is nothing to send. Follows `sent` where the server has responded.
  [[nodiscard]] std::optional<protocol::RankDecisions> next(int rank, Clock::time_point now);
  /// The server has responded to this body. `taken`: with success; decisions that it will never take are lost.
  void sent(const protocol::RankDecisions& body, bool taken);
  /// The server's job is another one, which knows nothing of this.
  void begin_job();

  /// Decisions that are to be sent.
  [[nodiscard]] std::uint64_t waiting() const { return static_cast<std::uint64_t>(added_ - sent_); }
  /// Decisions that the server will not get.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  struct Kept {
    protocol::TrainingDecision decision;
    Clock::time_point made;
  };

  std::deque<Kept> kept_;  ///< numbers rise
  std::int64_t added_ = 0;
  std::int64_t sent_ = 0;  ///< the highest number that needs not be sent any more
  std::uint64_t lost_ = 0;
  std::optional<protocol::JobWork> work_;
  bool work_sent_ = false;
  bool requested_ = false;  ///< since the job began
};

/// Messages of a rank until the server has received them: iterations, profiles, decisions, the state of its GPU
/// and why it follows no plans. The oldest are dropped beyond a limit. Not thread-safe.
class Outbox {
 public:
  /// Some three hours of iterations of half a second, 2 MiB.
  static constexpr std::size_t kMaxReports = 20'000;
  static constexpr std::size_t kMaxProfiles = 8;

  void add(const protocol::IterationReport& report, const protocol::GpuNow& gpu);
  void add(ProfileResult result);
  /// The server is to hear that the rank trains, though there is nothing to report.
  void hear(const protocol::GpuNow& gpu);
  /// Why the rank follows no plans from now on; empty: it does. False: that was said before.
  bool set_refusal(std::string reason);

  [[nodiscard]] bool empty() const { return !speaks_ && reports_.empty() && profiles_.empty() && decisions_.empty(); }
  /// The body of the next request with reports; empty: nothing is to be said. Follows `heard` or `not_heard`.
  [[nodiscard]] std::optional<protocol::RankReports> next_reports(int rank);
  /// The server has answered to this body. `taken`: with success; reports that it will never take are lost.
  void heard(const protocol::RankReports& body, bool taken);
  /// Sends all messages again.
  void not_heard() { speaks_ = true; }

  [[nodiscard]] std::optional<ProfileResult> next_profile() const;
  /// The server has answered to the profile of this plan.
  void heard_profile(int plan_version);

  [[nodiscard]] DecisionQueue& decisions() { return decisions_; }
  [[nodiscard]] const DecisionQueue& decisions() const { return decisions_; }

  /// Reports and profiles are of a job that is gone; decisions are sent to the next one.
  void drop_job();
  /// Reports that were dropped.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  std::deque<protocol::IterationReport> reports_;
  std::deque<ProfileResult> profiles_;
  DecisionQueue decisions_;
  protocol::GpuNow gpu_;
  std::string refusal_;
  bool speaks_ = false;  ///< the server is to hear of the rank, also without reports
  std::uint64_t lost_ = 0;
};

}  // namespace lowgear::client
