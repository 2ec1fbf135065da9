#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/backoff.h"
#include "server/store/store.h"

namespace lowgear::server {

/// Between attempts at what the store has refused: 1 s, then twice as long each time, a minute at most.
[[nodiscard]] Backoff<double> store_backoff();

/// The store with its state, that is the outcome of the last change. Detects when the store accepts changes again.
class WatchedStore {
 public:
  /// `store` outlives it. `now_s`: seconds since 1970; `log` receives what an operator should know, and may be empty.
  WatchedStore(Store* store, std::function<double()> now_s, std::function<void(std::string_view)> log);

  /// As Store::write.
  void write(StoreChange change, std::function<void(StoreOutcome)> done);
  /// While the store is not well and nothing is written: writes from time to time only to learn how it is. What was
  /// refused may be written by no job again: a signal is refused to whoever has put it, and then forgotten.
  void probe();
  [[nodiscard]] StoreOutcome health() const { return health_; }

  /// As those of Store.
  void read_decisions(std::string job, std::int64_t after, int limit,
                      std::function<void(std::vector<StoredDecision>)> done) const;
  void read_archive(std::string job, std::function<void(std::optional<StoredArchive>)> done) const;
  void read_page(ExportQuery query, std::function<void(std::optional<ExportPage>)> done) const;

 private:
  void note(StoreOutcome outcome);

  Store* store_;
  std::function<double()> now_s_;
  std::function<void(std::string_view)> log_;
  StoreOutcome health_ = StoreOutcome::committed;
  std::uint64_t writes_under_way_ = 0;
  double probe_s_ = 0;  ///< when it is written to next only to learn how it is
  Backoff<double> backoff_ = store_backoff();
};

}  // namespace lowgear::server
