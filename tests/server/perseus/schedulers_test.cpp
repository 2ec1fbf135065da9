#include "server/perseus/schedulers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/formats/csv.h"
#include "base/core/progress.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/generators.h"
#include "server/perseus/lowgear.h"
#include "server/perseus/test_support.h"

namespace lowgear::server::perseus {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Settings settings_of(std::string_view scheduler, std::string_view args = "", std::string_view mode = "") {
  return read_perseus_settings(scheduler, args, mode);
}

/// Settings of a scheduler that runs plans, without their files.
Settings solution(std::string_view scheduler, std::vector<formats::PerseusPlan> plans, int warmup_iters = 0) {
  Settings settings;
  settings.scheduler = scheduler;
  settings.arguments.warmup_iters = warmup_iters;
  settings.solutions = std::make_shared<const std::vector<formats::PerseusPlan>>(std::move(plans));
  return settings;
}

formats::PerseusPlan plan_of(int stages, int clock_mhz) {
  const formats::PerseusPlan::Entry entry = {std::nullopt, clock_mhz};
  return {std::vector(static_cast<std::size_t>(stages), std::vector(2 * kTestMicrobatches, entry))};
}

/// A scheduler with simulated ranks around it.
struct SimulatedJob {
  SimulatedJob(const Settings& with, const TestJobShape& of)
      : settings(with),
        shape(of),
        ranks(test_ranks(of)),
        layout(make_perseus_layout(settings, test_job(of), ranks)),
        scheduler(make_perseus_scheduler(settings, layout)) {}

  /// What a rank runs now; empty when there is nothing more.
  [[nodiscard]] std::vector<int> states(int rank) const {
    const Step step = scheduler->schedule();
    const auto* schedule = std::get_if<Schedule>(&step);
    if (schedule == nullptr) return {};
    return schedule->power_states.at(
        static_cast<std::size_t>(layout.position_of_rank.at(static_cast<std::size_t>(rank))));
  }
  [[nodiscard]] std::string stop() const {
    const Step step = scheduler->schedule();
    const auto* stop = std::get_if<Stop>(&step);
    return stop == nullptr ? "" : stop->message;
  }
  /// All ranks run the present window.
  void run_window() {
    double iteration_s = 0;
    for (const RankInfo& rank : ranks) {
      iteration_s = std::max(iteration_s,
                             test_result(rank, states(rank.rank), 0, true, slower(rank.rank)).iteration_time_s.back());
    }
    std::vector<Result> results;
    for (const RankInfo& rank : ranks) {
      results.push_back(test_result(rank, states(rank.rank), iteration_s * 1.2, with_energies, slower(rank.rank)));
    }
    std::vector<Window> window;
    if (scheduler->observes()) window = condense(layout, results, settings.arguments.warmup_step_ratio);
    scheduler->end_window(window);
  }

