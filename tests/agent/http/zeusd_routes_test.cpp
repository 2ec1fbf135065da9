#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "agent/fake_agent_service.h"
#include "agent/http/http_routes.h"
#include "base/core/formats/json.h"

namespace lowgear::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ZeusdRoutes : public ::testing::Test {
 protected:
  /// The answer, which may be one that comes later.
  RouteAnswer begin(const std::string& method, const std::string& path, const std::string& query) {
    return handle({.method = method,
                   .path = path,
                   .query = query,
                   .headers = {},
                   .body = {},
                   .peer = Peer{1000, 1000, 77},
                   .remote = {}},
                  RouteContext{service, cpu_power, metrics});
  }
  RouteAnswer ask(const std::string& method, const std::string& path, const std::string& query = {}) {
    RouteAnswer answer = begin(method, path, query);
    if (const auto later = answer.later) later([&answer](http::Response response) { answer = std::move(response); });
    return answer;
  }
  Json read(const std::string& path, const std::string& query = {}) {
    const RouteAnswer response = ask("GET", path, query);
    EXPECT_EQ(response.status, 200) << response.text();
    return parse_json(response.text(), "reply");
  }
  std::vector<std::string> events(const std::string& path, const std::string& query = {}) {
    const RouteAnswer answer = ask("GET", path, query);
    EXPECT_TRUE(answer.stream) << path << answer.text();
    return stream_events(answer.stream.value_or(PowerStream{}), service.gpus(),
                         RouteContext{service, cpu_power, metrics, zeusd_events});
  }

  FakeAgentService service;
  FakeCpuMeter cpu_meter;
  std::int64_t now_ns = 1;
  CpuPower cpu_power{&cpu_meter, [this] { return now_ns; }};
  Metrics metrics;
  ZeusdEvents zeusd_events = ZeusdEvents::device;
};

TEST_F(ZeusdRoutes, ReadersGetMapsFromIndexToValue) {
  EXPECT_EQ(read("/gpu/get_cumulative_energy").dump(), R"({"0":{"energy_mj":123456},"1":{"energy_mj":124456}})");
  EXPECT_EQ(read("/gpu/get_power_limit", "gpu_ids=1").dump(), R"({"1":{"power_limit_mw":650000}})");
  EXPECT_EQ(read("/gpu/get_power_limit_constraints", "gpu_ids=0").dump(),
            R"({"0":{"min_power_limit_mw":200000,"max_power_limit_mw":700000}})");
  EXPECT_EQ(read("/gpu/get_persistence_mode").dump(), R"({"0":{"enabled":true},"1":{"enabled":false}})");
  EXPECT_EQ(read("/gpu/get_power", "gpu_ids=1%2C0").dump(),
            R"({"timestamp_ms":1762000000000,"power_mw":{"0":75000,"1":100000}})");
}

TEST_F(ZeusdRoutes, IndicesAreTheDriversNotPlacesInTheList) {
  service.gpu_list[0].identity.index = 3;
  EXPECT_EQ(read("/gpu/get_cumulative_energy", "gpu_ids=3").dump(), R"({"3":{"energy_mj":123456}})");
  EXPECT_EQ(ask("GET", "/gpu/get_cumulative_energy", "gpu_ids=0").status, 400);
}

TEST_F(ZeusdRoutes, IndicesAreNotTrustedWhereTheDriverHidesAGpu) {
  service.hidden = {"GPU number 1: handle: GPU is lost"};
  for (const auto& [method, path, query] :
       {std::tuple{"GET", "/gpu/get_cumulative_energy", "gpu_ids=0"}, std::tuple{"GET", "/gpu/get_power", "gpu_ids=0"},
        std::tuple{"POST", "/gpu/set_persistence_mode", "gpu_ids=0&enabled=true&block=true"}}) {
    const RouteAnswer answer = ask(method, path, query);
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_NE(answer.text().find("GPU number 1"), std::string::npos) << answer.text();
  }
  EXPECT_EQ(ask("GET", "/gpu/get_cumulative_energy").status, 200);
  EXPECT_TRUE(service.calls.empty());
}

