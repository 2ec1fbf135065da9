#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lowgear::http {

/// The connections of a server: how many each client has, which carry a stream of events, and which are idle, and for
/// how long compared with others. Each is known by its address.
template <typename Connection>
class ConnectionTable {
 public:
  void add(std::shared_ptr<Connection> connection, std::string client) {
    ++clients_[client];
    Connection* const address = connection.get();
    entries_.emplace(
        address, Entry{.connection = std::move(connection), .client = std::move(client), .streams = false, .idle = {}});
  }
  void remove(Connection& connection) {
    const auto found = entries_.find(&connection);
    if (found->second.idle) idle_.erase(*found->second.idle);
    if (found->second.streams) --streams_;
    const auto client = clients_.find(found->second.client);
    if (--client->second == 0) clients_.erase(client);
    entries_.erase(found);
  }
  void set_streams(Connection& connection) {
    entries_.at(&connection).streams = true;
    ++streams_;
  }
  void set_idle(Connection& connection, bool idle) {
    Entry& entry = entries_.at(&connection);
    if (idle == entry.idle.has_value()) return;
    if (idle) {
      entry.idle = idle_.insert(idle_.end(), &connection);
    } else {
      idle_.erase(*entry.idle);
      entry.idle.reset();
    }
  }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t streams() const { return streams_; }
  [[nodiscard]] std::size_t of_client(const std::string& client) const {
    const auto found = clients_.find(client);
    return found == clients_.end() ? 0 : found->second;
  }
  /// The one that has been idle for longest; null: none is.
  [[nodiscard]] std::shared_ptr<Connection> longest_idle() const {
    return idle_.empty() ? nullptr : entries_.at(idle_.front()).connection;
  }
  [[nodiscard]] std::vector<std::shared_ptr<Connection>> all() const {
    std::vector<std::shared_ptr<Connection>> all;
    all.reserve(entries_.size());
    for (const auto& [address, entry] : entries_) all.push_back(entry.connection);
    return all;
  }

 private:
  using IdleList = std::list<Connection*>;
  struct Entry {
    std::shared_ptr<Connection> connection;
    std::string client;
    bool streams = false;
    std::optional<typename IdleList::iterator> idle;
  };

  std::unordered_map<Connection*, Entry> entries_;
  std::unordered_map<std::string, std::size_t> clients_;  ///< how many connections each has
  IdleList idle_;                                         ///< longest first
  std::size_t streams_ = 0;
};

}  // namespace lowgear::http
