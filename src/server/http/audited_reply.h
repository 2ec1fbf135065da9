#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/http/server/reply.h"
#include "server/http/api_routes.h"
#include "server/http/audit_log.h"

namespace lowgear::server {

/// Where and by whom something is asked for, as far as it is known before the answer.
[[nodiscard]] AuditedRequest audited_request(const http::Request& request, const ApiRoute& route, std::string object);

/// Passes the answer to a request on, and makes an entry in the audit log where the request changed something or was
/// refused. Reads, and the regular requests of ranks (reports, profiles, decisions), have an entry only where the
/// caller had no right to them.
class AuditedReply final : public http::Reply {
 public:
  /// `log` outlives it.
  AuditedReply(std::shared_ptr<http::Reply> reply, AuditedRequest request, AuditLog& log)
      : reply_(std::move(reply)), request_(std::move(request)), log_(&log) {}

  void set_caller(std::string name) { request_.caller = std::move(name); }

  void send(http::Response response) override;
  [[nodiscard]] std::shared_ptr<http::EventStream> stream(http::Response head) override {
    return reply_->stream(std::move(head));
  }
  [[nodiscard]] bool closed() const override { return reply_->closed(); }
  void on_close(std::function<void()> callback) override { reply_->on_close(std::move(callback)); }

 private:
  std::shared_ptr<http::Reply> reply_;
  AuditedRequest request_;
  AuditLog* log_;
};

}  // namespace lowgear::server
