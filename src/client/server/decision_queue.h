#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "protocol/rank_decisions.h"

namespace lowgear::client {

/// What the training program decided about the job, until the server has it, and what it works on. The newest
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

}  // namespace lowgear::client
