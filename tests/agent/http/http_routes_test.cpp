#include "agent/http/http_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "agent/fake_agent_service.h"
#include "base/core/formats/json.h"

namespace lowgear::agent {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr Peer kUser{1000, 1000, 77};
constexpr Peer kRoot{0, 0, 1};

class HttpRoutes : public ::testing::Test {
 protected:
  /// The answer, which may be one that comes later.
  RouteAnswer begin(const std::string& method, const std::string& target, const std::string& body = {},
                    std::optional<Peer> peer = kUser) {
    const std::size_t question = target.find('?');
    const std::string query = question == std::string::npos ? "" : target.substr(question + 1);
    return handle({.method = method,
                   .path = target.substr(0, question),
                   .query = query,
                   .headers = {},
                   .body = body,
                   .peer = peer,
                   .remote = {}},
                  RouteContext{service, cpu_power, metrics});
  }
  RouteAnswer ask(const std::string& method, const std::string& target, const std::string& body = {},
                  std::optional<Peer> peer = kUser) {
    RouteAnswer answer = begin(method, target, body, peer);
    if (const auto later = answer.later) later([&answer](http::Response response) { answer = std::move(response); });
    return answer;
  }
  static Json json(const RouteAnswer& response) { return parse_json(response.text(), "reply"); }
  static std::string error_code(const RouteAnswer& response) { return json(response)["error"]["code"]; }
  static std::string error_message(const RouteAnswer& response) { return json(response)["error"]["message"]; }
  static std::string gpu_path(const std::string& rest = {}) { return "/v1/gpus/" + std::string(kFakeUuid0) + rest; }