  Settings settings;
  TestJobShape shape;
  std::vector<RankInfo> ranks;
  Layout layout;
  std::unique_ptr<Scheduler> scheduler;
  bool with_energies = true;
  std::function<double(int)> slower = [](int) { return 1.0; };
};

std::string refusal(const Settings& settings, const TestJobShape& shape) {
  return lowgear::error_of([&] { const SimulatedJob run(settings, shape); });
}

TEST(PerseusSchedulers, AllMaxRunsAtTheTopForSomeWindows) {
  SimulatedJob run(settings_of("AllMaxFrequency", R"({"num_iters": 2})"), {2, 2, 1, nullptr});
  for (int window = 0; window < 2; ++window) {
    EXPECT_THAT(run.states(3), Each(1410));
    EXPECT_EQ(run.states(3).size(), run.ranks[3].pipe_schedule.size());
    run.run_window();
  }
  EXPECT_THAT(run.stop(), StartsWith("[profiling-done]"));
  run.run_window();
  EXPECT_THAT(run.stop(), StartsWith("[profiling-done]"));
}

TEST(PerseusSchedulers, TwoFrequenciesChangeWithTheComputationOnly) {
  using enum Instruction;
  std::vector<RankInfo> ranks = {{0, 0, 0, 0, {load, forward, p2p, backward, step, forward}, {1410, 1200, 900}}};
  const Settings settings = settings_of("TwoFrequencies", R"({"forward_freq": 1200, "backward_freq": 900})");
  const Layout layout = make_perseus_layout(settings, test_job({1, 1, 1, nullptr}), ranks);
  const auto scheduler = make_perseus_scheduler(settings, layout);
  for (int window = 0; window < 3; ++window) {
    EXPECT_THAT(std::get<Schedule>(scheduler->schedule()).power_states[0],
                ElementsAre(1200, 1200, 1200, 900, 900, 1200));
    scheduler->end_window({});
  }
  EXPECT_THAT(refusal(settings_of("TwoFrequencies", R"({"forward_freq": 1410, "backward_freq": 901})"), {}),
              HasSubstr("no clock of 901 MHz"));
}

TEST(PerseusSchedulers, APointSolutionRunsEveryPlanAfterItsWarmUp) {
  SimulatedJob run(solution("PointSolution", {plan_of(2, 900), plan_of(2, 1200)}, 1), {});
  EXPECT_THAT(run.states(0), Each(1410));
  run.run_window();
  EXPECT_THAT(run.states(0), Each(900));
  run.run_window();
  EXPECT_THAT(run.states(1), Each(1200));
  run.run_window();
  EXPECT_THAT(run.stop(), HasSubstr("[profiling-done]"));
}

TEST(PerseusSchedulers, APlansClocksAreForComputationsAndStayUntilTheNext) {
  using enum Instruction;
  const RankInfo rank = {0, 0, 0, 0, {p2p, load, forward, p2p, backward, cc}, {900}};
  EXPECT_THAT(
      expand_clocks(rank, std::vector<formats::PerseusPlan::Entry>{{std::nullopt, 1200}, {OpKind::backward, 900}}),
      ElementsAre(1200, 1200, 1200, 1200, 900, 900));
  const auto refused = [&rank](const std::vector<formats::PerseusPlan::Entry>& entries) -> std::string {
    return lowgear::error_of([&] { static_cast<void>(expand_clocks(rank, entries)); });
  };
  EXPECT_THAT(refused({{std::nullopt, 1200}}), HasSubstr("1 clocks for 2 computations"));
  EXPECT_THAT(refused({{OpKind::backward, 1200}, {OpKind::backward, 900}}),
              HasSubstr("computation 0 is a backward in the plan and a forward in the job"));
}

TEST(PerseusSchedulers, ThreeDimensionsGoByPipelineRankWhateverTheOrder) {
  const auto coordinates = [](int rank) { return std::array{2 - rank / 2, rank % 2, 0}; };
  formats::PerseusPlan plan = plan_of(3, 900);
  for (auto& entry : plan.stages[1]) entry.clock_mhz = 1200;
  for (auto& entry : plan.stages[2]) entry.clock_mhz = 1410;
  SimulatedJob run(solution("PointSolution3D", {plan}), {3, 2, 1, coordinates});
  for (int rank = 0; rank < 6; ++rank) {
    const int stage = coordinates(rank)[0];
    EXPECT_THAT(run.states(rank), Each(900 + 300 * stage - 90 * (stage == 2))) << rank;
  }
  EXPECT_THAT(refusal(solution("PointSolution", {plan}), {3, 2, 1, coordinates}), HasSubstr("use PointSolution3D"));
}

TEST(PerseusSchedulers, APlanThatDoesNotFitIsRefused) {
  EXPECT_EQ(refusal(solution("PointSolution", {plan_of(3, 900)}), {}), "a plan for 3 stages; the job has 2");
  EXPECT_THAT(refusal(solution("PointSolution", {plan_of(2, 901)}), {}), HasSubstr("power state 901"));
  formats::PerseusPlan longer = plan_of(2, 900);
  longer.stages[1].push_back({std::nullopt, 900});
  EXPECT_THAT(refusal(solution("PointSolution", {plan_of(2, 900), longer}), {}),
              HasSubstr("plan of stage 1: 13 clocks for 12 computations"));
}

TEST(PerseusSchedulers, ZeusClientsGetTheNamesOfThePlan) {
  std::vector<RankInfo> ranks = test_ranks({});
  for (RankInfo& rank : ranks) rank.pipe_schedule.clear();
  formats::PerseusPlan plan = {{{{OpKind::forward, 900}, {OpKind::backward, 1200}}, {{OpKind::forward, 1410}}}};
  const Settings settings = solution("PointSolution", {plan}, 2);
  Layout layout = make_perseus_layout(settings, test_job({}), ranks);
  const auto scheduler = make_perseus_scheduler(settings, layout);
  const Step step = scheduler->schedule();
  const auto& schedule = std::get<Schedule>(step);
  EXPECT_THAT(schedule.power_states[0], ElementsAre(900, 1200));
  EXPECT_THAT(schedule.instructions[0], ElementsAre(Instruction::forward, Instruction::backward));
  EXPECT_THROW(static_cast<void>(make_perseus_scheduler(solution("PointSolution", {plan_of(2, 900)}), layout)),
               InputError);
  EXPECT_THROW(static_cast<void>(make_perseus_scheduler(settings_of("AllMaxFrequency"), layout)), InputError);
}

TEST(PerseusSchedulers, TheProfilerMeasuresEveryStateOnceAfterTwoWindows) {
  SimulatedJob run(settings_of("InstructionProfiler", R"({"minimum_power_state": 1000})", "frequency"),
                   {2, 2, 1, nullptr});
  run.slower = [](int rank) { return rank == 3 ? 1.1 : 1.0; };
  std::vector<int> ran;
  while (run.stop().empty()) {
    ran.push_back(run.states(0).front());
    run.run_window();
  }
  std::vector<int> expected = {1410, 1410};
  for (int mhz = 1410; mhz >= 1000; mhz -= 30) expected.push_back(mhz);
  EXPECT_EQ(ran, expected);

  const std::vector<File> files = run.scheduler->files();
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].name, "merak+gpt3-xl+uniform+dp2+tp1+pp2+mbs4+nmb6.csv");
  const profile::StageProfile profile = profile::read_profile_file(files[0].content, "profile").profile;
  const profile::Measurement& forward = profile.at_clock(1, OpKind::forward, 1200);
  const double time_s = test_time_s(1, Instruction::forward, 1200);
  EXPECT_NEAR(forward.time_s, 1.1 * time_s, 1e-12);                         // its slower rank
  EXPECT_NEAR(forward.energy_j, 1.05 * time_s * test_power_w(1200), 1e-9);  // mean of both
}

