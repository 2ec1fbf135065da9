#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/core/backoff.h"
#include "server/fleet/watched_store.h"
#include "server/store/store.h"

namespace lowgear::server {

/// Called when a requested change is on disk, or cannot be written.
using Settled = std::function<void(StoreOutcome)>;

/// The changes of one job on their way to the store: which are pending, what was refused and when it is written again,
/// and which requests wait for an outcome. Refused reports are not written again automatically: their sender receives
/// no confirmation, and sends them again.
class JobWrites {
 public:
  /// A change that the store was given, as far as it is needed should it be refused: without the documents of reports,
  /// nearly all of what is written.
  using Given = StoreChange;
  [[nodiscard]] Given give(const StoreChange& change);
  /// The store's answer to it.
  void answer(const Given& given, StoreOutcome outcome, double now_s);
  [[nodiscard]] bool all_answered() const { return answered_ == given_; }
  /// For a request that changes nothing, as an earlier one has said the same: its outcome is that of what was given
  /// until now. Called at once when all of that is answered.
  void acknowledge(Settled settled);

  /// Whether what was refused may be written again, whoever asks: the longer the store refuses, the less often.
  [[nodiscard]] bool is_due(double now_s) const { return now_s >= retry_s_; }
  [[nodiscard]] bool has_refused() const { return has_refused_; }
  /// Ranks whose rows were refused. The owner writes them, and the state of the job, as they are by then.
  [[nodiscard]] const std::set<int>& refused_ranks() const { return refused_ranks_; }
  /// Moves the other rows that were refused into the change, which is about to be given. Nothing is refused then.
  void take_refused(StoreChange& change);
  /// Adds reports that ranks have sent again to the change, as far as the store has refused them before.
  void add_repeated(std::vector<StoredReports> repeated, StoreChange& change);

 private:
  /// A request that waits until what was given before it is answered.
  struct PendingAck {
    std::uint64_t given = 0;
    std::uint64_t refusals = 0;
    Settled settled;
  };

  std::uint64_t given_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t refusals_ = 0;
  std::deque<PendingAck> acks_;  ///< in the order in which they came
  bool has_refused_ = false;
  StoreChange refused_;          ///< plans, cells, decisions, documents and usage
  std::set<int> refused_ranks_;  ///< whose rows were refused
  /// By rank, the first and the last iteration of its reports that were refused.
  std::map<int, std::pair<std::int64_t, std::int64_t>> refused_reports_;
  double retry_s_ = 0;
  Backoff<double> backoff_ = store_backoff();
};

}  // namespace lowgear::server
