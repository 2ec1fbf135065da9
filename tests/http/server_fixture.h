#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "http/error.h"
#include "http/raw_client.h"
#include "http/server.h"

namespace lowgear {

/// Answers by path; what it keeps is touched on the server's thread alone.
class TestHandler : public HttpHandler {
 public:
  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply) override {
    if (request.path == "/wait") {
      reply->on_close([this] { ++gone; });
      waiting.push_back(std::move(reply));
    } else if (request.path == "/stream") {
      HttpResponse head;
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
      reply->send(HttpResponse::with_body(200, "text/plain",
                                          fmt::format("{} {} {} [{}] from {}", request.method, request.path,
                                                      request.query, request.body, request.remote)));
    }
    last = std::move(request);
  }

  std::vector<std::shared_ptr<HttpReply>> waiting;
  std::vector<std::shared_ptr<EventStream>> streams;
  HttpResponse large;
  HttpRequest last;
  int gone = 0;
};

/// A server on a Unix and a TCP socket, in a thread of its own.
class HttpServerFixture : public ::testing::Test {
 protected:
  /// Runs `task` on the server's thread.
  template <typename Task>
  auto on_loop(Task task) {
    std::packaged_task<decltype(task())()> packaged(std::move(task));
    auto result = packaged.get_future();
    boost::asio::post(io, [&packaged] { packaged(); });
    return result.get();
  }

  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "lowgear-http-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    path = folder / "server.sock";
    options.warn = [this](std::string_view) { warnings.fetch_add(1); };
  }
  void TearDown() override {
    if (thread.joinable()) {
      on_loop([&] { server.reset(); });
      work.reset();
      thread.join();
    }
    std::filesystem::remove_all(folder);
  }

  void serve() {
    server = std::make_unique<HttpServer>(io, handler, options);
    server->listen_unix(path, 0600);
    port = server->listen_tcp("127.0.0.1", 0);
    thread = std::thread([this] { io.run(); });
  }
  template <typename Condition>
  bool eventually(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  std::size_t streams() {
    return on_loop([&] { return server->streams(); });
  }
  std::size_t connections() {
    return on_loop([&] { return server->connections(); });
  }
  std::size_t waiting() {
    return on_loop([&] { return handler.waiting.size(); });
  }
  int gone() {
    return on_loop([&] { return handler.gone; });
  }
  void answer_all(const HttpResponse& response) {
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
  std::string ask(std::string_view request) {
    RawClient client(path);
    client.send(request);
    return client.read_response();
  }

  std::filesystem::path folder;
  std::filesystem::path path;
  TestHandler handler;
  HttpServerOptions options;
  std::atomic<int> warnings = 0;
  boost::asio::io_context io;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work = boost::asio::make_work_guard(io);
  std::unique_ptr<HttpServer> server;
  std::uint16_t port = 0;
  std::thread thread;
};

}  // namespace lowgear