TEST(PerseusSchedulers, WithoutEnergiesTheIterationsIsDividedOrTheirCellsAreEmpty) {
  const std::string args = R"({"blocking_power_w": 80})";
  SimulatedJob run(settings_of("InstructionProfiler", args, "frequency"), {});
  run.with_energies = false;
  while (run.stop().empty()) run.run_window();
  const profile::StageProfile profile =
      profile::read_profile_file(run.scheduler->files().front().content, "profile").profile;
  for (const int mhz : {1410, 1050}) {
    const profile::Measurement& backward = profile.at_clock(0, OpKind::backward, mhz);
    EXPECT_NEAR(backward.energy_j, backward.time_s * test_power_w(mhz), 1e-9);
  }

  SimulatedJob without(settings_of("InstructionProfiler", "{}", "frequency"), {});
  without.with_energies = false;
  int windows = 0;
  while (without.stop().empty()) {
    without.run_window();
    ++windows;
  }
  EXPECT_THAT(without.stop(), StartsWith("[profiling-done]"));
  EXPECT_EQ(windows, 2 + std::ranges::count_if(test_clocks(), [](int mhz) { return mhz >= 850; }));
  const CsvTable table(without.scheduler->files().front().content, "profile");
  EXPECT_EQ(table.rows(), 4U * static_cast<std::size_t>(windows - 2));
  for (std::size_t row = 0; row < table.rows(); ++row) {
    EXPECT_GT(table.number(row, table.column("time")), 0);
    EXPECT_EQ(table.text(row, table.column("energy")), "");
  }

  SimulatedJob hot(settings_of("InstructionProfiler", R"({"blocking_power_w": 5000})", "frequency"), {});
  hot.with_energies = false;
  hot.run_window();
  hot.run_window();
  EXPECT_THROW(hot.run_window(), InputError);
}

TEST(PerseusSchedulers, AProfilerWithNothingToProfileIsRefused) {
  EXPECT_THAT(refusal(settings_of("InstructionProfiler", R"({"minimum_power_state": 2000})", "power limit"), {}),
              HasSubstr("below minimum_power_state 2000"));
  EXPECT_THAT(refusal(settings_of("InstructionProfiler", R"({"blocking_power_w": [1, 2, 3]})", "frequency"), {}),
              HasSubstr("3 numbers"));
}

TEST(PerseusSchedulers, ZeusGlobalFindsTheLimitOfLeastCost) {
  for (const double eta : {0.0, 0.5, 1.0}) {
    SimulatedJob run(settings_of("ZeusGlobalPowerLimit", fmt::format(R"({{"eta_knob": {}}})", eta)),
                     {2, 2, 1, nullptr});
    std::map<int, std::pair<double, double>> measured;  // mean energy and time, by limit
    std::vector<int> ran;
    while (run.stop().empty()) {
      ran.push_back(run.states(0).front());
      run.run_window();
    }
    std::vector<int> expected = {1410};
    expected.insert(expected.end(), test_clocks().begin(), test_clocks().end() - 1);
    EXPECT_EQ(ran, expected);

    const Json file = Json::parse(run.scheduler->files().front().content);
    EXPECT_EQ(file.size(), test_clocks().size() - 1);
    int best = 0;
    double least = 1e300;
    for (const auto& [limit, values] : file.items()) {
      // Every window's iterations are alike, so power is energy over time; the largest power counts each GPU once.
      const double time_s = values["time"].get<double>();
      const double cost = (eta * values["energy"].get<double>() / time_s + (1 - eta) * 4 * 1410) * time_s;
      if (cost < least) std::tie(least, best) = std::pair(cost, std::stoi(limit));
    }
    EXPECT_THAT(run.stop(), HasSubstr(fmt::format("is {} W", best))) << eta;
  }
}

