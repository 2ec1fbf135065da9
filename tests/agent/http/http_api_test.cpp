#include "agent/http/http_api.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "agent/fake_agent_service.h"
#include "base/core/error.h"
#include "base/core/eventually.h"
#include "base/http/bounded_requests.h"
#include "base/http/looped_server.h"

namespace lowgear::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using namespace std::chrono_literals;

class HttpApiTest : public http::LoopedServer<HttpApi> {
 protected:
  void SetUp() override {
    options.telemetry_period = 5ms;
    options.server.warn = [this](std::string_view) { warnings.fetch_add(1); };
  }

  void serve() {
    server = std::make_unique<HttpApi>(io, service, &cpu_meter, options);
    server->listen_unix(path, 0600);
    port = server->listen_tcp(0);
    run();
  }

  FakeAgentService service;
  FakeCpuMeter cpu_meter;
  HttpApiOptions options;
};

TEST_F(HttpApiTest, WhoAsksIsAttestedByTheKernel) {
  serve();
  EXPECT_THAT(ask(fmt::format("DELETE /v1/gpus/{}/clocks HTTP/1.1\r\nHost: agent\r\n\r\n", kFakeUuid0)),
              StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(on_loop([&] { return service.calls; }),
              testing::ElementsAre(fmt::format("reset SM clocks of 0 by {}", ::geteuid())));
}

TEST_F(HttpApiTest, TcpReadsAndChangesNothing) {
  serve();
  http::RawClient client(port);
  client.send("GET /v1/gpus HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 200"));
  client.send(fmt::format("DELETE /v1/gpus/{}/clocks HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", kFakeUuid0, port));
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 403"));
  EXPECT_TRUE(on_loop([&] { return service.calls.empty(); }));
}

TEST_F(HttpApiTest, TcpTellsNothingToAPageOfTheWebWhoseNameWasMadeToPointHere) {
  serve();
  for (const char* headers : {"Host: attacker.example\r\n", "Host: localhost.attacker.example:9400\r\n", ""}) {
    for (const char* target : {"/v1/leases", "/v1/power?stream", "/metrics", "/healthz"}) {
      http::RawClient client(port);
      client.send(fmt::format("GET {} HTTP/1.1\r\n{}\r\n", target, headers));
      const std::string answer = client.read_response();
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 421")) << headers << target;
      EXPECT_THAT(answer, HasSubstr("misdirected_request")) << headers << target;
    }
  }
  EXPECT_THAT(ask("GET /v1/leases HTTP/1.1\r\nHost: anything\r\n\r\n"), StartsWith("HTTP/1.1 200"))
      << "who asks over the Unix socket is attested";
}

