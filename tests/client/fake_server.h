#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/core/formats/json.h"
#include "base/http/server/server.h"

namespace lowgear::client {

/// A server as small as it gets, on a Unix socket, for the client's tests: knows one job, hands out what it was given.
class FakeServer final : private http::Handler {
 public:
  explicit FakeServer(std::string socket, std::string job = "j-1");
  /// Closes everything, as a server that is killed.
  ~FakeServer() override;
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  /// The plan that ranks are offered from now on.
  void offer(Json plan);
  /// Answers the next requests whose path ends so with this instead.
  void answer_next(std::string path_end, http::Response response, int times = 1);

  /// Bodies that came to a path, oldest first, with those that were refused.
  [[nodiscard]] std::vector<Json> bodies(const std::string& path_end) const;
  [[nodiscard]] std::size_t count(const std::string& path_end) const { return bodies(path_end).size(); }
  /// Queries of the requests for a plan, oldest first.
  [[nodiscard]] std::vector<std::string> plan_queries() const;
  [[nodiscard]] std::vector<std::string> authorizations() const;

 private:
  struct Seen {
    std::string path;
    std::string query;
    std::string body;
    std::string authorization;
  };
  struct Answer {
    std::string path_end;
    http::Response response;
    int times = 0;
  };

  void handle(http::Request request, std::shared_ptr<http::Reply> reply) override;
  [[nodiscard]] std::optional<http::Response> answer(const http::Request& request);
  void answer_plans();

  std::string job_;
  mutable std::mutex mutex_;
  std::vector<Seen> seen_;
  std::vector<Answer> answers_;
  Json plan_;                                                          ///< null: none
  std::vector<std::pair<int, std::shared_ptr<http::Reply>>> waiting_;  ///< for a plan above a version
  boost::asio::io_context io_;
  http::Server server_;
  std::thread thread_;
};

}  // namespace lowgear::client