/// For each state of the heaviest stage, the state of another stage whose time is nearest: what the search has to find.
int nearest_state(int stage, int heaviest, int heaviest_state) {
  const double target_s = test_time_s(heaviest, Instruction::forward, heaviest_state);
  int best = 0;
  for (const int state : test_clocks()) {
    if (state > heaviest_state) continue;
    const auto distance = [&](int each) { return std::abs(test_time_s(stage, Instruction::forward, each) - target_s); };
    if (best == 0 || distance(state) < distance(best)) best = state;
  }
  return best;
}

class ZeusLocal : public ::testing::TestWithParam<TestJobShape> {};

TEST_P(ZeusLocal, BalancesEveryStageWithTheHeaviest) {
  const TestJobShape shape = GetParam();
  const bool is_3d = shape.dp * shape.tp > 1;
  SimulatedJob run(settings_of(is_3d ? "ZeusLocalPowerState3D" : "ZeusLocalPowerState", "", "frequency"), shape);
  int windows = 0;
  while (run.stop().empty()) {
    run.run_window();
    ASSERT_LT(++windows, 500);
  }
  const Json file = Json::parse(run.scheduler->files().front().content);
  EXPECT_EQ(file["heaviest_stage"], shape.pp - 1);
  ASSERT_GE(file["profiling_results"].size(), shape.pp < 4 ? 4U : 1U);
  for (const auto& [state, values] : file["profiling_results"].items()) {
    const auto states = values["balanced_power_states"].get<std::vector<int>>();
    for (int stage = 0; stage < shape.pp; ++stage) {
      EXPECT_EQ(states[static_cast<std::size_t>(stage)], nearest_state(stage, shape.pp - 1, std::stoi(state)))
          << "stage " << stage << " at " << state;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ZeusLocal,
                         ::testing::Values(TestJobShape{2, 1, 1, nullptr}, TestJobShape{4, 1, 1, nullptr},
                                           TestJobShape{3, 2, 2, nullptr},
                                           TestJobShape{3, 1, 2, [](int rank) {
                                                          return std::array{rank / 2, 0, rank % 2};
                                                        }}));

TEST(PerseusSchedulers, ZeusLocalNeedsItsThirdDimensionAndItsPhase) {
  EXPECT_THAT(refusal(settings_of("ZeusLocalPowerState", "", "frequency"), {2, 2, 1, nullptr}),
              HasSubstr("use ZeusLocalPowerState3D"));
  SimulatedJob run(settings_of("ZeusLocalPowerState", "", "frequency"), {});
  run.run_window();
  EXPECT_THROW(run.scheduler->end_window(std::vector<Window>(2)), InputError);
}

TEST(PerseusSchedulers, LowgearProfilesPlansAndKeepsServing) {
  const TestJobShape shape = {3, 2, 1, [](int rank) { return std::array{rank / 2, rank % 2, 0}; }};
  SimulatedJob run(settings_of("Lowgear", R"({"blocking_power_w": 80, "clocks": 5, "warmup_iters": 1,
                                     "minimum_power_state": 810})"),
                   shape);
  run.with_energies = false;
  std::vector<int> ran;
  while (run.scheduler->observes() || ran.empty()) {
    ran.push_back(run.states(0).front());
    run.run_window();
  }
  EXPECT_EQ(ran, (std::vector{1410, 1410, 1260, 1110, 960, 810}));
  EXPECT_EQ(run.states(2), run.states(3));  // of one stage
  EXPECT_EQ(run.states(4).size(), run.ranks[4].pipe_schedule.size());

  // Replayed, the plan is as fast as full clocks (what is predicted between measured clocks may err a little), and
  // takes less energy.
  const auto replay = [&](const auto& clock_of) {
    const schedule::PipelineDag dag = build_dag(schedule::one_f_one_b_schedule(3, kTestMicrobatches));
    std::vector<double> finish_s(dag.ops.size());
    double energy_j = 0;
    double busy_s = 0;
    for (const int op : dag.topological_order) {
      const schedule::ComputeOp& compute = dag.ops[static_cast<std::size_t>(op)];
      const auto kind = compute.kind == OpKind::forward ? Instruction::forward : Instruction::backward;
      const int clock = clock_of(op);
      const double time_s = test_time_s(compute.stage, kind, clock);
      double start_s = 0;
      for (const schedule::DagEdge& edge : dag.edges) {
        if (edge.to == op) start_s = std::max(start_s, finish_s[static_cast<std::size_t>(edge.from)]);
      }
      finish_s[static_cast<std::size_t>(op)] = start_s + time_s;
      energy_j += time_s * test_power_w(clock);
      busy_s += time_s;
    }
    const double whole_s = *std::ranges::max_element(finish_s);
    return std::pair(whole_s, energy_j + kTestBlockingPower_w * (3 * whole_s - busy_s));
  };
  std::vector<int> clocks;
  for (int stage = 0; stage < 3; ++stage) {
    const std::vector<int> states = run.states(2 * stage);
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (is_computation(run.ranks[static_cast<std::size_t>(2 * stage)].pipe_schedule[i])) clocks.push_back(states[i]);
    }
  }
  const auto [planned_s, planned_j] = replay([&](int op) { return clocks[static_cast<std::size_t>(op)]; });
  const auto [fastest_s, fastest_j] = replay([](int) { return 1410; });
  EXPECT_LT(planned_s, fastest_s * 1.002);
  EXPECT_LT(planned_j, fastest_j * 0.97);

  const std::vector<int> plan = run.states(0);
  for (int window = 0; window < 3; ++window) run.run_window();
  EXPECT_EQ(run.states(0), plan);
  const std::vector<File> files = run.scheduler->files();
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[1].name, "freqs_pipeline_00000.py");
  EXPECT_EQ(formats::read_perseus_plan(files[1].content, "plan").stages.size(), 3U);
}

