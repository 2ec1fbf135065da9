#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/http/server/server.h"

namespace lowgear::http {

/// The connections of a server: their number for each client, the ones that carry a stream of events, and the idle
/// ones, longest idle first. The address of a connection identifies it.
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
  /// The connection that has been idle for longest; null: none is idle.
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
  std::unordered_map<std::string, std::size_t> clients_;  ///< number of connections of each
  IdleList idle_;                                         ///< longest first
  std::size_t streams_ = 0;
};

/// Counts the requests of each client against a token bucket.
class RateLimiter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RateLimiter(RateLimit limit) : limit_(limit) {}

  /// Takes one of the client's tokens; if it has none, returns the time until the next one.
  [[nodiscard]] std::optional<std::chrono::duration<double>> refuse(const std::string& client, Clock::time_point now);
  /// Number of remembered clients: all with a bucket that is not full, and some others.
  [[nodiscard]] std::size_t clients() const { return buckets_.size(); }

 private:
  struct Bucket {
    double tokens = 0;
    Clock::time_point filled{};
  };
  [[nodiscard]] double tokens(const Bucket& bucket, Clock::time_point now) const;
  void forget_full_buckets(Clock::time_point now);

  RateLimit limit_;
  std::unordered_map<std::string, Bucket> buckets_;
  std::size_t forget_at_ = 1024;  ///< clients
};

}  // namespace lowgear::http
