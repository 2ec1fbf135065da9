#include "agent/http/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "agent/fake_agent_service.h"
#include "report/metrics/exposition_check.h"

namespace lowgear::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kSecond_ns = 1'000'000'000;

std::string labels(int gpu) { return fmt::format("gpu=\"{}\",uuid=\"{}\"", gpu, gpu == 0 ? kFakeUuid0 : kFakeUuid1); }

TEST(Metrics, GpusAreReportedInBaseUnits) {
  FakeAgentService service;
  service.gpu_list[0].clock_writes = 12;
  service.gpu_list[0].clock_write_errors = 3;
  service.gpu_list[0].late_units = 4;
  service.gpu_list[0].requested_max_mhz = 1200;
  const std::string text = Metrics().gather(service, {}).text();
  for (const std::string& line : {
           "lowgear_gpu_energy_joules_total{" + labels(0) + "} 123.456",
           "lowgear_gpu_power_watts{" + labels(1) + "} 100",
           "lowgear_gpu_power_limit_watts{" + labels(0) + "} 600",
           "lowgear_gpu_sm_clock_hertz{" + labels(0) + "} 1980000000",
           "lowgear_gpu_temperature_celsius{" + labels(0) + "} 41",
           "lowgear_gpu_utilisation_ratio{" + labels(0) + "} 0.35",
           "lowgear_gpu_clock_writes_total{" + labels(0) + "} 12",
           "lowgear_gpu_clock_write_errors_total{" + labels(0) + "} 3",
           "lowgear_gpu_late_units_total{" + labels(0) + "} 4",
           "lowgear_gpu_requested_clock_hertz{" + labels(0) + ",bound=\"max\"} 1200000000",
           "lowgear_gpu_clock_state{" + labels(0) + ",state=\"untouched\"} 1",
           std::string("lowgear_simulated 1"),
           std::string("lowgear_leases 0"),
       }) {
    EXPECT_THAT(text, HasSubstr(line + "\n"));
  }
  EXPECT_THAT(text, HasSubstr("lowgear_build_info{version=\""));
}

