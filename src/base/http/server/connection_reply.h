#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/http/server/reply.h"

namespace lowgear::http {

class Connection;

/// The reply to one request of a connection, which it does not keep alive.
class ConnectionReply final : public Reply {
 public:
  ConnectionReply(std::weak_ptr<Connection> connection, std::uint64_t request)
      : connection_(std::move(connection)), request_(request) {}
  ConnectionReply(const ConnectionReply&) = delete;
  ConnectionReply& operator=(const ConnectionReply&) = delete;
  ~ConnectionReply() override;

  void send(Response response) override;
  [[nodiscard]] std::shared_ptr<EventStream> stream(Response head) override;
  [[nodiscard]] bool closed() const override;
  void on_close(std::function<void()> callback) override;

 private:
  std::weak_ptr<Connection> connection_;
  std::uint64_t request_;
  bool answered_ = false;  ///< other than by a stream
};

}  // namespace lowgear::http