TEST_F(ZeusdRoutes, SettersAnswerWithAnEmptyBody) {
  const std::vector<std::pair<std::string, std::string>> setters = {
      {"set_gpu_locked_clocks", "&min_clock_mhz=900&max_clock_mhz=1200"},
      {"reset_gpu_locked_clocks", ""},
      {"set_mem_locked_clocks", "&min_clock_mhz=1593&max_clock_mhz=2619"},
      {"reset_mem_locked_clocks", ""},
      {"set_power_limit", "&power_limit_mw=412500"},
      {"set_persistence_mode", "&enabled=true"},
  };
  for (const auto& [path, parameters] : setters) {
    const RouteAnswer response = ask("POST", "/gpu/" + path, "gpu_ids=0&block=true" + parameters);
    EXPECT_EQ(response.status, 200) << path << response.text();
    EXPECT_EQ(response.text(), "") << path;
  }
  EXPECT_THAT(service.calls,
              ElementsAre("lock SM clocks to 900-1200 MHz of 0 by 1000", "reset SM clocks of 0 by 1000",
                          "lock memory clocks to 1593-2619 MHz of 0 by 1000", "reset memory clocks of 0 by 1000",
                          "set the power limit to 412.5 W of 0 by 1000", "enable persistence mode of 0 by 1000"));
}

TEST_F(ZeusdRoutes, ASetterReachesEachGpuOnce) {
  EXPECT_EQ(ask("POST", "/gpu/reset_mem_locked_clocks", "gpu_ids=1,0,1&block=false").status, 200);
  EXPECT_THAT(service.calls, ElementsAre("reset memory clocks of 0 by 1000", "reset memory clocks of 1 by 1000"));
}

TEST_F(ZeusdRoutes, AllGpusAreAskedBeforeAnyIsWaitedFor) {
  service.holds_writes = true;
  const RouteAnswer waiting = begin("POST", "/gpu/reset_gpu_locked_clocks", "gpu_ids=0,1&block=true");
  ASSERT_TRUE(waiting.later);
  std::vector<http::Response> answers;
  waiting.later([&](http::Response response) { answers.push_back(std::move(response)); });
  EXPECT_THAT(service.calls, ElementsAre("reset SM clocks of 0 by 1000", "reset SM clocks of 1 by 1000"));
  service.held.at(1)(std::make_exception_ptr(gpu::GpuError(gpu::GpuErrorCode::timeout, "has not answered")));
  EXPECT_TRUE(answers.empty());
  service.held.at(0)(nullptr);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].status, 504);
  EXPECT_EQ(parse_json(answers[0].text(), "reply")["errors"].dump(), R"({"1":"has not answered"})");
}

TEST_F(ZeusdRoutes, ErrorsAreToldForEachGpuWithTheWorstStatus) {
  int calls = 0;
  service.before_call = [&] {
    if (++calls == 1) throw gpu::GpuError(gpu::GpuErrorCode::invalid_value, "too low");
    throw GpuBusy("held by another job");
  };
  const RouteAnswer response = ask("POST", "/gpu/set_power_limit", "gpu_ids=0,1&power_limit_mw=1&block=true");
  EXPECT_EQ(response.status, 409);
  const Json body = parse_json(response.text(), "reply");
  EXPECT_EQ(body["errors"].dump(), R"({"0":"too low","1":"held by another job"})");
  EXPECT_EQ(body["error"]["code"], "gpu_busy");
}

TEST_F(ZeusdRoutes, OneGpuThatFailsDoesNotKeepTheOthersFromBeingSet) {
  int calls = 0;
  service.before_call = [&] {
    if (++calls == 1) throw GpuBusy("held by another job");
  };
  EXPECT_EQ(ask("POST", "/gpu/reset_gpu_locked_clocks", "gpu_ids=0,1&block=true").status, 409);
  EXPECT_THAT(service.calls, ElementsAre("reset SM clocks of 1 by 1000"));
}