  FakeAgentService service;
  FakeCpuMeter cpu_meter;
  std::int64_t now_ns = 1;
  CpuPower cpu_power{&cpu_meter, [this] { return now_ns; }};
  Metrics metrics;
};

TEST_F(HttpRoutes, GpusAreListedWithWhatTheyReport) {
  service.gpu_list[1].reading = {};
  service.gpu_list[1].power_limits.reset();
  const RouteAnswer response = ask("GET", "/v1/gpus");
  ASSERT_EQ(response.status, 200);
  const Json body = json(response);
  EXPECT_EQ(body["driver_version"], "580.159.04");
  ASSERT_EQ(body["gpus"].size(), 2U);
  EXPECT_EQ(body["gpus"][0]["uuid"], kFakeUuid0);
  EXPECT_EQ(body["gpus"][0]["pci_address"], "0000:00:06.0");
  EXPECT_EQ(body["gpus"][0]["reading"]["power_w"], 75);
  EXPECT_EQ(body["gpus"][0]["reading"]["time_s"], 1'762'000'000.0);
  EXPECT_EQ(body["gpus"][0]["power_limits"]["enforced_w"], 600);
  EXPECT_EQ(body["gpus"][0]["clocks"]["state"], "untouched");
  EXPECT_TRUE(body["gpus"][1]["reading"]["power_w"].is_null());
  EXPECT_TRUE(body["gpus"][1]["reading"]["throttle_reasons"].is_null());
  EXPECT_TRUE(body["gpus"][1]["power_limits"].is_null());
}

TEST_F(HttpRoutes, WithoutMpsThereAreNoShares) {
  for (const auto& [method, path] : {std::pair{"GET", std::string("/v1/mps")},
                                     {"POST", gpu_path("/shares")},
                                     {"DELETE", std::string("/v1/shares/1")}}) {
    const RouteAnswer response = ask(method, path, "{\"percent\": 50}");
    EXPECT_EQ(response.status, 404) << path;
    EXPECT_THAT(error_message(response), HasSubstr("names GPUs in mps.gpus"));
  }
  EXPECT_EQ(error_code(ask("POST", gpu_path("/shares"), "{}", std::nullopt)), "not_attested");
  EXPECT_EQ(ask("GET", "/metrics").text().find("lowgear_mps"), std::string::npos);
}

TEST_F(HttpRoutes, ThrottleReasonsAreNamed) {
  service.gpu_list[0].reading.throttle_reasons = gpu::ThrottleReasons{0x4U | 0x40U | 0x8U};
  EXPECT_EQ(json(ask("GET", gpu_path()))["gpu"]["reading"]["throttle_reasons"],
            Json::array({"power_cap", "thermal", "hardware_slowdown"}));
}

TEST_F(HttpRoutes, OneGpuIsFoundByUuidAndByPciAddress) {
  EXPECT_EQ(json(ask("GET", gpu_path()))["gpu"]["index"], 0);
  EXPECT_EQ(json(ask("GET", "/v1/gpus/0000:00:07.0"))["gpu"]["index"], 1);
  EXPECT_EQ(json(ask("GET", "/v1/gpus/0000%3A00%3a07.0"))["gpu"]["index"], 1);
  const RouteAnswer missing = ask("GET", "/v1/gpus/GPU-none");
  EXPECT_EQ(missing.status, 404);
  EXPECT_THAT(error_message(missing), HasSubstr("\"GPU-none\""));
}

TEST_F(HttpRoutes, EveryAnswerOfASimulatedMachineSaysSo) {
  for (const char* target : {"/v1/gpus", "/v1/leases", "/v1/power", "/v1/version", "/healthz", "/discover", "/time"}) {
    EXPECT_EQ(json(ask("GET", target))["simulated"], true) << target;
  }
  for (const char* target : {"/v1/gpus", "/metrics", "/gpu/get_power", "/v1/power?stream", "/no/such/path"}) {
    EXPECT_THAT(ask("GET", target).headers, Contains(Pair("Lowgear-Simulated", "true"))) << target;
  }
  service.is_simulated = false;
  EXPECT_EQ(json(ask("GET", "/v1/gpus"))["simulated"], false);
  EXPECT_THAT(ask("GET", "/metrics").headers, IsEmpty());
}

TEST_F(HttpRoutes, ADryRunSaysSo) {
  service.is_dry_run = true;
  const RouteAnswer response = ask("GET", "/v1/gpus");
  EXPECT_EQ(json(response)["dry_run"], true);
  EXPECT_THAT(response.headers, Contains(Pair("Lowgear-Dry-Run", "true")));
}

TEST_F(HttpRoutes, ClocksAreLockedAndReset) {
  const RouteAnswer locked = ask("POST", gpu_path("/clocks"), R"({"min_mhz": 900, "max_mhz": 1200})");
  ASSERT_EQ(locked.status, 200) << locked.text();
  EXPECT_EQ(json(locked)["gpu"]["clocks"]["state"], "leased");
  EXPECT_EQ(json(locked)["gpu"]["clocks"]["requested_max_mhz"], 1200);
  EXPECT_EQ(ask("DELETE", gpu_path("/clocks")).status, 200);
  EXPECT_THAT(service.calls,
              ElementsAre("lock SM clocks to 900-1200 MHz of 0 by 1000", "reset SM clocks of 0 by 1000"));
}

TEST_F(HttpRoutes, WrongClocksAreRefusedWithTheirPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "body: is empty"},
      {"{", "body:1:2"},
      {"[]", "expected an object"},
      {R"({"min_mhz": 900})", "max_mhz"},
      {R"({"min_mhz": "900", "max_mhz": 1200})", "$.min_mhz"},
      {R"({"min_mhz": 900.5, "max_mhz": 1200})", "$.min_mhz"},
      {R"({"min_mhz": 0, "max_mhz": 1200})", "$.min_mhz"},
      {R"({"min_mhz": 1e300, "max_mhz": 1200})", "$.min_mhz"},
      {R"({"min_mhz": 1300, "max_mhz": 1200})", "above max_mhz"},
      {R"({"min_mhz": 900, "max_mhz": 1200, "mhz": 3})", "there is no member \"mhz\""},
      {R"({"min_mhz": 900, "min_mhz": 900, "max_mhz": 1200})", "min_mhz"},
  };
  for (const auto& [body, message] : cases) {
    const RouteAnswer response = ask("POST", gpu_path("/clocks"), body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_THAT(error_message(response), HasSubstr(message)) << body;
  }
  EXPECT_THAT(service.calls, IsEmpty());
}

TEST_F(HttpRoutes, PowerLimitIsSetInWatts) {
  EXPECT_EQ(ask("POST", gpu_path("/power_limit"), R"({"power_limit_w": 412.5})").status, 200);
  EXPECT_THAT(service.calls, ElementsAre("set the power limit to 412.5 W of 0 by 1000"));
  for (const char* body : {R"({"power_limit_w": 0})", R"({"power_limit_w": -5})", R"({"power_limit_w": 1e9})",
                           R"({"power_limit_w": null})", R"({})"}) {
    EXPECT_EQ(ask("POST", gpu_path("/power_limit"), body).status, 400) << body;
  }
}

TEST_F(HttpRoutes, APowerLimitIsResetToTheDefault) {
  service.gpu_list[0].power_limits = gpu::PowerLimits{.min_w = 200, .max_w = 700, .default_w = 650, .current_w = 300};
  EXPECT_EQ(ask("DELETE", gpu_path("/power_limit")).status, 200);
  EXPECT_THAT(service.calls, ElementsAre("set the power limit to 650 W of 0 by 1000"));
  service.gpu_list[0].power_limits.reset();
  EXPECT_EQ(ask("DELETE", gpu_path("/power_limit")).status, 501);
  EXPECT_EQ(ask("DELETE", "/v1/gpus/GPU-none/power_limit").status, 404);
}

TEST_F(HttpRoutes, MemoryClocksAreLockedAndReset) {
  EXPECT_EQ(ask("POST", gpu_path("/memory_clocks"), R"({"min_mhz": 1593, "max_mhz": 2619})").status, 200);
  EXPECT_EQ(ask("DELETE", gpu_path("/memory_clocks")).status, 200);
  EXPECT_THAT(service.calls,
              ElementsAre("lock memory clocks to 1593-2619 MHz of 0 by 1000", "reset memory clocks of 0 by 1000"));
  EXPECT_EQ(ask("POST", gpu_path("/memory_clocks"), R"({"min_mhz": 2619, "max_mhz": 1593})").status, 400);
}

TEST_F(HttpRoutes, WorkloadPowerProfilesAreRequestedByName) {
  const std::string path = gpu_path("/workload_power_profiles");
  EXPECT_EQ(ask("POST", path, R"({"profiles": ["llm_training", "max_q"]})").status, 200);
  EXPECT_EQ(ask("POST", path, R"({"profiles": []})").status, 200);
  EXPECT_EQ(ask("DELETE", path).status, 200);
  EXPECT_THAT(service.calls, ElementsAre("request workload power profiles: max_q, llm_training of 0 by 1000",
                                         "request workload power profiles: none of 0 by 1000",
                                         "request workload power profiles: none of 0 by 1000"));
  for (const char* body : {R"({"profiles": "max_q"})", R"({"profiles": [1]})", R"({"profiles": ["MAX_Q"]})",
                           R"({"profiles": ["max_q"], "x": 1})", R"({})"}) {
    EXPECT_EQ(ask("POST", path, body).status, 400) << body;
  }
  EXPECT_THAT(error_message(ask("POST", path, R"({"profiles": ["max_q", "turbo"]})")),
              testing::AllOf(HasSubstr("profiles[1]"), HasSubstr("\"turbo\""), HasSubstr("GET /v1/gpus")));
}

TEST_F(HttpRoutes, PowerSmoothingIsSetWithOrWithoutAPreset) {
  const std::string path = gpu_path("/power_smoothing");
  EXPECT_EQ(ask("POST", path, R"({"enabled": true, "preset": 2})").status, 200);
  EXPECT_EQ(ask("POST", path, R"({"enabled": false})").status, 200);
  EXPECT_THAT(service.calls,
              ElementsAre("enable power smoothing with preset 2 of 0 by 1000", "disable power smoothing of 0 by 1000"));
  for (const char* body : {R"({"enabled": 1})", R"({"preset": 1})", R"({"enabled": true, "preset": -1})",
                           R"({"enabled": true, "preset": 1e9})", R"({})"}) {
    EXPECT_EQ(ask("POST", path, body).status, 400) << body;
  }
}

TEST_F(HttpRoutes, PowerFeaturesAreShownWhereAGpuHasThem) {
  service.gpu_list[0].workload_power_profiles = {.supported = 0b11, .requested = 0b11, .enforced = 0b01};
  gpu::PowerSmoothing& smoothing = service.gpu_list[0].power_smoothing.emplace();
  smoothing.enabled = true;
  smoothing.active_preset = 1;
  const Json gpus = json(ask("GET", "/v1/gpus"))["gpus"];
  EXPECT_EQ(gpus[0]["workload_power_profiles"]["supported"], Json::array({"max_p", "max_q"}));
  EXPECT_EQ(gpus[0]["workload_power_profiles"]["requested"], Json::array({"max_p", "max_q"}));
  EXPECT_EQ(gpus[0]["workload_power_profiles"]["enforced"], Json::array({"max_p"}));
  EXPECT_EQ(gpus[0]["power_smoothing"]["enabled"], true);
  EXPECT_EQ(gpus[0]["power_smoothing"]["active_preset"], 1);
  EXPECT_TRUE(gpus[0]["power_smoothing"]["floor_w"].is_null());
  EXPECT_TRUE(gpus[1]["workload_power_profiles"].is_null());
  EXPECT_TRUE(gpus[1]["power_smoothing"].is_null());
}

TEST_F(HttpRoutes, LeasesAreListedAndReleased) {
  LeaseStatus lease;
  lease.id = 7;
  lease.gpu_uuid = kFakeUuid0;
  lease.owner = kUser;
  lease.unplanned_units = 4;
  lease.job = "job \xff";  // the client's bytes need not be UTF-8
  service.lease_list.push_back(lease);
  const Json listed = json(ask("GET", "/v1/leases"));
  EXPECT_EQ(listed["leases"][0]["id"], 7);
  EXPECT_EQ(listed["leases"][0]["pid"], 77);
  EXPECT_EQ(listed["leases"][0]["unplanned_units"], 4);
  EXPECT_TRUE(listed["leases"][0]["rank"].is_null()) << "it was not taken over the lease socket";
  EXPECT_EQ(listed["leases"][0]["job"], "job \xef\xbf\xbd");
  EXPECT_EQ(ask("DELETE", "/v1/leases/7").status, 200);
  EXPECT_EQ(ask("DELETE", "/v1/leases/7").status, 404);
  for (const char* id : {"-1", "x", "", "99999999999999999999", "7.5"}) {
    EXPECT_EQ(ask("DELETE", std::string("/v1/leases/") + id).status, 404) << id;
  }
}

TEST_F(HttpRoutes, GpusAreAssignedByRootAlone) {
  const std::string path = gpu_path("/assignment");
  const std::string body = R"({"uid": 2001, "job": "12"})";
  const Peer root{.uid = 0, .gid = 0, .pid = 1};
  EXPECT_EQ(error_code(ask("PUT", path, body)), "access_denied");
  EXPECT_TRUE(json(ask("GET", gpu_path("")))["gpu"]["assigned_to"].is_null());
  const Json assigned = json(ask("PUT", path, body, root))["gpu"]["assigned_to"];
  EXPECT_EQ(assigned, Json::parse(body));
  const std::string named = R"({"uid": 2001, "job": "12", "sluid": "s5K1KKYAYG5D00"})";
  EXPECT_EQ(json(ask("PUT", path, named, root))["gpu"]["assigned_to"], Json::parse(named));
  for (const char* wrong :
       {"{}", R"({"uid": 2001})", R"({"uid": -1, "job": "1"})", R"({"uid": 4294967295, "job": "1"})",
        R"({"uid": 1, "job": ""})", R"({"uid": 1, "job": "1", "x": 1})"}) {
    EXPECT_EQ(ask("PUT", path, wrong, root).status, 400) << wrong;
  }
  EXPECT_EQ(ask("DELETE", path, "", root).status, 400) << "of which job?";
  EXPECT_EQ(ask("DELETE", path + "?job=11", "", root).status, 404);
  EXPECT_EQ(ask("DELETE", path + "?job=12", "").status, 403);
  EXPECT_TRUE(json(ask("DELETE", path + "?job=12", "", root))["gpu"]["assigned_to"].is_null());
}

TEST_F(HttpRoutes, RestoreIsForRootAlone) {
  EXPECT_EQ(ask("POST", "/v1/restore").status, 403);
  EXPECT_EQ(ask("POST", "/v1/restore", {}, kRoot).status, 200);
  EXPECT_THAT(service.calls, ElementsAre("restore"));
}

TEST_F(HttpRoutes, NothingIsChangedOverTcpWhereNobodyAttestsWhoAsks) {
  const std::string clocks = R"({"min_mhz": 900, "max_mhz": 1200})";
  const std::vector<std::array<std::string, 3>> changes = {
      {"POST", gpu_path("/clocks"), clocks},
      {"DELETE", gpu_path("/clocks"), ""},
      {"POST", gpu_path("/power_limit"), R"({"power_limit_w": 400})"},
      {"DELETE", gpu_path("/power_limit"), ""},
      {"POST", gpu_path("/memory_clocks"), clocks},
      {"DELETE", gpu_path("/memory_clocks"), ""},
      {"POST", gpu_path("/workload_power_profiles"), R"({"profiles": []})"},
      {"DELETE", gpu_path("/workload_power_profiles"), ""},
      {"POST", gpu_path("/power_smoothing"), R"({"enabled": false})"},
      {"DELETE", "/v1/leases/7", ""},
      {"POST", "/v1/restore", ""},
      {"POST", "/gpu/set_gpu_locked_clocks?gpu_ids=0&min_clock_mhz=900&max_clock_mhz=1200&block=true", ""},
      {"POST", "/gpu/set_persistence_mode?gpu_ids=0&enabled=true&block=true", ""},
  };
  for (const auto& [method, target, body] : changes) {
    const RouteAnswer response = ask(method, target, body, std::nullopt);
    EXPECT_EQ(response.status, 403) << target;
    EXPECT_EQ(error_code(response), "not_attested") << target;
  }
  EXPECT_THAT(service.calls, IsEmpty());
  EXPECT_EQ(ask("GET", "/v1/gpus", {}, std::nullopt).status, 200);
}

TEST_F(HttpRoutes, AStrangerReadsNothingOfTheMachine) {
  const Peer stranger{kStranger, kStranger, 5};
  for (const char* target : {"/v1/gpus", "/v1/leases", "/v1/power", "/v1/power?stream", "/metrics", "/discover",
                             "/gpu/get_power", "/gpu/stream_power", "/cpu/get_power"}) {
    EXPECT_EQ(ask("GET", target, {}, stranger).status, 403) << target;
  }
  EXPECT_EQ(ask("POST", gpu_path("/clocks"), R"({"min_mhz": 900, "max_mhz": 1200})", stranger).status, 403);
  EXPECT_EQ(ask("GET", "/healthz", {}, stranger).status, 200);
  EXPECT_EQ(ask("GET", "/v1/version", {}, stranger).status, 200);
}

TEST_F(HttpRoutes, WhatTheServiceThrowsBecomesAStatus) {
  const std::vector<std::tuple<std::function<void()>, int, std::string>> cases = {
      {[] { throw AccessDenied("no"); }, 403, "access_denied"},
      {[] { throw GpuBusy("no"); }, 409, "gpu_busy"},
      {[] { throw NotFound("no"); }, 404, "not_found"},
      {[] { throw InputError("no"); }, 400, "invalid_argument"},
      {[] { throw gpu::GpuError(gpu::GpuErrorCode::not_supported, "no"); }, 501, "not_supported"},
      {[] { throw gpu::GpuError(gpu::GpuErrorCode::invalid_value, "no"); }, 400, "invalid_value"},
      {[] { throw gpu::GpuError(gpu::GpuErrorCode::gpu_lost, "no"); }, 503, "gpu_lost"},
      {[] { throw gpu::GpuError(gpu::GpuErrorCode::timeout, "no"); }, 504, "timeout"},
      {[] { throw gpu::GpuError(gpu::GpuErrorCode::no_permission, "no"); }, 500, "no_permission"},
      {[] { throw std::bad_alloc(); }, 500, "internal"},
  };
  for (const auto& [thrower, status, code] : cases) {
    service.before_call = thrower;
    const RouteAnswer response = ask("DELETE", gpu_path("/clocks"));
    EXPECT_EQ(response.status, status) << code;
    EXPECT_EQ(error_code(response), code);
  }
}

TEST_F(HttpRoutes, WhatTheDriverSaysLaterBecomesAStatus) {
  service.holds_writes = true;
  const RouteAnswer waiting = begin("DELETE", gpu_path("/clocks"));
  ASSERT_TRUE(waiting.later) << "no answer yet";
  std::optional<RouteAnswer> answer;
  waiting.later([&](http::Response response) { answer = std::move(response); });
  service.held.at(0)(std::make_exception_ptr(gpu::GpuError(gpu::GpuErrorCode::timeout, "has not answered")));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 504);
  EXPECT_EQ(error_message(*answer), "has not answered");
  EXPECT_THAT(answer->headers, ElementsAre(Pair("Lowgear-Simulated", "true")));
}

