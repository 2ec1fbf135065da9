#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/backoff.h"
#include "base/core/formats/json.h"
#include "server/store/store.h"

namespace lowgear::server {

/// Time between attempts to write refused rows: 1 s, then twice as long each time, a minute at most.
[[nodiscard]] Backoff<double> store_backoff();

/// The store with its state, that is the outcome of the last change. Detects when the store accepts changes again.
class WatchedStore {
 public:
  /// `store` outlives it. `now_s`: seconds since 1970; `log` receives messages for an operator, and may be empty.
  WatchedStore(Store* store, std::function<double()> now_s, std::function<void(std::string_view)> log);

  /// As Store::write.
  void write(StoreChange change, std::function<void(StoreOutcome)> done);
  /// Writes from time to time while the store is ill and no change is under way, to find out when it is well: a refused
  /// change need not be followed by another, as a signal that its sender does not put again.
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
  double probe_s_ = 0;  ///< time of the next probe
  Backoff<double> backoff_ = store_backoff();
};

/// Called when a requested change is on disk, or cannot be written.
using OnCommitted = std::function<void(StoreOutcome)>;

/// The changes of one job on their way to the store: which are pending, which were refused and when they are written
/// again, and which requests wait for an outcome. Refused reports are not written again automatically: their sender
/// receives no confirmation, and sends them again.
class JobWrites {
 public:
  /// A change that the store was given, kept in case the store refuses it: without the documents of reports,
  /// which are nearly all of its bytes.
  using Given = StoreChange;
  [[nodiscard]] Given give(const StoreChange& change);
  /// The store's answer to it.
  void answer(const Given& given, StoreOutcome outcome, double now_s);
  [[nodiscard]] bool all_answered() const { return answered_ == given_; }
  /// For a request that repeats an earlier one and changes nothing: its outcome is that of the changes given until now.
  /// Called at once when the store has answered all of them.
  void acknowledge(OnCommitted on_committed);

  /// Whether refused rows may be written again: the longer the store refuses, the less often.
  [[nodiscard]] bool is_due(double now_s) const { return now_s >= retry_s_; }
  [[nodiscard]] bool has_refused() const { return has_refused_; }
  /// Ranks whose rows were refused. The owner writes them, and the state of the job, as they are by then.
  [[nodiscard]] const std::set<int>& refused_ranks() const { return refused_ranks_; }
  /// Moves the other rows that were refused into the change, which is about to be given. Nothing is refused then.
  void take_refused(StoreChange& change);
  /// Adds reports that ranks have sent again to the change, as far as the store has refused them before.
  void add_repeated(std::vector<StoredReports> repeated, StoreChange& change);

 private:
  /// A request that waits until the store has answered the changes before it.
  struct PendingAck {
    std::uint64_t given = 0;
    std::uint64_t refusals = 0;
    OnCommitted on_committed;
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

/// Documents for all jobs, such as budgets, that a user puts under a name. A change counts once it is on disk. `Value`
/// is read from the document; its member `document` is the text.
template <typename Value>
class NamedDocuments {
 public:
  /// Throws InputError.
  using Read = std::function<Value(const std::string& name, const JsonView& body)>;

  /// `prefix`: of the store's keys. `store` outlives this object. `changed` is called after each change that counts.
  NamedDocuments(std::string prefix, Read read, WatchedStore& store, std::function<void()> changed)
      : prefix_(std::move(prefix)), read_(std::move(read)), store_(&store), changed_(std::move(changed)) {}

  /// Restores a row of the store. Returns false where its key has another prefix. Throws InputError.
  bool restore(const StoredDocument& row) {
    if (!row.key.starts_with(prefix_)) return false;
    const std::string name = row.key.substr(prefix_.size());
    const Json body = parse_json(row.document, row.key);
    values_.insert_or_assign(name, read_(name, JsonView(body, row.key)));
    return true;
  }

  /// Throws InputError.
  void put(const std::string& name, const JsonView& body, OnCommitted on_committed) {
    auto value = std::make_shared<Value>(read_(name, body));
    StoreChange change;
    change.documents.push_back({prefix_ + name, value->document});
    write(
        std::move(change), [this, name, value] { values_.insert_or_assign(name, std::move(*value)); },
        std::move(on_committed));
  }

  /// The document must exist.
  void remove(const std::string& name, OnCommitted on_committed) {
    StoreChange change;
    change.removed_documents.push_back(prefix_ + name);
    write(
        std::move(change), [this, name] { values_.erase(name); }, std::move(on_committed));
  }

  [[nodiscard]] std::map<std::string, Value>& values() { return values_; }
  [[nodiscard]] const std::map<std::string, Value>& values() const { return values_; }

 private:
  void write(StoreChange change, std::function<void()> take_over, OnCommitted on_committed) {
    store_->write(std::move(change), [this, take_over = std::move(take_over),
                                      on_committed = std::move(on_committed)](StoreOutcome outcome) {
      if (outcome == StoreOutcome::committed) {
        take_over();
        changed_();
      }
      if (on_committed) on_committed(outcome);
    });
  }

  std::string prefix_;
  Read read_;
  WatchedStore* store_;
  std::function<void()> changed_;
  std::map<std::string, Value> values_;
};

}  // namespace lowgear::server
