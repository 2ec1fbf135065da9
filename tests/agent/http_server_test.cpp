#include "agent/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/fake_agent_service.h"
#include "ipc/file_descriptor.h"
#include "ipc/unix_address.h"

namespace lowgear {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using namespace std::chrono_literals;

constexpr auto kPatience = 20s;  // for what must happen; nothing waits that long unless it fails

/// A blocking client that gives up after kPatience.
class Client {
 public:
  explicit Client(const std::filesystem::path& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    connect_to(path);
  }
  explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    be_patient();
  }
  /// Not connected yet.
  Client() : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}

  void connect_to(const std::filesystem::path& path) {
    const UnixAddress address = UnixAddress::of_path(path);
    connected_ = ::connect(socket_.get(), address.get(), address.size()) == 0;
    be_patient();
  }

  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] int descriptor() const { return socket_.get(); }

  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  void get(std::string_view target) const { send(fmt::format("GET {} HTTP/1.1\r\nHost: agent\r\n\r\n", target)); }

  /// Reads until the text holds `end`; what came, when the connection ends before.
  std::string read_until(std::string_view end) {
    while (input_.find(end) == std::string::npos) {
      if (!receive()) return std::exchange(input_, {});
    }
    const std::size_t size = input_.find(end) + end.size();
    std::string text = input_.substr(0, size);
    input_.erase(0, size);
    return text;
  }
  /// Headers and body of one response.
  std::string read_response() {
    std::string text = read_until("\r\n\r\n");
    const std::size_t length = text.find("Content-Length: ");
    if (length == std::string::npos) return text;
    const auto size = static_cast<std::size_t>(std::stoul(text.substr(length + 16)));
    while (input_.size() < size && receive()) {
    }
    text += input_.substr(0, size);
    input_.erase(0, std::min(size, input_.size()));
    return text;
  }
  /// Whether the server ends the connection.
  bool ended() {
    while (receive()) {
    }
    return !timed_out_;
  }

 private:
  void be_patient() const {
    const timeval timeout{.tv_sec = kPatience.count(), .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  }
  bool receive() {
    char buffer[4096];
    const ssize_t received = ::recv(socket_.get(), buffer, sizeof(buffer), 0);
    timed_out_ = received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (received <= 0) return false;
    input_.append(buffer, static_cast<std::size_t>(received));
    return true;
  }

  FileDescriptor socket_;
  bool connected_ = false;
  bool timed_out_ = false;
  std::string input_;
};

class HttpServerTest : public ::testing::Test {
 protected:
  template <typename Work>
  auto on_loop(Work task) {
    std::packaged_task<decltype(task())()> packaged(std::move(task));
    auto result = packaged.get_future();
    boost::asio::post(io, [&packaged] { packaged(); });
    return result.get();
  }

  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "lowgear-http-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    path = folder / "agent.sock";
    options.telemetry_period = 5ms;
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
    server = std::make_unique<HttpServer>(io, service, &cpu_meter, options);
    server->listen_unix(path, 0600);
    port = server->listen_tcp(0);
    thread = std::thread([this] { io.run(); });
  }
  template <typename Condition>
  bool eventually(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(2ms);
    }
    return true;
  }
  std::size_t streams() {
    return on_loop([&] { return server->streams(); });
  }
  std::size_t connections() {
    return on_loop([&] { return server->connections(); });
  }
  std::string ask(std::string_view request) {
    Client client(path);
    client.send(request);
    return client.read_response();
  }

  std::filesystem::path folder;
  std::filesystem::path path;
  FakeAgentService service;
  FakeCpuMeter cpu_meter;
  HttpServerOptions options;
  std::atomic<int> warnings = 0;
  boost::asio::io_context io;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work = boost::asio::make_work_guard(io);
  std::unique_ptr<HttpServer> server;
  std::uint16_t port = 0;
  std::thread thread;
};

TEST_F(HttpServerTest, AConnectionCarriesManyRequests) {
  serve();
  Client client(path);
  for (int i = 0; i < 3; ++i) {
    client.get("/v1/version");
    const std::string response = client.read_response();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(response, HasSubstr("Connection: keep-alive\r\n"));
    EXPECT_THAT(response, HasSubstr("\"version\""));
  }
}

