#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/http/looped_server.h"
#include "base/http/message/error.h"
#include "base/http/server/server.h"

namespace lowgear::http {

/// Answers by path; what it keeps is touched on the server's thread alone.
class TestHandler : public Handler {
 public:
  void handle(Request request, std::shared_ptr<Reply> reply) override {
    if (request.path == "/wait") {
      reply->on_close([this] { ++gone; });
      waiting.push_back(std::move(reply));
    } else if (request.path == "/stream") {
      Response head;
      head.headers.emplace_back("Stream", "yes");
      reply->on_close([this] { ++gone; });
      if (auto stream = reply->stream(std::move(head))) streams.push_back(std::move(stream));
    } else if (request.path == "/drop") {
      // The reply goes with this call.
    } else if (request.path == "/throw") {
      throw std::runtime_error("the handler is wrong");
    } else if (request.path == "/large") {
      reply->send(large);
    } else {
      reply->send(Response::with_body(200, "text/plain",
                                      fmt::format("{} {} {} [{}] from {}", request.method, request.path, request.query,
                                                  request.body, request.remote)));
    }
    last = std::move(request);
  }

  std::vector<std::shared_ptr<Reply>> waiting;
  std::vector<std::shared_ptr<EventStream>> streams;
  Response large;
  Request last;
  int gone = 0;
};

/// An Server on a Unix and a TCP socket.
class ServerFixture : public LoopedServer<Server> {
 protected:
  void SetUp() override {
    options.warn = [this](std::string_view) { warnings.fetch_add(1); };
  }

  void serve() {
    server = std::make_unique<Server>(io, handler, options);
    server->listen_unix(path, 0600);
    port = server->listen_tcp("127.0.0.1", 0);
    run();
  }
  std::size_t waiting() {
    return on_loop([&] { return handler.waiting.size(); });
  }
  int gone() {
    return on_loop([&] { return handler.gone; });
  }
  void answer_all(const Response& response) {
    on_loop([&] {
      for (const auto& reply : std::exchange(handler.waiting, {})) reply->send(response);
    });
  }
  void push_all(const std::string& event) {
    on_loop([&] {
      const auto text = std::make_shared<const std::string>(event);
      for (const auto& stream : handler.streams) stream->push(text);
    });
  }

  TestHandler handler;
  ServerOptions options;
};

}  // namespace lowgear::http
