#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/core/temporary_folder.h"
#include "base/http/raw_client.h"

namespace lowgear::http {

/// A server (Server or what wraps one) in a thread of its own, with a folder for its Unix socket.
template <typename Server>
class LoopedServer : public ::testing::Test {
 protected:
  void TearDown() override {
    if (thread.joinable()) {
      on_loop([&] { server.reset(); });
      work.reset();
      thread.join();
    }
  }

  /// Begins to run the loop: `server` listens already.
  void run() {
    thread = std::thread([this] { io.run(); });
  }
  /// Runs `task` on the server's thread.
  template <typename Task>
  auto on_loop(Task task) {
    std::packaged_task<decltype(task())()> packaged(std::move(task));
    auto result = packaged.get_future();
    boost::asio::post(io, [&packaged] { packaged(); });
    return result.get();
  }
  std::size_t streams() {
    return on_loop([&] { return server->streams(); });
  }
  std::size_t connections() {
    return on_loop([&] { return server->connections(); });
  }
  std::string ask(std::string_view request) {
    RawClient client(path);
    client.send(request);
    return client.read_response();
  }

  TemporaryFolder folder;
  std::filesystem::path path = folder / "server.sock";
  std::atomic<int> warnings = 0;
  boost::asio::io_context io;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work = boost::asio::make_work_guard(io);
  std::unique_ptr<Server> server;
  std::uint16_t port = 0;
  std::thread thread;
};

}  // namespace lowgear::http