TEST_F(ZeusdRoutes, WrongParametersAreRefused) {
  const std::string path = "/gpu/set_gpu_locked_clocks";
  for (const char* query :
       {"", "gpu_ids=0", "gpu_ids=0&block=true&min_clock_mhz=1", "gpu_ids=0&block=1&min_clock_mhz=1&max_clock_mhz=2",
        "gpu_ids=0&block=true&min_clock_mhz=2&max_clock_mhz=1", "gpu_ids=0&block=true&min_clock_mhz=-1&max_clock_mhz=1",
        "gpu_ids=0&block=true&min_clock_mhz=x&max_clock_mhz=1",
        "gpu_ids=0&block=true&min_clock_mhz=1&max_clock_mhz=99999999999999999999",
        "gpu_ids=&block=true&min_clock_mhz=1&max_clock_mhz=2", "gpu_ids=0,&block=true&min_clock_mhz=1&max_clock_mhz=2",
        "gpu_ids=-1&block=true&min_clock_mhz=1&max_clock_mhz=2", "gpu_ids=7&block=true&min_clock_mhz=1&max_clock_mhz=2",
        "gpu_ids=0&block=true&min_clock_mhz=1&max_clock_mhz=2&extra=1", "block=true&min_clock_mhz=1&max_clock_mhz=2"}) {
    const RouteAnswer response = ask("POST", path, query);
    EXPECT_EQ(response.status, 400) << query << response.text();
  }
  EXPECT_THAT(service.calls, IsEmpty());
}

TEST_F(ZeusdRoutes, WhatAGpuDoesNotReportIsNotZero) {
  service.gpu_list[0].reading.energy_j.reset();
  service.gpu_list[0].persistence_mode.reset();
  service.gpu_list[1].healthy = false;
  service.gpu_list[1].problem = "fallen off the bus";
  for (const char* path : {"/gpu/get_cumulative_energy", "/gpu/get_persistence_mode"}) {
    EXPECT_EQ(ask("GET", path, "gpu_ids=0").status, 400) << path;
    const RouteAnswer lost = ask("GET", path, "gpu_ids=1");
    EXPECT_EQ(lost.status, 503) << path;
    EXPECT_THAT(lost.text(), testing::HasSubstr("fallen off the bus")) << path;
  }
}

TEST_F(ZeusdRoutes, StreamsCarryAnEventOfEachGpuAskedFor) {
  service.gpu_list[1].reading.time_ns += 7'000'000;
  const std::string first = R"({"timestamp_ms":1762000000000,"gpu_id":0,"power_mw":75000})";
  const std::string second = R"({"timestamp_ms":1762000000007,"gpu_id":1,"power_mw":100000})";
  EXPECT_THAT(events("/gpu/stream_power"), ElementsAre(first, second));
  EXPECT_THAT(events("/gpu/stream_power", "gpu_ids=1"), ElementsAre(second));
  EXPECT_EQ(ask("GET", "/gpu/stream_power", "gpu_ids=9").status, 400);
}

TEST_F(ZeusdRoutes, AGpuThatTellsNoPowerHasNoEvent) {
  service.gpu_list[0].reading.power_w.reset();
  service.gpu_list[1].healthy = false;
  EXPECT_THAT(events("/gpu/stream_power"), IsEmpty());
}

TEST_F(ZeusdRoutes, OlderClientsMayHaveOneEventForAllGpus) {
  zeusd_events = ZeusdEvents::snapshot;
  EXPECT_THAT(events("/gpu/stream_power"),
              ElementsAre(R"({"timestamp_ms":1762000000000,"power_mw":{"0":75000,"1":100000}})"));
  EXPECT_THAT(events("/gpu/stream_power", "gpu_ids=1"),
              ElementsAre(R"({"timestamp_ms":1762000000000,"power_mw":{"1":100000}})"));
}