TEST(PerseusSchedulers, LowgearSaysWhyItsProfileMayBeWrong) {
  const TestJobShape shape = {3, 1, 1, [](int rank) { return std::array{rank, 0, 0}; }};
  SimulatedJob run(settings_of("Lowgear", R"({"blocking_power_w": 80, "clocks": 5, "warmup_iters": 1})"), shape);
  run.slower = [](int rank) { return rank == 1 ? 8.0 : 1.0; };
  do run.run_window();
  while (run.scheduler->observes());
  const std::vector<File> files = run.scheduler->files();
  const auto warnings = std::ranges::find(files, "warnings.txt", &File::name);
  ASSERT_NE(warnings, files.end());
  EXPECT_THAT(warnings->content, testing::HasSubstr("stage 1: the forward takes"));
  EXPECT_THAT(run.scheduler->take_doubts(), testing::Contains(testing::HasSubstr("stage 1: the forward takes")));
  EXPECT_THAT(run.scheduler->take_doubts(), testing::IsEmpty()) << "each once";
}

TEST(PerseusSchedulers, LowgearsPlanningCanBeStopped) {
  const Settings settings = settings_of("Lowgear", R"({"blocking_power_w": 80, "warmup_iters": 0})");
  SimulatedJob run(settings, {});
  const auto stop = std::make_shared<StopSwitch>();
  run.scheduler = make_perseus_scheduler(settings, run.layout, stop);
  for (int window = 1; window < settings.arguments.clocks; ++window) run.run_window();
  stop->stop();
  EXPECT_THROW(run.run_window(), Stopped);
}

TEST(PerseusSchedulers, LowgearRefusesWhatIsNoPipelineSchedule) {
  const Settings settings = settings_of("Lowgear", R"({"blocking_power_w": 80})");
  const auto refused = [&](const std::function<void(std::vector<RankInfo>&)>& change) -> std::string {
    std::vector<RankInfo> ranks = test_ranks({});
    change(ranks);
    return lowgear::error_of([&] {
      static_cast<void>(make_perseus_scheduler(settings, make_perseus_layout(settings, test_job({}), ranks)));
    });
  };
  EXPECT_EQ(refused([](auto&) {}), "no error");
  EXPECT_THAT(refused([](auto& ranks) { ranks[1].pipe_schedule.push_back(Instruction::forward); }),
              HasSubstr("rank 1 has 7 forwards and 6 backwards for 6 microbatches"));
  EXPECT_NE(refused([](auto& ranks) { std::ranges::reverse(ranks[1].pipe_schedule); }), "no error");
  EXPECT_THAT(refused([](auto& ranks) {
                for (auto& rank : ranks) rank.power_states = {1410, 1200};
              }),
              HasSubstr("clocks"));
}

}  // namespace
}  // namespace lowgear::server::perseus
