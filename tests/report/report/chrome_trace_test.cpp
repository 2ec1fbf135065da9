#include "report/report/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "base/core/error_of.h"
#include "base/core/formats/json.h"

namespace lowgear::report {
namespace {

using ::testing::HasSubstr;

constexpr double kUsPerSecond = 1e6;

/// Rank 0 computes 0-0.1 s and 0.1-0.3 s, rank 1 0.1-0.25 s; the iteration ends at 0.4 s.
Timeline small_timeline() {
  return {.label = "lowgear, plan 0",
          .time_s = 0.4,
          .energy_j = 0,
          .ranks = {{{{0, OpKind::forward, 0, 1410, 0, 0.1}, 30}, {{0, OpKind::backward, 0, 1200, 0.1, 0.2}, 50}},
                    {{{1, OpKind::forward, 0, 1005, 0.1, 0.15}, 21}}}};
}

std::vector<Json> events(const Json& trace, std::string_view phase) {
  std::vector<Json> found;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) {
      found.push_back(event);
    }
  }
  return found;
}

/// Energy under each process's counter until the iteration's end, in the order of the processes.
std::map<int, double> counter_areas_j(const Json& trace) {
  std::map<int, double> area_j;
  std::map<int, Json> last;
  const double end_us = trace["otherData"]["time_s"].get<double>() * kUsPerSecond;
  const auto add = [&](const Json& sample, double until_us) {
    area_j[sample["pid"].get<int>()] +=
        sample["args"]["W"].get<double>() * (until_us - sample["ts"].get<double>()) / kUsPerSecond;
  };
  for (const Json& sample : events(trace, "C")) {
    const int pid = sample["pid"].get<int>();
    if (last.contains(pid)) {
      EXPECT_GT(sample["ts"].get<double>(), last[pid]["ts"].get<double>());
      add(last[pid], sample["ts"].get<double>());
    }
    last[pid] = sample;
  }
  for (const auto& [pid, sample] : last) {
    add(sample, end_us);
  }
  return area_j;
}

Json trace_of(const Timeline& timeline, const std::vector<double>& blocking_w,
              TraceFigures figures = TraceFigures::replayed) {
  return parse_json(write_chrome_trace(timeline, blocking_w, figures), "trace.json");
}

TEST(ChromeTrace, HasASliceForEveryOp) {
  const Json trace = trace_of(small_timeline(), {80, 90});
  const auto slices = events(trace, "X");
  ASSERT_EQ(slices.size(), 3U);
  EXPECT_EQ(slices[1], Json::parse(R"({"pid":1,"tid":1,"ph":"X","name":"B0","cat":"backward","ts":100000.0,
      "dur":200000.0,"args":{"kind":"backward","stage":0,"microbatch":0,"clock_mhz":1200,"energy_j":50}})"));
  EXPECT_EQ(slices[2]["pid"], 2);
  EXPECT_EQ(slices[2]["args"]["stage"], 1);
}

TEST(ChromeTrace, ShowsPowerOfOpsAndBlockingPowerBetween) {
  std::vector<std::tuple<int, double, double>> samples;
  for (const Json& sample : events(trace_of(small_timeline(), {80, 90}), "C")) {
    samples.emplace_back(sample["pid"].get<int>(), sample["ts"].get<double>(), sample["args"]["W"].get<double>());
  }
  const std::vector<std::tuple<int, double, double>> expected{{1, 0, 300}, {1, 1e5, 250}, {1, 3e5, 80},
                                                              {2, 0, 90},  {2, 1e5, 140}, {2, 2.5e5, 90}};
  ASSERT_EQ(samples.size(), expected.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(std::get<0>(samples[i]), std::get<0>(expected[i]));
    EXPECT_DOUBLE_EQ(std::get<1>(samples[i]), std::get<1>(expected[i]));
    EXPECT_DOUBLE_EQ(std::get<2>(samples[i]), std::get<2>(expected[i]));
  }
}

TEST(ChromeTrace, SaysWhatItIs) {
  const Json planned = trace_of(small_timeline(), {80, 90}, TraceFigures::planned);
  EXPECT_EQ(planned["otherData"]["title"], "lowgear, plan 0 (planned)");
  const Json replayed = trace_of(small_timeline(), {80, 90});
  EXPECT_EQ(replayed["otherData"]["figures"], "replayed");
  std::vector<std::string> processes;
  for (const Json& event : events(replayed, "M")) {
    if (event["name"] == "process_name") {
      processes.push_back(event["args"]["name"]);
    }
  }
  EXPECT_THAT(processes,
              ::testing::ElementsAre("rank 0: lowgear, plan 0 (replayed)", "rank 1: lowgear, plan 0 (replayed)"));
}