TEST_F(HttpServerTest, RequestsMayComeAllAtOnceOrByteByByte) {
  serve();
  const std::string request = "GET /healthz HTTP/1.1\r\nHost: agent\r\n\r\n";
  Client at_once(path);
  at_once.send(request + request + request);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(at_once.read_response(), HasSubstr("\"status\":\"ok\""));
  Client slowly(path);
  for (const char byte : request) slowly.send({&byte, 1});
  EXPECT_THAT(slowly.read_response(), HasSubstr("\"status\":\"ok\""));
}

TEST_F(HttpServerTest, WhoAsksIsAttestedByTheKernel) {
  serve();
  EXPECT_THAT(ask(fmt::format("DELETE /v1/gpus/{}/clocks HTTP/1.1\r\nHost: agent\r\n\r\n", kFakeUuid0)),
              StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(on_loop([&] { return service.calls; }), ElementsAre(fmt::format("reset_sm 0 by {}", ::geteuid())));
}

TEST_F(HttpServerTest, TcpReadsAndChangesNothing) {
  serve();
  Client client(port);
  client.get("/v1/gpus");
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 200"));
  client.send(fmt::format("DELETE /v1/gpus/{}/clocks HTTP/1.1\r\nHost: agent\r\n\r\n", kFakeUuid0));
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 403"));
  EXPECT_TRUE(on_loop([&] { return service.calls.empty(); }));
}

TEST_F(HttpServerTest, WhatIsNoHttpIsRefused) {
  serve();
  for (const char* bytes : {"\r\n\r\nx\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\nHost: x\n\n",
                            "\x16\x03\x01\x02\x01\x01\x01\x01\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n",
                            "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"}) {
    Client client(path);
    client.send(bytes);
    const std::string response = client.read_response();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 400")) << bytes;
    EXPECT_THAT(response, HasSubstr("\"code\":\"bad_request\"")) << bytes;
    EXPECT_TRUE(client.ended()) << bytes;
  }
  EXPECT_THAT(ask("GET /healthz HTTP/1.1\r\nHost: agent\r\n\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, HeadersAndBodiesAreBounded) {
  serve();
  EXPECT_THAT(ask("GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n"), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(ask("GET /" + std::string(100'000, 'x')), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(ask("POST / HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n"), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(ask("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n" + std::string(200'000, 'x')),
              StartsWith("HTTP/1.1 411"));
}

TEST_F(HttpServerTest, ARequestThatDoesNotComeIsTimedOut) {
  options.request_timeout = 30ms;
  options.idle_timeout = 30ms;
  serve();
  Client halfway(path);
  halfway.send("GET /healthz HTTP/1.1\r\nHost:");
  EXPECT_THAT(halfway.read_response(), StartsWith("HTTP/1.1 408"));
  EXPECT_TRUE(halfway.ended());
  Client silent(path);
  EXPECT_TRUE(silent.ended());
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
}

TEST_F(HttpServerTest, ABodyMayWaitForContinue) {
  serve();
  Client client(path);
  client.send(fmt::format("POST /v1/gpus/{}/clocks HTTP/1.1\r\nContent-Length: 34\r\nExpect: 100-continue\r\n\r\n",
                          kFakeUuid0));
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send(R"({"min_mhz": 900, "max_mhz": 1200 })");
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, HeadHasNoBodyAndHttp10NoSecondRequest) {
  serve();
  Client head(path);
  head.send("HEAD /healthz HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head.read_until("\r\n\r\n"), HasSubstr("Content-Length: "));
  EXPECT_EQ(head.read_until("}"), "");
  Client old(path);
  old.send("GET /healthz HTTP/1.0\r\n\r\n");
  EXPECT_THAT(old.read_response(), HasSubstr("Connection: close"));
  EXPECT_TRUE(old.ended());
}

TEST_F(HttpServerTest, AnAnswerThatTakesTimeHoldsUpNobody) {
  serve();
  Client cpu(path);
  cpu.get("/cpu/get_power");
  EXPECT_THAT(ask("GET /healthz HTTP/1.1\r\nHost: agent\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(cpu.read_response(), HasSubstr("\"power_mw\""));
}

TEST_F(HttpServerTest, SixtyFourClientsAndTwoHundredStreamsAreServedAtOnce) {
  serve();
  std::vector<std::unique_ptr<Client>> readers;
  for (int i = 0; i < 200; ++i) {
    readers.push_back(std::make_unique<Client>(path));
    readers.back()->get(i % 2 == 0 ? "/v1/power?stream" : "/gpu/stream_power?gpu_ids=1");
  }
  ASSERT_TRUE(eventually([&] { return streams() == 200; }));
  std::vector<std::thread> clients;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 64; ++i) {
    clients.emplace_back([&] {
      Client client(path);
      for (int request = 0; request < 10; ++request) {
        client.get("/metrics");
        if (client.read_response().find("lowgear_simulated 1\n") != std::string::npos) answered.fetch_add(1);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, 640);
  for (const auto& reader : readers) {
    EXPECT_THAT(reader->read_until("\r\n\r\n"), HasSubstr("text/event-stream"));
    EXPECT_THAT(reader->read_until("\n\n"), StartsWith("data: {"));
  }
}

TEST_F(HttpServerTest, AStreamThatIsNotReadIsDroppedAndOthersGoOn) {
  options.telemetry_period = 1ms;
  service.gpu_list.resize(64, service.gpu_list[0]);  // long events
  serve();
  Client sleeper(path);
  sleeper.get("/v1/power?stream");
  Client reader(path);
  reader.get("/v1/power?stream");
  ASSERT_TRUE(eventually([&] { return streams() == 2; }));
  int events = 0;
  while (streams() == 2 && events < 100'000) {
    ASSERT_THAT(reader.read_until("\n\n"), HasSubstr("data: {"));
    ++events;
  }
  EXPECT_EQ(streams(), 1U);
  for (int i = 0; i < 10; ++i) EXPECT_THAT(reader.read_until("\n\n"), HasSubstr("data: {"));
}

TEST_F(HttpServerTest, AStreamWhoseClientGoesIsForgotten) {
  serve();
  auto client = std::make_unique<Client>(path);
  client->get("/v1/power?stream");
  ASSERT_TRUE(eventually([&] { return streams() == 1; }));
  client.reset();
  EXPECT_TRUE(eventually([&] { return streams() == 0 && connections() == 0; }));
}

TEST_F(HttpServerTest, StreamsAreBounded) {
  options.max_streams = 1;
  serve();
  Client first(path);
  first.get("/v1/power?stream");
  EXPECT_THAT(first.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  Client second(path);
  second.get("/v1/power?stream");
  EXPECT_THAT(second.read_response(), StartsWith("HTTP/1.1 503"));
}

TEST_F(HttpServerTest, NoUserTakesAllConnections) {
  options.max_connections = 4;
  serve();
  std::vector<std::unique_ptr<Client>> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(std::make_unique<Client>(path));
    held.back()->get("/v1/power?stream");
    held.back()->read_until("\r\n\r\n");
  }
  Client refused(path);
  EXPECT_THAT(refused.read_response(), StartsWith("HTTP/1.1 503"));
  Client other(port);
  other.get("/healthz");
  EXPECT_THAT(other.read_response(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, WithoutFreeDescriptorsClientsWait) {
  serve();
  EXPECT_THAT(ask("GET /healthz HTTP/1.1\r\nHost: agent\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  Client client;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  client.connect_to(path);
  client.get("/healthz");
  const bool warned = eventually([&] { return warnings > 0; });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(warned);
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, TheSocketHasItsModeAndIsRemovedAtTheEnd) {
  serve();
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  Client stream(path);
  stream.get("/v1/power?stream");
  stream.read_until("\n\n");
  on_loop([&] { server->stop(); });
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(stream.ended());
  EXPECT_EQ(connections(), 0U);
  on_loop([&] { server->stop(); });
}

TEST_F(HttpServerTest, TelemetryThatFailsIsToldAndTriedAgain) {
  class Failing : public FakeAgentService {
   public:
    std::vector<GpuStatus> gpus() override {
      if (failures-- > 0) throw GpuError(GpuErrorCode::gpu_lost, "lost");
      return gpu_list;
    }
    int failures = 2;
  } failing;
  server = std::make_unique<HttpServer>(io, failing, nullptr, options);
  server->listen_unix(path, 0600);
  thread = std::thread([this] { io.run(); });
  Client client(path);
  client.get("/v1/power?stream");
  EXPECT_THAT(client.read_until("\n\n"), HasSubstr("text/event-stream"));
  EXPECT_GE(warnings, 1);
  on_loop([&] { server.reset(); });
}

TEST_F(HttpServerTest, ATakenPortIsAnInputError) {
  serve();
  EXPECT_THROW(on_loop([&] { return server->listen_tcp(port); }), InputError);
}

}  // namespace
}  // namespace lowgear