TEST_F(HttpRoutes, UnknownPathsAreNotFound) {
  for (const char* target : {"/", "/v1", "/v1/", "/v1/gpus/", "/v1/gpus/a/b", "/v1/gpus/a/clocks/x", "/v2/gpus", "//",
                             "/metrics/", "/..", "/v1/../metrics"}) {
    EXPECT_EQ(ask("GET", target).status, 404) << target;
  }
}

TEST_F(HttpRoutes, AWrongMethodIsToldTheRightOnes) {
  const RouteAnswer response = ask("PUT", gpu_path("/clocks"));
  EXPECT_EQ(response.status, 405);
  EXPECT_THAT(response.headers, Contains(Pair("Allow", "POST, DELETE")));
  EXPECT_THAT(ask("POST", "/metrics").headers, Contains(Pair("Allow", "GET, HEAD")));
  EXPECT_EQ(ask("HEAD", "/metrics").status, 200);
}

TEST_F(HttpRoutes, WrongTargetsAreBadRequests) {
  for (const char* target : {"v1/gpus", "", "*", "/v1/gpus/%", "/v1/gpus/%4", "/v1/gpus/%zz", "/v1/power?%",
                             "/v1/power?stream&stream", "/v1/power?steram", "/v1/power?stream=1", "/metrics?x=%g0",
                             "/v1/gpus?x", "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r"}) {
    EXPECT_EQ(ask("GET", target).status, 400) << target;
  }
}

