#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/core/formats/json.h"
#include "server/fleet/job_writes.h"
#include "server/fleet/watched_store.h"
#include "server/store/store.h"

namespace lowgear::server {

/// Documents that people put under a name and that concern all jobs. One that is put or removed counts once that is on
/// disk. `Value` is what is read from it; its member `document` is the text.
template <typename Value>
class NamedDocuments {
 public:
  /// Throws InputError.
  using Read = std::function<Value(const std::string& name, const JsonView& body)>;

  /// `prefix` of the store's keys. `store` outlives it. `changed` is called once other documents count.
  NamedDocuments(std::string prefix, Read read, WatchedStore& store, std::function<void()> changed)
      : prefix_(std::move(prefix)), read_(std::move(read)), store_(&store), changed_(std::move(changed)) {}

  /// Takes a row of the store, or returns false when it is none of these. Throws InputError.
  bool restore(const StoredDocument& row) {
    if (!row.key.starts_with(prefix_)) return false;
    const std::string name = row.key.substr(prefix_.size());
    const Json body = parse_json(row.document, row.key);
    values_.insert_or_assign(name, read_(name, JsonView(body, row.key)));
    return true;
  }

  /// Throws InputError.
  void put(const std::string& name, const JsonView& body, Settled settled) {
    auto value = std::make_shared<Value>(read_(name, body));
    StoreChange change;
    change.documents.push_back({prefix_ + name, value->document});
    write(
        std::move(change), [this, name, value] { values_.insert_or_assign(name, std::move(*value)); },
        std::move(settled));
  }

  /// There is one of this name.
  void remove(const std::string& name, Settled settled) {
    StoreChange change;
    change.removed_documents.push_back(prefix_ + name);
    write(
        std::move(change), [this, name] { values_.erase(name); }, std::move(settled));
  }

  [[nodiscard]] std::map<std::string, Value>& values() { return values_; }
  [[nodiscard]] const std::map<std::string, Value>& values() const { return values_; }

 private:
  void write(StoreChange change, std::function<void()> committed, Settled settled) {
    store_->write(std::move(change),
                  [this, committed = std::move(committed), settled = std::move(settled)](StoreOutcome outcome) {
                    if (outcome == StoreOutcome::committed) {
                      committed();
                      changed_();
                    }
                    if (settled) settled(outcome);
                  });
  }

  std::string prefix_;
  Read read_;
  WatchedStore* store_;
  std::function<void()> changed_;
  std::map<std::string, Value> values_;
};

}  // namespace lowgear::server