TEST_F(HttpApiTest, OtherMachinesReadMetricsAndHealthAndNothingElse) {
  std::uint16_t open_port = 0;
  server = std::make_unique<HttpApi>(io, service, &cpu_meter, options);
  server->listen_unix(path, 0600);
  open_port = server->listen_metrics("127.0.0.1", 0);
  run();
  const auto asked = [&](const std::string& method_and_target) {
    http::RawClient client(open_port);
    client.send(method_and_target + " HTTP/1.1\r\nHost: 10.1.2.3:9401\r\n\r\n");
    return client.read_response();
  };
  EXPECT_THAT(asked("GET /metrics"), HasSubstr("lowgear_build_info"));
  EXPECT_THAT(asked("GET /healthz"), StartsWith("HTTP/1.1 200"));
  for (const char* target :
       {"/v1/gpus", "/v1/leases", "/v1/version", "/v1/power?stream", "/discover", "/metrics/", "/"}) {
    EXPECT_THAT(asked(fmt::format("GET {}", target)), StartsWith("HTTP/1.1 404")) << target;
  }
  EXPECT_THAT(asked("POST /metrics"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(asked(fmt::format("DELETE /v1/gpus/{}/clocks", kFakeUuid0)), StartsWith("HTTP/1.1 404"));
  EXPECT_TRUE(on_loop([&] { return service.calls.empty(); }));
}

TEST_F(HttpApiTest, TwoHostsAreNoRequest) {
  serve();
  http::RawClient client(port);
  client.send("GET /v1/leases HTTP/1.1\r\nHost: attacker.example\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 400"));
}

TEST_F(HttpApiTest, HeadersAndBodiesAreBounded) {
  serve();
  http::expect_bounded_requests([this](const std::string& request) { return ask(request); });
}

TEST_F(HttpApiTest, AnAnswerThatTakesTimeHoldsUpNoOther) {
  serve();
  http::RawClient cpu(path);
  cpu.get("/cpu/get_power");
  EXPECT_THAT(ask("GET /healthz HTTP/1.1\r\nHost: agent\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(cpu.read_response(), HasSubstr("\"power_mw\""));
}

TEST_F(HttpApiTest, AWriteThatTakesTimeHoldsUpNoOther) {
  service.holds_writes = true;
  serve();
  http::RawClient slow(path);
  slow.send(fmt::format("DELETE /v1/gpus/{}/clocks HTTP/1.1\r\nHost: agent\r\n\r\n", kFakeUuid0));
  ASSERT_TRUE(eventually([&] { return on_loop([&] { return service.held.size(); }) == 1; }));
  EXPECT_THAT(ask("GET /healthz HTTP/1.1\r\nHost: agent\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  on_loop([&] { service.held.at(0)(nullptr); });
  const std::string answer = slow.read_response();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("\"restored\""));
  EXPECT_THAT(answer, HasSubstr("Lowgear-Simulated: true"));
}

TEST_F(HttpApiTest, SixtyFourClientsAndTwoHundredStreamsAreServedAtOnce) {
  serve();
  std::vector<std::unique_ptr<http::RawClient>> readers;
  for (int i = 0; i < 200; ++i) {
    readers.push_back(std::make_unique<http::RawClient>(path));
    readers.back()->get(i % 2 == 0 ? "/v1/power?stream" : "/gpu/stream_power?gpu_ids=1");
  }
  ASSERT_TRUE(eventually([&] { return streams() == 200; }));
  std::vector<std::thread> clients;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 64; ++i) {
    clients.emplace_back([&] {
      http::RawClient client(path);
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

TEST_F(HttpApiTest, AStreamThatIsNotReadIsDroppedAndOthersGoOn) {
  options.telemetry_period = 1ms;
  service.gpu_list.resize(64, service.gpu_list[0]);  // long events
  int rounds = 0;  // each only once the reader has read the one before: it never falls behind, however busy the machine
  service.before_gpus = [&rounds] {
    if (rounds == 0) throw Error("no round yet");
    --rounds;
  };
  serve();
  http::RawClient sleeper(path);
  sleeper.get("/v1/power?stream");
  http::RawClient reader(path);
  reader.get("/v1/power?stream");
  ASSERT_TRUE(eventually([&] { return streams() == 2; }));
  const auto read_one = [&] {
    on_loop([&] { rounds = 1; });
    return reader.read_until("\n\n");
  };
  for (int events = 0; streams() == 2 && events < 1'000; ++events) ASSERT_THAT(read_one(), HasSubstr("data: {"));
  EXPECT_EQ(streams(), 1U);
  for (int i = 0; i < 10; ++i) EXPECT_THAT(read_one(), HasSubstr("data: {"));
}

TEST_F(HttpApiTest, AStreamWhoseClientGoesIsForgotten) {
  serve();
  auto client = std::make_unique<http::RawClient>(path);
  client->get("/v1/power?stream");
  ASSERT_TRUE(eventually([&] { return streams() == 1; }));
  client.reset();
  EXPECT_TRUE(eventually([&] { return streams() == 0 && connections() == 0; }));
}

TEST_F(HttpApiTest, StreamsAreBounded) {
  options.server.max_streams = 1;
  serve();
  http::RawClient first(path);
  first.get("/v1/power?stream");
  EXPECT_THAT(first.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  http::RawClient second(path);
  second.get("/v1/power?stream");
  EXPECT_THAT(second.read_response(), StartsWith("HTTP/1.1 503"));
}

TEST_F(HttpApiTest, NoUserTakesAllConnections) {
  options.server.max_connections = 4;
  serve();
  const auto held = http::held_streams(path, "/v1/power?stream", 3);
  http::RawClient refused(path);
  EXPECT_THAT(refused.read_response(), StartsWith("HTTP/1.1 503"));
  http::RawClient other(port);
  other.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(other.read_response(), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpApiTest, TheSocketHasItsModeAndIsRemovedAtTheEnd) {
  serve();
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  http::RawClient stream(path);
  stream.get("/v1/power?stream");
  stream.read_until("\n\n");
  on_loop([&] { server->stop(); });
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(stream.ended());
  EXPECT_EQ(connections(), 0U);
  on_loop([&] { server->stop(); });
}

TEST_F(HttpApiTest, TelemetryThatFailsIsToldAndTriedAgain) {
  class Failing : public FakeAgentService {
   public:
    std::vector<GpuStatus> gpus() override {
      if (failures-- > 0) throw gpu::GpuError(gpu::GpuErrorCode::gpu_lost, "lost");
      return gpu_list;
    }
    int failures = 2;
  } failing;
  server = std::make_unique<HttpApi>(io, failing, nullptr, options);
  server->listen_unix(path, 0600);
  thread = std::thread([this] { io.run(); });
  http::RawClient client(path);
  client.get("/v1/power?stream");
  EXPECT_THAT(client.read_until("\n\n"), HasSubstr("text/event-stream"));
  EXPECT_GE(warnings, 1);
  on_loop([&] { server.reset(); });
}

TEST_F(HttpApiTest, ATakenPortIsAnInputError) {
  serve();
  EXPECT_THROW(on_loop([&] { return server->listen_tcp(port); }), InputError);
}

}  // namespace
}  // namespace lowgear::agent
