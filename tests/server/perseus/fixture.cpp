/// perseus_server_fixture FOLDER SCHEDULER ARGUMENTS MODE: the Perseus protocol alone, over TCP on loopback, with its
/// state in FOLDER/state and results in FOLDER/dump. Prints its port when it listens, ends with its standard input.
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/core/files/file.h"
#include "base/http/message/error.h"
#include "base/http/server/server.h"
#include "server/perseus/service.h"
#include "server/store/sqlite_store.h"

namespace lowgear::server::perseus {
namespace {

class PerseusHandler final : public http::Handler {
 public:
  explicit PerseusHandler(Service& service) : service_(service) {}
  void handle(http::Request request, std::shared_ptr<http::Reply> reply) override {
    if (!service_.handle(request, reply)) reply->send(error_response(http::ErrorCode::not_found, "no such path"));
  }

 private:
  Service& service_;
};

void serve(const std::filesystem::path& folder, const Settings& settings) {
  boost::asio::io_context io;
  SqliteStore store(folder / "state", [&io](std::function<void()> function) { boost::asio::post(io, function); });
  Surroundings surroundings;
  surroundings.now_s = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  surroundings.run = [&io](std::function<void()> work, std::function<void()> done) {
    std::jthread([&work] { work(); }).join();
    boost::asio::post(io, std::move(done));
  };
  surroundings.dump = [&folder](const std::string& job, const File& file) {
    std::filesystem::create_directories(folder / "dump" / job);
    write_file_atomically(folder / "dump" / job / file.name, file.content);
  };
  ServiceOptions options;
  options.settings = settings;
  Service service(std::move(options), std::move(surroundings), store, store.load());

  PerseusHandler handler(service);
  http::ServerOptions http;
  http.limits.body_bytes = std::size_t{16} << 20U;
  http::Server server(io, handler, http);
  const int port = server.listen_tcp("127.0.0.1", 0);
  boost::asio::posix::stream_descriptor input(io, ::dup(STDIN_FILENO));
  input.async_wait(boost::asio::posix::stream_descriptor::wait_read, [&](const boost::system::error_code&) {
    server.stop();
    io.stop();
  });
  std::printf("%d\n", port);
  std::fflush(stdout);
  io.run();
  store.close();
}

}  // namespace
}  // namespace lowgear::server::perseus

int main(int argc, char** argv) try {
  if (argc != 5) {
    std::fputs("usage: perseus_server_fixture FOLDER SCHEDULER ARGUMENTS MODE\n", stderr);
    return 2;
  }
  lowgear::server::perseus::serve(argv[1], lowgear::server::perseus::read_perseus_settings(argv[2], argv[3], argv[4]));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "perseus_server_fixture: %s\n", error.what());
  return 1;
}