TEST_F(ZeusdRoutes, StreamsOfCpusCarryAnEventOfEachPackage) {
  EXPECT_THAT(events("/cpu/stream_power"), IsEmpty()) << "power takes two readings";
  now_ns += 100'000'000;
  cpu_meter.gained_uj = 8'000'000;
  const auto without_time = [](const std::vector<std::string>& texts) {
    std::vector<std::string> rest;
    for (const std::string& text : texts) {
      Json event = parse_json(text, "event");
      EXPECT_GT(event["timestamp_ms"], 1'700'000'000'000);
      event.erase("timestamp_ms");
      rest.push_back(event.dump());
    }
    return rest;
  };
  const std::string first = R"({"cpu_id":0,"cpu_mw":80000,"dram_mw":40000})";
  const std::string second = R"({"cpu_id":1,"cpu_mw":80000,"dram_mw":null})";
  EXPECT_THAT(without_time(events("/cpu/stream_power")), ElementsAre(first, second));
  EXPECT_THAT(without_time(events("/cpu/stream_power", "cpu_ids=1")), ElementsAre(second));
  zeusd_events = ZeusdEvents::snapshot;
  EXPECT_THAT(without_time(events("/cpu/stream_power", "cpu_ids=1")),
              ElementsAre(R"({"power_mw":{"1":{"cpu_mw":80000,"dram_mw":null}}})"));
}

TEST_F(ZeusdRoutes, CpuEnergyIsInMicrojoules) {
  EXPECT_EQ(
      read("/cpu/get_cumulative_energy", "cpu_ids=0,1&cpu=true&dram=true").dump(),
      R"({"0":{"cpu_energy_uj":1000000,"dram_energy_uj":500000},"1":{"cpu_energy_uj":2000000,"dram_energy_uj":null}})");
  EXPECT_EQ(read("/cpu/get_cumulative_energy", "cpu_ids=0&cpu=false&dram=true").dump(),
            R"({"0":{"cpu_energy_uj":null,"dram_energy_uj":500000}})");
  EXPECT_EQ(ask("GET", "/cpu/get_cumulative_energy", "cpu_ids=0").status, 400);
  EXPECT_EQ(ask("GET", "/cpu/get_cumulative_energy", "cpu_ids=5&cpu=true&dram=true").status, 400);
}

TEST_F(ZeusdRoutes, EnergyOfACounterThatDoesNotWorkIsNull) {
  cpu_meter.dram_problem = "energy_uj: the counter shows no energy for 2 s";
  const Json cpu = read("/cpu/get_cumulative_energy", "cpu_ids=0&cpu=true&dram=true")["0"];
  EXPECT_EQ(cpu["cpu_energy_uj"], 1'000'000);
  EXPECT_TRUE(cpu["dram_energy_uj"].is_null());
  EXPECT_EQ(cpu["problem"], cpu_meter.dram_problem);
  EXPECT_EQ(read("/discover")["dram_available"].dump(), "[false,false]");

  service.gpu_list[0].energy_counter.works = false;
  service.gpu_list[0].energy_counter.problem = "the energy counter shows no energy for 2 s";
  service.gpu_list[0].reading.energy_j.reset();
  const RouteAnswer refused = ask("GET", "/gpu/get_cumulative_energy", "gpu_ids=0");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.text(), testing::HasSubstr("shows no energy for 2 s"));
  EXPECT_EQ(read("/discover")["gpus"][0]["cumulative_energy_available"], false);
  EXPECT_EQ(read("/discover")["gpus"][1]["cumulative_energy_available"], true);
}

TEST_F(ZeusdRoutes, CpuPowerTakesTwoReadings) {
  const RouteAnswer later = ask("GET", "/cpu/get_power");
  EXPECT_EQ(later.ask_again_after, std::chrono::milliseconds(100));
  now_ns += 100'000'000;
  cpu_meter.gained_uj = 8'000'000;
  const Json body = read("/cpu/get_power");
  EXPECT_EQ(body["power_mw"].dump(), R"({"0":{"cpu_mw":80000,"dram_mw":40000},"1":{"cpu_mw":80000,"dram_mw":null}})");
}

TEST_F(ZeusdRoutes, AMachineWithoutCpuCountersSaysWhy) {
  cpu_meter.absent_because = "/sys/class/powercap: no such directory";
  for (const char* path : {"/cpu/get_power", "/cpu/stream_power"}) {
    const RouteAnswer response = ask("GET", path);
    EXPECT_EQ(response.status, 501);
    EXPECT_THAT(response.text(), testing::HasSubstr("/sys/class/powercap"));
  }
  EXPECT_EQ(ask("GET", "/cpu/get_cumulative_energy", "cpu=true&dram=true").status, 501);
  EXPECT_EQ(read("/discover")["cpu_ids"], Json::array());
}