TEST(Metrics, WhatIsNotReportedIsLeftOut) {
  FakeAgentService service;
  service.gpu_list[0].reading.energy_j.reset();
  service.gpu_list[0].reading.power_w = std::numeric_limits<double>::quiet_NaN();
  service.gpu_list[1].healthy = false;
  const std::string text = Metrics().gather(service, {}).text();
  EXPECT_THAT(text, Not(HasSubstr("lowgear_gpu_energy_joules_total")));
  EXPECT_THAT(text, Not(HasSubstr("lowgear_gpu_power_watts")));
  EXPECT_THAT(text, Not(HasSubstr("Nan")));
  EXPECT_THAT(text, HasSubstr("lowgear_gpu_healthy{" + labels(1) + "} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("lowgear_gpu_sm_clock_hertz{" + labels(1))));
}

TEST(Metrics, EnergyCountersThatAreSetAsideAreCounted) {
  FakeAgentService service;
  EnergyCounterStatus& counter = service.gpu_list[0].energy_counter;
  counter.works = false;
  counter.set_aside.at(static_cast<std::size_t>(EnergyFault::too_high)) = 2;
  service.gpu_list[1].energy_counter.present = false;
  FakeCpuMeter cpus;
  cpus.set_aside = 3;
  cpus.dram_problem = "stands still";
  const std::string text = Metrics().gather(service, cpus.read()).text();
  EXPECT_THAT(text, HasSubstr("lowgear_gpu_energy_known{" + labels(0) + "} 0\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_gpu_energy_set_aside_total{" + labels(0) + ",reason=\"too_high\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_gpu_energy_set_aside_total{" + labels(0) + ",reason=\"falls\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("lowgear_gpu_energy_known{" + labels(1))));
  EXPECT_THAT(text, HasSubstr("lowgear_cpu_energy_set_aside_total{zone=\"dram-0\"} 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("lowgear_cpu_energy_joules_total{zone=\"dram-0\"}")));
}

TEST(Metrics, PowerFeaturesAreThoseThatTheGpuHas) {
  FakeAgentService service;
  EXPECT_THAT(Metrics().gather(service, {}).text(), Not(HasSubstr("lowgear_gpu_power_smoothing{")));
  service.gpu_list[0].workload_power_profiles = {.supported = 0b1000'0010, .requested = 0b10, .enforced = 0};
  gpu::PowerSmoothing& smoothing = service.gpu_list[0].power_smoothing.emplace();
  smoothing.enabled = true;
  smoothing.lifetime_left_percent = 97;
  const std::string text = Metrics().gather(service, {}).text();
  const auto profile = [](const char* name, const char* state) {
    return fmt::format("lowgear_gpu_workload_power_profile{{{},profile=\"{}\",state=\"{}\"}} ", labels(0), name, state);
  };
  for (const std::string& line :
       {profile("max_q", "requested") + "1", profile("max_q", "enforced") + "0",
        profile("llm_training", "requested") + "0", "lowgear_gpu_power_smoothing{" + labels(0) + "} 1",
        "lowgear_gpu_power_smoothing_lifetime_ratio{" + labels(0) + "} 0.97"}) {
    EXPECT_THAT(text, HasSubstr(line + "\n"));
  }
  EXPECT_THAT(text, Not(HasSubstr("max_p")));
  EXPECT_THAT(text, Not(HasSubstr("lowgear_gpu_power_smoothing{" + labels(1))));
  metrics::expect_samples_in_families(text);
}

TEST(Metrics, GpusThatNobodyLooksAfterAreCounted) {
  FakeAgentService service;
  EXPECT_THAT(Metrics().gather(service, {}).text(), HasSubstr("lowgear_gpus_unattended 0\n"));
  service.unattended_list.resize(2);
  EXPECT_THAT(Metrics().gather(service, {}).text(), HasSubstr("lowgear_gpus_unattended 2\n"));
}

TEST(Metrics, NothingClaimsToBeSaved) {
  FakeAgentService service;
  EXPECT_THAT(Metrics().gather(service, {}).text(), Not(HasSubstr("saved")));
}

TEST(Metrics, EverySampleStandsUnderItsTypeAndNoneComesTwice) {
  FakeAgentService service;
  service.gpu_list[0].identity.name = "a \"quoted\"\\ name\nof two lines";
  Metrics metrics;
  metrics.observe(service.gpus());
  EXPECT_GT(metrics::expect_samples_in_families(metrics.gather(service, FakeCpuMeter().read()).text()), 40U);
}

TEST(Metrics, ThrottlingIsCountedBetweenReadings) {
  FakeAgentService service;
  Metrics metrics;
  GpuReading& reading = service.gpu_list[0].reading;
  const auto observe = [&](double seconds, std::uint64_t reasons) {
    reading.time_ns += static_cast<std::int64_t>(seconds * static_cast<double>(kSecond_ns));
    reading.throttle_reasons = gpu::ThrottleReasons{reasons};
    metrics.observe(service.gpus());
  };
  observe(0, 0x4);     // the first: since when is not known
  observe(0.25, 0x4);  // power cap
  observe(0, 0x4);     // the same reading again
  observe(0.5, 0x40);  // thermal
  observe(0.5, 0);     // none
  observe(100, 0x4);   // a gap: at most a second
  observe(-50, 0x4);   // the clock was set back
  const std::string text = metrics.gather(service, {}).text();
  EXPECT_THAT(text, HasSubstr("throttle_seconds_total{" + labels(0) + ",reason=\"power_cap\"} 1.25\n"));
  EXPECT_THAT(text, HasSubstr("throttle_seconds_total{" + labels(0) + ",reason=\"thermal\"} 0.5\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_gpu_throttled{" + labels(0) + ",reason=\"power_cap\"} 1\n"));
}

TEST(Metrics, CpuEnergyIsByZone) {
  FakeAgentService service;
  const std::string text = Metrics().gather(service, FakeCpuMeter().read()).text();
  EXPECT_THAT(text, HasSubstr("lowgear_cpu_energy_joules_total{zone=\"package-1\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_cpu_energy_joules_total{zone=\"dram-0\"} 0.5\n"));
}

}  // namespace
}  // namespace lowgear::agent
