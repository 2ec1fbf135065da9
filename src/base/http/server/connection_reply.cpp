#include "base/http/server/connection_reply.h"

#include <utility>

#include "base/http/message/error.h"
#include "base/http/server/connection.h"

namespace lowgear::http {
namespace {

class ConnectionStream : public EventStream {
 public:
  explicit ConnectionStream(std::weak_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ConnectionStream(const ConnectionStream&) = delete;
  ConnectionStream& operator=(const ConnectionStream&) = delete;
  ~ConnectionStream() override {
    if (const auto connection = connection_.lock()) connection->drop_stream();
  }
  void push(std::shared_ptr<const std::string> event) override {
    if (const auto connection = connection_.lock()) connection->push(std::move(event));
  }
  [[nodiscard]] bool closed() const override {
    const auto connection = connection_.lock();
    return !connection || !connection->streaming();
  }

 private:
  std::weak_ptr<Connection> connection_;
};

}  // namespace

ConnectionReply::~ConnectionReply() {
  if (!closed()) send(error_response(ErrorCode::internal, "the request was not answered"));
}

void ConnectionReply::send(Response response) {
  answered_ = true;
  if (const auto connection = connection_.lock()) connection->answer(request_, response);
}

std::shared_ptr<EventStream> ConnectionReply::stream(Response head) {
  const auto connection = connection_.lock();
  if (!connection || !connection->begin_stream(request_, head)) {
    answered_ = true;
    return nullptr;
  }
  return std::make_shared<ConnectionStream>(connection);
}

bool ConnectionReply::closed() const {
  const auto connection = connection_.lock();
  return !connection || !connection->awaits_answer(request_);
}

void ConnectionReply::on_close(std::function<void()> callback) {
  if (answered_) return;
  const auto connection = connection_.lock();
  if (!connection || !connection->on_close(request_, callback)) callback();
}

}  // namespace lowgear::http