TEST_F(ZeusdRoutes, DiscoverTellsWhatIsHere) {
  const Json body = read("/discover");
  EXPECT_EQ(body["gpu_ids"].dump(), "[0,1]");
  EXPECT_EQ(
      body["gpus"][1].dump(),
      R"({"id":1,"name":"NVIDIA H100 80GB HBM3","pci_address":"0000:00:07.0","cumulative_energy_available":true})");
  EXPECT_EQ(body["cpu_ids"].dump(), "[0,1]");
  EXPECT_EQ(body["dram_available"].dump(), "[true,false]");
  EXPECT_EQ(body["enabled_api_groups"].dump(), R"(["gpu-read","gpu-control","cpu-read"])");
  EXPECT_EQ(body["auth_required"], false);
}

TEST_F(ZeusdRoutes, DiscoverTellsOfAGpuThatCountsNoEnergy) {
  service.gpu_list[0].energy_counter.works = false;
  service.gpu_list[1].reading.energy_j.reset();  // counted, and not read yet
  const Json body = read("/discover");
  EXPECT_EQ(body["gpus"][0]["cumulative_energy_available"], false);
  EXPECT_EQ(body["gpus"][1]["cumulative_energy_available"], true);
}

TEST_F(ZeusdRoutes, AllClockDomainsAreResetByOneCall) {
  EXPECT_EQ(ask("POST", "/gpu/reset_locked_clocks", "gpu_ids=1,0&block=true").status, 200);
  EXPECT_THAT(service.calls, ElementsAre("reset SM clocks of 0 by 1000", "reset memory clocks of 0 by 1000",
                                         "reset SM clocks of 1 by 1000", "reset memory clocks of 1 by 1000"));
}

TEST_F(ZeusdRoutes, MemoryClocksThatNobodyCanLockNeedNoReset) {
  int calls = 0;
  std::function<void()> refuse;
  service.before_call = [&] {
    if (++calls % 2 == 0) refuse();  // the memory's clocks come second
  };
  const auto status = [&] { return ask("POST", "/gpu/reset_locked_clocks", "gpu_ids=0&block=true").status; };
  refuse = [] { throw AccessDenied("its entry of allow would need memory_clocks: true"); };
  EXPECT_EQ(status(), 200);
  refuse = [] { throw gpu::GpuError(gpu::GpuErrorCode::not_supported, "no memory clocks"); };
  EXPECT_EQ(status(), 200);
  refuse = [] { throw gpu::GpuError(gpu::GpuErrorCode::driver_error, "failed"); };
  EXPECT_EQ(status(), 500);
}

TEST_F(ZeusdRoutes, WhatTheDriverSaysLaterToTheMemorysClocksCounts) {
  service.holds_writes = true;
  const RouteAnswer waiting = begin("POST", "/gpu/reset_locked_clocks", "gpu_ids=0&block=true");
  ASSERT_TRUE(waiting.later);
  std::vector<http::Response> answers;
  waiting.later([&](http::Response response) { answers.push_back(std::move(response)); });
  ASSERT_EQ(service.held.size(), 1U);
  WriteDone(service.held.at(0))(nullptr);
  ASSERT_EQ(service.held.size(), 2U);
  EXPECT_TRUE(answers.empty());
  service.held.at(1)(std::make_exception_ptr(gpu::GpuError(gpu::GpuErrorCode::timeout, "has not answered")));
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].status, 504);
}

TEST_F(ZeusdRoutes, DiscoverPromisesNoControlWhereThereIsNone) {
  for (GpuStatus& gpu : service.gpu_list) gpu.controlled = false;
  EXPECT_EQ(read("/discover")["enabled_api_groups"].dump(), R"(["gpu-read","cpu-read"])");
}

TEST_F(ZeusdRoutes, ThereAreNoTokens) { EXPECT_EQ(ask("GET", "/auth/whoami").status, 404); }

}  // namespace
}  // namespace lowgear::agent
