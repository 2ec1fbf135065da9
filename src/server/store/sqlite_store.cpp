#include "server/store/sqlite_store.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/core/error.h"
#include "server/store/database.h"
#include "server/store/state_folder.h"

namespace lowgear::server {
namespace {

using namespace std::chrono_literals;

/// Largest transaction: those that wait longer get their answers earlier.
constexpr std::size_t kBatchBytes = std::size_t{8} << 20U;
/// How often jobs that finished long ago are looked for.
constexpr auto kExpiryInterval = 1h;

using Done = std::function<void(StoreOutcome)>;

double system_now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

StoreOutcome outcome_of(DatabaseFault fault) {
  if (fault == DatabaseFault::disk_full) return StoreOutcome::disk_full;
  return fault == DatabaseFault::locked ? StoreOutcome::busy : StoreOutcome::failed;
}

/// Memory of a waiting change; the constant stands for its row, key and callback.
std::size_t bytes_of(const StoreChange& change) {
  constexpr std::size_t kRowBytes = 128;
  std::size_t bytes = kRowBytes;
  for (const auto& job : change.jobs) bytes += kRowBytes + job.run.size() + job.spec.size() + job.state.size();
  const auto add = [&](const auto& rows) {
    for (const auto& row : rows) bytes += kRowBytes + row.document.size();
  };
  add(change.ranks);
  add(change.reports);
  add(change.plans);
  add(change.cells);
  add(change.decisions);
  add(change.documents);
  for (const auto& archive : change.archives) {
    bytes += kRowBytes + archive.summary.size() + archive.ranks.size() + archive.frontier.size() +
             archive.timeline.size() + archive.iterations.size();
  }
  for (const std::string& key : change.removed_documents) bytes += kRowBytes + key.size();
  bytes += 2 * kRowBytes * (change.usage.size() + change.budgets.size());
  return bytes;
}

/// The file, and all that is done with it.
class StoreFile {
 public:
  StoreFile(const std::filesystem::path& folder, const StoreRetention& retention) : folder_(folder) {
    StateFolder::require_not_moved(folder);
    try {
      open(Database::Sharing::shared, retention);
    } catch (const DatabaseError& error) {
      if (error.fault() != DatabaseFault::disk_full) throw;
      open(Database::Sharing::exclusive, retention);  // to serve what is there
    }
  }

  [[nodiscard]] Database& database() { return *database_; }
  [[nodiscard]] StoreTables& tables() { return *tables_; }

 private:
  void open(Database::Sharing sharing, const StoreRetention& retention) {
    tables_.reset();
    database_.reset();
    database_.emplace(folder_.database(), sharing);
    require_schema(*database_);
    tables_.emplace(*database_, retention);
  }