TEST_F(HttpRoutes, PowerIsReadOnceOrStreamed) {
  const RouteAnswer once = ask("GET", "/v1/power?stream=false");
  EXPECT_FALSE(once.stream);
  EXPECT_EQ(json(once)["gpus"][1]["power_w"], 100);
  for (const char* target : {"/v1/power?stream", "/v1/power?stream=true"}) {
    const RouteAnswer response = ask("GET", target);
    ASSERT_TRUE(response.stream) << target;
    const std::vector<std::string> events =
        stream_events(*response.stream, service.gpus(), RouteContext{service, cpu_power, metrics});
    ASSERT_EQ(events.size(), 1U);
    const std::string& event = events[0];
    EXPECT_EQ(event.find('\n'), std::string::npos);
    EXPECT_EQ(parse_json(event, "event"), json(once));
  }
}

TEST_F(HttpRoutes, HealthTellsOfGpusThatDoNotAnswer) {
  EXPECT_EQ(json(ask("GET", "/healthz"))["status"], "ok");
  service.gpu_list[0].energy_counter.works = false;
  service.gpu_list[0].energy_counter.problem = "the energy counter shows no energy for 2 s";
  EXPECT_EQ(json(ask("GET", "/healthz"))["status"], "degraded");
  EXPECT_THAT(json(ask("GET", "/healthz"))["problems"].dump(), HasSubstr("shows no energy for 2 s"));
  EXPECT_EQ(json(ask("GET", "/v1/gpus"))["gpus"][0]["energy_problem"], "the energy counter shows no energy for 2 s");
  service.gpu_list[0].energy_counter.works = true;
  service.gpu_list[0].energy_counter.problem.clear();
  service.gpu_list[1].healthy = false;
  const RouteAnswer response = ask("GET", "/healthz");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(json(response)["status"], "degraded");
  EXPECT_EQ(json(response)["healthy_gpus"], 1);
  EXPECT_THAT(json(response)["problems"].dump(), HasSubstr(kFakeUuid1));
}

TEST_F(HttpRoutes, GpusThatNobodyLooksAfterAreNamed) {
  EXPECT_EQ(json(ask("GET", "/v1/gpus"))["unattended"], Json::array());
  service.unattended_list = {{.name = "GPU-lost", .configured = true, .left_changed = true, .problem = "is lost"},
                             {.name = "", .configured = true, .left_changed = false, .problem = "one is missing"}};
  const Json unattended = json(ask("GET", "/v1/gpus"))["unattended"];
  EXPECT_EQ(unattended[0],
            Json({{"gpu", "GPU-lost"}, {"configured", true}, {"left_changed", true}, {"problem", "is lost"}}));
  EXPECT_TRUE(unattended[1]["gpu"].is_null());
  const Json health = json(ask("GET", "/healthz"));
  EXPECT_EQ(health["status"], "degraded");
  EXPECT_EQ(health["problems"], Json({"is lost", "one is missing"}));
}

TEST_F(HttpRoutes, MetricsSayTheirFormat) {
  const RouteAnswer response = ask("GET", "/metrics");
  EXPECT_EQ(response.content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(response.text(), HasSubstr("lowgear_cpu_energy_joules_total{zone=\"package-0\"} 1\n"));
}

}  // namespace
}  // namespace lowgear::agent