TEST(ChromeTrace, TakesAnyLabel) {
  Timeline timeline = small_timeline();
  timeline.label = "\"\\\n\xff</script>";
  EXPECT_EQ(trace_of(timeline, {80, 90})["otherData"]["title"], "\"\\\n\xEF\xBF\xBD</script> (replayed)");
}

/// Ops of awkward lengths that touch or wait a little, over an iteration of some seconds.
Timeline random_timeline(std::mt19937& random, int ranks, int ops) {
  const auto real = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  Timeline timeline{.label = "random", .time_s = 0, .energy_j = 0, .ranks = {}};
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Op> row;
    double at_s = real(0, 0.1);
    for (int op = 0; op < ops; ++op) {
      row.push_back({{rank, OpKind::forward, op, 1000, at_s, real(0.01, 0.1)}, real(1, 40)});
      at_s = row.back().start_s + row.back().duration_s + (random() % 2 == 0 ? 0 : real(0, 0.05));
    }
    timeline.time_s = std::max(timeline.time_s, at_s);
    timeline.ranks.push_back(row);
  }
  return timeline;
}

TEST(ChromeTrace, NeverOverlapsSlicesOfAThreadWhenReadAsNanoseconds) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::map<int, std::int64_t> end_ns;
    for (const Json& slice : events(trace_of(random_timeline(random, 3, 60), {80, 90, 100}), "X")) {
      const std::int64_t start_ns = std::llround(slice["ts"].get<double>() * 1000);
      std::int64_t& last_end_ns = end_ns[slice["tid"].get<int>()];
      EXPECT_GE(start_ns, last_end_ns);
      last_end_ns = start_ns + std::llround(slice["dur"].get<double>() * 1000);
    }
  }
}

TEST(ChromeTrace, HasTheEnergyOfTheIterationUnderItsCounters) {
  std::mt19937 random(2);
  const std::vector<double> blocking_w{80, 90, 100};
  for (int round = 0; round < 20; ++round) {
    const Timeline timeline = random_timeline(random, 3, 60);
    const auto area_j = counter_areas_j(trace_of(timeline, blocking_w));
    ASSERT_EQ(area_j.size(), blocking_w.size());
    double energy_j = 0;
    double total_area_j = 0;
    for (std::size_t rank = 0; rank < blocking_w.size(); ++rank) {
      double blocked_s = timeline.time_s;
      for (const Op& op : timeline.ranks[rank]) {
        energy_j += op.energy_j;
        blocked_s -= op.duration_s;
      }
      energy_j += blocking_w[rank] * blocked_s;
      total_area_j += area_j.at(static_cast<int>(rank) + 1);
    }
    EXPECT_NEAR(total_area_j, energy_j, 1e-9 * energy_j);
  }
}

TEST(ChromeTrace, ShowsARankWithoutOpsAsWaiting) {
  Timeline timeline = small_timeline();
  timeline.ranks[1].clear();
  EXPECT_NEAR(counter_areas_j(trace_of(timeline, {80, 90})).at(2), 36, 1e-9);
}

TEST(ChromeTrace, RefusesTimesThatContradictEachOther) {
  const auto error_of = [](const Timeline& timeline) -> std::string {
    return lowgear::error_of([&] {
      (void)write_chrome_trace(timeline, std::vector<double>{80, 90}, TraceFigures::planned);
    });
  };
  Timeline timeline = small_timeline();
  timeline.ranks[0][1].start_s = 0.09;
  EXPECT_THAT(error_of(timeline), HasSubstr("rank 0: op 1 overlaps"));
  timeline = small_timeline();
  timeline.ranks[1][0].duration_s = 0.31;
  EXPECT_THAT(error_of(timeline), HasSubstr("rank 1: op 0"));
  timeline = small_timeline();
  timeline.ranks[1][0].start_s = std::nan("");
  EXPECT_THAT(error_of(timeline), HasSubstr("out of range"));
  timeline = small_timeline();
  timeline.ranks[1][0].energy_j = -1;
  EXPECT_THAT(error_of(timeline), HasSubstr("out of range"));
  timeline = small_timeline();
  timeline.time_s = HUGE_VAL;
  EXPECT_THAT(error_of(timeline), HasSubstr("out of range"));
  EXPECT_EQ(error_of(small_timeline()), "no error");
}

TEST(ChromeTrace, TakesTimesThatDifferByTheirRounding) {
  Timeline timeline = small_timeline();
  timeline.ranks[0][1].start_s = 0.1 - 4e-10;
  timeline.time_s = 0.3 - 9e-10;
  timeline.ranks[1].clear();
  const auto slices = events(trace_of(timeline, {80, 90}), "X");
  EXPECT_DOUBLE_EQ(slices[1]["ts"].get<double>(), 1e5);
  EXPECT_LE(slices[1]["ts"].get<double>() + slices[1]["dur"].get<double>(), 299999.9991);
}

}  // namespace
}  // namespace lowgear::report