  StateFolder folder_;
  std::optional<Database> database_;
  std::optional<StoreTables> tables_;  ///< once the file has its tables
};

std::unique_ptr<StoreFile> open_file(const std::filesystem::path& folder, const StoreRetention& retention) {
  try {
    return std::make_unique<StoreFile>(folder, retention);
  } catch (const DatabaseError& error) {
    if (error.fault() == DatabaseFault::disk_full) {
      throw Error(fmt::format("{}; free space there, or name another state folder", error.what()));
    }
    if (error.fault() != DatabaseFault::damaged) throw;
    throw InputError(fmt::format(
        "{}; restore a copy, or move server.db and server.db-wal away to start with an empty database", error.what()));
  }
}

}  // namespace

/// The thread that owns the file, and what waits for it.
class SqliteStore::Writer {
 public:
  Writer(std::unique_ptr<StoreFile> file, Post post, SqliteStoreOptions options)
      : file_(std::move(file)), post_(std::move(post)), options_(std::move(options)), thread_([this] { run(); }) {}
  ~Writer() { close(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void write(StoreChange change, Done done);
  /// Runs a task on the thread after the changes that wait; false when closed. It gets null when the store closes
  /// without it.
  [[nodiscard]] bool add(std::function<void(StoreFile*)> task);
  void post(std::function<void()> function) const { post_(std::move(function)); }
  void log(const std::string& line) const {
    if (options_.log) options_.log(line);
  }
  void close();
  [[nodiscard]] StoreStatistics statistics() const;

 private:
  struct Entry {
    StoreChange change;
    Done done;
    std::size_t bytes = 0;
    std::function<void(StoreFile*)> task;  ///< instead of a change
    StoreOutcome outcome = StoreOutcome::failed;
  };

  void run();
  void refuse_rest();
  [[nodiscard]] bool is_late() const;
  [[nodiscard]] std::vector<Entry> take();
  void commit(std::vector<Entry>& batch);
  void put_all(std::vector<Entry>& batch);
  void put(Entry& entry);
  void fail_all(std::vector<Entry>& batch, StoreOutcome outcome, const std::string& why);
  void log_fault(const std::string& why);
  void count(const std::vector<Entry>& batch);
  void expire();
  void refuse(Done done, StoreOutcome outcome);

  std::unique_ptr<StoreFile> file_;
  Post post_;
  SqliteStoreOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> queue_;
  StoreStatistics statistics_;
  bool closing_ = false;
  std::chrono::steady_clock::time_point close_by_;  ///< while it closes

  // Of the thread alone.
  std::string fault_;  ///< why the last changes were not written; empty since one was
  std::chrono::steady_clock::time_point next_expiry_ = std::chrono::steady_clock::now();

  std::thread thread_;  ///< last: it uses all of the above
};

void SqliteStore::Writer::refuse(Done done, StoreOutcome outcome) {
  if (done) post_([done = std::move(done), outcome] { done(outcome); });
}

void SqliteStore::Writer::write(StoreChange change, Done done) {
  Entry entry{.change = std::move(change), .done = std::move(done), .bytes = 0, .task = {}};
  entry.bytes = bytes_of(entry.change);
  std::unique_lock lock(mutex_);
  const bool full = !queue_.empty() && statistics_.queued_bytes + entry.bytes > options_.queue_bytes;
  if (closing_ || full) {
    ++statistics_.refused;
    const StoreOutcome outcome = closing_ ? StoreOutcome::failed : StoreOutcome::busy;
    lock.unlock();
    refuse(std::move(entry.done), outcome);
    return;
  }
  statistics_.queued_bytes += entry.bytes;
  queue_.push_back(std::move(entry));
  changed_.notify_one();
}

bool SqliteStore::Writer::add(std::function<void(StoreFile*)> task) {
  const std::scoped_lock lock(mutex_);
  if (closing_) return false;
  queue_.push_back({.change = {}, .done = {}, .bytes = 0, .task = std::move(task)});
  changed_.notify_one();
  return true;
}

void SqliteStore::Writer::close() {
  {
    const std::scoped_lock lock(mutex_);
    if (!closing_) close_by_ = std::chrono::steady_clock::now() + options_.close_patience;
    closing_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  file_.reset();
}

StoreStatistics SqliteStore::Writer::statistics() const {
  const std::scoped_lock lock(mutex_);
  return statistics_;
}

/// Whether what still waits is to be refused.
bool SqliteStore::Writer::is_late() const {
  const std::scoped_lock lock(mutex_);
  return closing_ && std::chrono::steady_clock::now() >= close_by_;
}

/// Each transaction may wait for seconds, and there may be many: whoever ends the server waits for none of them longer.
void SqliteStore::Writer::refuse_rest() {
  std::deque<Entry> rest;
  std::size_t bytes = 0;
  {
    const std::scoped_lock lock(mutex_);
    rest = std::exchange(queue_, {});
    bytes = std::exchange(statistics_.queued_bytes, 0);
  }
  std::size_t changes = 0;
  for (Entry& entry : rest) {
    if (entry.task) {
      entry.task(nullptr);
    } else {
      ++changes;
      refuse(std::move(entry.done), StoreOutcome::busy);
    }
  }
  if (changes == 0) return;
  log(fmt::format(
      "{}: the server ends, and {} changes of {} bytes are not written after {:.3g} s: the disk is too slow, "
      "or another program holds the database",
      printable(file_->database().path().string()), changes, bytes,
      std::chrono::duration<double>(options_.close_patience).count()));
  const std::scoped_lock lock(mutex_);
  statistics_.refused += changes;
}

/// Changes that fit into one transaction, or one task; empty when it is time for the expiry or the store closes.
std::vector<SqliteStore::Writer::Entry> SqliteStore::Writer::take() {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, next_expiry_, [&] { return closing_ || !queue_.empty(); });
  std::vector<Entry> batch;
  std::size_t bytes = 0;
  while (!queue_.empty()) {
    Entry& next = queue_.front();
    if (!batch.empty() && (next.task || bytes + next.bytes > kBatchBytes)) break;
    const bool is_task = static_cast<bool>(next.task);
    bytes += next.bytes;
    statistics_.queued_bytes -= next.bytes;
    batch.push_back(std::move(next));
    queue_.pop_front();
    if (is_task) break;
  }
  return batch;
}

void SqliteStore::Writer::run() {
  while (true) {
    if (is_late()) {
      refuse_rest();
    } else if (std::chrono::steady_clock::now() >= next_expiry_) {
      expire();
      continue;  // it may have waited for another program
    }
    std::vector<Entry> batch = take();
    if (batch.empty()) {
      const std::scoped_lock lock(mutex_);
      if (closing_ && queue_.empty()) return;
    } else if (batch.front().task) {
      batch.front().task(file_.get());
    } else {
      commit(batch);
    }
  }
}

void SqliteStore::Writer::put(Entry& entry) {
  Database& database = file_->database();
  try {
    Savepoint part(database);
    file_->tables().put(entry.change);
    part.keep();
    entry.outcome = StoreOutcome::committed;
  } catch (const DatabaseError& error) {
    if (error.fault() == DatabaseFault::disk_full || !database.in_transaction()) throw;
    log(error.what());
  }
}

void SqliteStore::Writer::log_fault(const std::string& why) {
  if (std::exchange(fault_, why) != why) log(why);
}

void SqliteStore::Writer::put_all(std::vector<Entry>& batch) {
  Transaction transaction(file_->database());
  for (Entry& entry : batch) put(entry);
  transaction.commit();
}

void SqliteStore::Writer::fail_all(std::vector<Entry>& batch, StoreOutcome outcome, const std::string& why) {
  for (Entry& entry : batch) entry.outcome = outcome;
  log_fault(why);
}

void SqliteStore::Writer::count(const std::vector<Entry>& batch) {
  std::uint64_t committed = 0;
  bool full = false;
  for (const Entry& entry : batch) {
    if (entry.outcome == StoreOutcome::committed) ++committed;
    full = full || entry.outcome == StoreOutcome::disk_full;
  }
  bool over = false;
  {
    const std::scoped_lock lock(mutex_);
    statistics_.changes += committed;
    statistics_.refused += batch.size() - committed;
    statistics_.commits += committed > 0 ? 1 : 0;
    over = statistics_.disk_full && committed > 0;
    statistics_.disk_full = full || (statistics_.disk_full && !over);
  }
  if (committed > 0) fault_.clear();
  if (over) log(fmt::format("{}: there is space on the disk again", printable(file_->database().path().string())));
}

void SqliteStore::Writer::commit(std::vector<Entry>& batch) {
  try {
    put_all(batch);
  } catch (const DatabaseError& error) {
    fail_all(batch, outcome_of(error.fault()), error.what());
  } catch (const std::exception& error) {  // no memory
    fail_all(batch, StoreOutcome::failed, error.what());
  }
  count(batch);
  std::vector<std::pair<Done, StoreOutcome>> outcomes;
  for (Entry& entry : batch) {
    if (entry.done) outcomes.emplace_back(std::move(entry.done), entry.outcome);
    // The rows that an archive replaces are removed soon.
    if (!entry.change.archives.empty()) next_expiry_ = std::chrono::steady_clock::now();
  }
  if (outcomes.empty()) return;
  post_([outcomes = std::move(outcomes)] {
    for (const auto& [done, outcome] : outcomes) done(outcome);
  });
}

/// Removes a part of what is too old; the rest soon, when that was not all.
void SqliteStore::Writer::expire() {
  bool more = false;
  try {
    Transaction transaction(file_->database());
    more = file_->tables().expire(options_.now_s ? options_.now_s() : system_now_s());
    transaction.commit();
  } catch (const DatabaseError& error) {
    more = false;
    log_fault(error.what());
  }
  next_expiry_ =
      std::chrono::steady_clock::now() + (more ? std::chrono::steady_clock::duration(50ms) : kExpiryInterval);
}

SqliteStore::SqliteStore(const std::filesystem::path& folder, Post post, SqliteStoreOptions options) {
  std::unique_ptr<StoreFile> file = open_file(folder, options.retention);
  writer_ = std::make_unique<Writer>(std::move(file), std::move(post), std::move(options));
}

SqliteStore::~SqliteStore() = default;

StoreContents SqliteStore::load() {
  const auto result = std::make_shared<std::promise<StoreContents>>();
  std::future<StoreContents> contents = result->get_future();
  const bool added = writer_->add([result](StoreFile* file) {
    try {
      if (file == nullptr) throw Error("the store closes");
      result->set_value(file->tables().load());
    } catch (const std::exception&) {
      result->set_exception(std::current_exception());
    }
  });
  if (!added) throw Error("the store is closed");
  return contents.get();
}

void SqliteStore::write(StoreChange change, std::function<void(StoreOutcome)> done) {
  writer_->write(std::move(change), std::move(done));
}

void SqliteStore::read_decisions(std::string job, std::int64_t after, int limit,
                                 std::function<void(std::vector<StoredDecision>)> done) {
  Writer& writer = *writer_;
  // Handed on, not copied: the store's thread must not be the one that drops what the callback holds.
  const auto shared_done = std::make_shared<std::function<void(std::vector<StoredDecision>)>>(std::move(done));
  const bool added = writer.add([&writer, job = std::move(job), after, limit, shared_done](StoreFile* file) {
    std::vector<StoredDecision> decisions;
    try {
      if (file != nullptr) decisions = file->tables().decisions(job, after, limit);
    } catch (const std::exception& error) {
      writer.log(error.what());
    }
    writer.post([done = std::move(*shared_done), decisions = std::move(decisions)] { done(decisions); });
  });
  if (!added) writer.post([done = std::move(*shared_done)] { done({}); });
}

void SqliteStore::read_archive(std::string job, std::function<void(std::optional<StoredArchive>)> done) {
  Writer& writer = *writer_;
  const auto shared_done = std::make_shared<std::function<void(std::optional<StoredArchive>)>>(std::move(done));
  const bool added = writer.add([&writer, job = std::move(job), shared_done](StoreFile* file) {
    std::optional<StoredArchive> archive;
    try {
      if (file != nullptr) archive = file->tables().archive(job);
    } catch (const std::exception& error) {
      writer.log(error.what());
    }
    writer.post([done = std::move(*shared_done), archive = std::move(archive)] { done(archive); });
  });
  if (!added) writer.post([done = std::move(*shared_done)] { done(std::nullopt); });
}

void SqliteStore::read_page(ExportQuery query, std::function<void(std::optional<ExportPage>)> done) {
  Writer& writer = *writer_;
  const auto shared_done = std::make_shared<std::function<void(std::optional<ExportPage>)>>(std::move(done));
  const bool added = writer.add([&writer, query = std::move(query), shared_done](StoreFile* file) {
    std::optional<ExportPage> page;
    try {
      if (file != nullptr) page = file->tables().page(query);
    } catch (const std::exception& error) {
      writer.log(error.what());
    }
    writer.post([done = std::move(*shared_done), page = std::move(page)] { done(page); });
  });
  if (!added) writer.post([done = std::move(*shared_done)] { done(std::nullopt); });
}

void SqliteStore::close() { writer_->close(); }

StoreStatistics SqliteStore::statistics() const { return writer_->statistics(); }

}  // namespace lowgear::server
