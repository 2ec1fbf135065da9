#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/store/store.h"
#include "server/store/store_tables.h"

namespace lowgear::server {

struct SqliteStoreOptions {
  StoreRetention retention;
  /// Size of waiting changes at most; a further one has the outcome `busy`.
  std::size_t queue_bytes = std::size_t{64} << 20U;
  /// From `close` on: changes that are not written by then are refused. With the wait for another
  /// program that holds the file (5 s), this has to be less than the service manager's patience (TimeoutStopSec).
  std::chrono::milliseconds close_patience{15'000};
  /// Seconds since 1970, for rows that expire; empty: the system's clock.
  std::function<double()> now_s;
  /// Takes one line about what went wrong, and when it is over; called on the store's thread. May be empty.
  std::function<void(const std::string&)> log;
};

/// Counts of the store since it was opened.
struct StoreStatistics {
  std::uint64_t changes = 0;  ///< committed
  std::uint64_t commits = 0;  ///< flushes to the disk that carried them
  std::uint64_t refused = 0;  ///< changes with another outcome
  std::size_t queued_bytes = 0;
  bool disk_full = false;  ///< the last commit found no room
};

/// Keeps everything in an SQLite file in a folder that it holds for itself. One thread writes: all changes that wait
/// are committed together, with one flush to the disk, then their `done` callbacks are called. A change that
/// contradicts stored rows fails alone. When the disk is full all that wait get `disk_full`, and the next ones are
/// tried anew. Safe from any thread.
class SqliteStore final : public Store {
 public:
  /// Runs a function on the server's thread later; called on the store's thread.
  using Post = std::function<void(std::function<void()>)>;

  /// Opens the folder (server/store/state_folder.h), made if need be. Throws InputError also when the file is
  /// damaged, another program's or of another schema, and Error when the disk refuses.
  SqliteStore(const std::filesystem::path& folder, Post post, SqliteStoreOptions options = {});
  /// Closes.
  ~SqliteStore() override;
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;

  [[nodiscard]] StoreContents load() override;
  void write(StoreChange change, std::function<void(StoreOutcome)> done) override;
  void read_decisions(std::string job, std::int64_t after, int limit,
                      std::function<void(std::vector<StoredDecision>)> done) override;
  void read_archive(std::string job, std::function<void(std::optional<StoredArchive>)> done) override;
  void read_page(ExportQuery query, std::function<void(std::optional<ExportPage>)> done) override;

  /// Writes everything that waits, as far as `close_patience` lasts, and posts its outcomes; then lets go of the
  /// folder. Refused changes are `busy`, and the log states their number. Later changes fail.
  void close();
  [[nodiscard]] StoreStatistics statistics() const;

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

}  // namespace lowgear::server
