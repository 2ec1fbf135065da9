#include "planning/api/work_replan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/core/error_of.h"
#include "planning/api/plan_replays.h"
#include "planning/planner/policies/sample_problem.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/shared_data.h"

namespace lowgear::api {

namespace {

using profile::LayerProfile;
using profile::StageProfile;
using ::testing::HasSubstr;

/// Three layers of 1 s forward and 2 s backward, 10 J a second, at two clocks, with embedding and head of 0.1 s.
LayerProfile three_layers() {
  LayerProfile layers{.layers = StageProfile(3), .ends = StageProfile(2)};
  for (const int clock : {100, 200}) {
    for (int layer = 0; layer < 3; ++layer) {
      layers.layers.add(layer, OpKind::forward, {clock, 1, 10});
      layers.layers.add(layer, OpKind::backward, {clock, 2, 20});
    }
    for (const int end : {0, 1}) {
      layers.ends.add(end, OpKind::forward, {clock, 0.1, 1});
      layers.ends.add(end, OpKind::backward, {clock, 0.1, 1});
    }
  }
  return layers;
}

TEST(WorkChange, FrozenLayersHaveForwardsOnlyAndTheEmbeddingWithThem) {
  const LayerProfile changed = changed_profile(three_layers(), {.frozen_layers = 2});
  for (const int layer : {0, 1, 2}) {
    EXPECT_TRUE(changed.layers.has(layer, OpKind::forward));
    EXPECT_EQ(changed.layers.has(layer, OpKind::backward), layer == 2);
  }
  EXPECT_FALSE(changed.ends.has(0, OpKind::backward));
  EXPECT_TRUE(changed.ends.has(0, OpKind::forward));
  EXPECT_TRUE(changed.ends.has(1, OpKind::backward));
}

TEST(WorkChange, ScalesWhatItIsToldTo) {
  const LayerProfile changed = changed_profile(
      three_layers(),
      {.scales = {{.begin = 1, .end = 3, .time_factor = 0.5, .energy_factor = 0.6},
                  {.begin = 2, .end = 3, .time_factor = 3, .energy_factor = 1, .kind = OpKind::forward}}});
  EXPECT_DOUBLE_EQ(changed.layers.at_clock(0, OpKind::forward, 100).time_s, 1);
  EXPECT_DOUBLE_EQ(changed.layers.at_clock(1, OpKind::backward, 200).time_s, 1);
  EXPECT_DOUBLE_EQ(changed.layers.at_clock(1, OpKind::backward, 200).energy_j, 12);
  EXPECT_DOUBLE_EQ(changed.layers.at_clock(2, OpKind::forward, 100).time_s, 1.5);
  EXPECT_DOUBLE_EQ(changed.layers.at_clock(2, OpKind::backward, 100).time_s, 1);
}

TEST(WorkChange, DroppedWeightGradientsShortenBackwardsAlone) {
  LayerProfile split = three_layers();
  split.layers = StageProfile(3);
  for (int layer = 0; layer < 3; ++layer) {
    split.layers.add(layer, OpKind::forward, {100, 1, 10});
    split.layers.add(layer, OpKind::input_gradient, {100, 1.2, 12});
    split.layers.add(layer, OpKind::weight_gradient, {100, 0.8, 8});
  }
  const WorkChange change{.scales = dropped_weight_gradients(3, 0.25)};
  for (const int layer : {0, 1, 2}) {
    const StageProfile whole = changed_profile(three_layers(), change).layers;
    EXPECT_DOUBLE_EQ(whole.at_clock(layer, OpKind::forward, 100).time_s, 1);
    EXPECT_DOUBLE_EQ(whole.at_clock(layer, OpKind::backward, 200).time_s, 1.75);
    EXPECT_DOUBLE_EQ(whole.at_clock(layer, OpKind::backward, 200).energy_j, 17.5);
    const StageProfile parts = changed_profile(split, change).layers;
    EXPECT_DOUBLE_EQ(parts.at_clock(layer, OpKind::input_gradient, 100).time_s, 1.2);
    EXPECT_DOUBLE_EQ(parts.at_clock(layer, OpKind::weight_gradient, 100).time_s, 0.6);
    EXPECT_DOUBLE_EQ(parts.at_clock(layer, OpKind::weight_gradient, 100).energy_j, 6);
  }
  for (const double share : {-0.1, 1.0}) EXPECT_NE(error_of([share] { (void)dropped_weight_gradients(3, share); }), "");
}

TEST(WorkChange, AddedRecomputationRepeatsTheForwardAndRemovingItUndoesThat) {
  const LayerProfile added = changed_profile(three_layers(), {.recomputation = Recomputation::added});
  EXPECT_DOUBLE_EQ(added.layers.at_clock(1, OpKind::backward, 100).time_s, 3);
  EXPECT_DOUBLE_EQ(added.layers.at_clock(1, OpKind::backward, 100).energy_j, 30);
  EXPECT_DOUBLE_EQ(added.layers.at_clock(1, OpKind::forward, 100).time_s, 1);
  EXPECT_DOUBLE_EQ(added.ends.at_clock(1, OpKind::backward, 100).time_s, 0.1);
  const LayerProfile removed = changed_profile(added, {.recomputation = Recomputation::removed});
  EXPECT_DOUBLE_EQ(removed.layers.at_clock(1, OpKind::backward, 100).time_s, 2);
}

TEST(WorkChange, RecomputationRepeatsTheScaledForwardOfActiveLayersOnly) {
  const LayerProfile changed =
      changed_profile(three_layers(), {.frozen_layers = 1,
                                       .scales = {{.begin = 0, .end = 3, .time_factor = 0.5, .energy_factor = 0.5}},
                                       .recomputation = Recomputation::added});
  EXPECT_FALSE(changed.layers.has(0, OpKind::backward));
  EXPECT_DOUBLE_EQ(changed.layers.at_clock(1, OpKind::backward, 100).time_s, 1.5);
}

TEST(WorkChange, RefusesWhatCannotBe) {
  const auto refusal = [](const WorkChange& change) {
    return error_of([&] { (void)changed_profile(three_layers(), change); });
  };
  EXPECT_THAT(refusal({.frozen_layers = 3}), HasSubstr("at least the last layer has to train"));
  EXPECT_THAT(refusal({.frozen_layers = -1}), HasSubstr("freeze 0 to 2"));
  EXPECT_THAT(refusal({.scales = {{.begin = 1, .end = 4}}}), HasSubstr("the model has layers 0 to 2"));
  EXPECT_THAT(refusal({.scales = {{.begin = 1, .end = 1}}}), HasSubstr("the model has layers 0 to 2"));
  EXPECT_THAT(refusal({.scales = {{.begin = 0, .end = 2}, {.begin = 1, .end = 3}}}),
              HasSubstr("layer 1 is scaled twice; give one factor for it"));
  EXPECT_THAT(refusal({.scales = {{.begin = 0, .end = 1, .time_factor = 0}}}), HasSubstr("give a factor from"));
  EXPECT_THAT(refusal({.scales = {{.begin = 0, .end = 1, .energy_factor = 1e6}}}), HasSubstr("give a factor from"));
  EXPECT_THAT(refusal({.scales = {{.begin = 0, .end = 3, .time_factor = 4, .kind = OpKind::forward}},
                       .recomputation = Recomputation::removed}),
              HasSubstr("was measured without recomputation"));
}

using ::testing::HasSubstr;

/// Three stages of four layers, the last one with a head, under 1F1B.
WorkReplanRequest sample_request(int microbatches = 6) {
  WorkReplanRequest request;
  request.partition = {4, 4, 4};
  request.profile =
      profile::layer_profile_of(planner::modelled_profile({0.050, 0.050, 0.056}, 1110), request.partition);
  request.blocking_power_w = {80, 80, 80};
  request.before.schedule = schedule::one_f_one_b_schedule(3, microbatches);
  request.after = request.before;
  return request;
}

void expect_certified(const PlannedWork& work, double deadline_s) {
  const simulator::Timeline replayed =
      replay_under(work.pipeline.problem(), clocks_for(work.plan, work.pipeline.dag), {});
  EXPECT_NEAR(replayed.time_s, work.plan.time_s, 1e-9);
  EXPECT_NEAR(replayed.energy_j_total, work.plan.energy_j, 1e-6);
  EXPECT_LE(work.plan.time_s, deadline_s + 1e-9);
  ASSERT_TRUE(work.plan.lower_bound_j);
  EXPECT_GE(work.plan.energy_j, *work.plan.lower_bound_j * (1 - 1e-9));
  EXPECT_LT(*work.plan.gap_pct(), 3);
  EXPECT_THAT(work.frontier.certificate, HasSubstr("lowgear.certificate/1"));
}

TEST(WorkReplan, WithoutAChangeOnTheSamePartitionIsThePlanAsItWas) {
  WorkReplanRequest request = sample_request();
  request.keep_partition = true;
  const WorkReplan replan = replan_work(request);
  EXPECT_EQ(replan.after.partition, request.partition);
  EXPECT_EQ(replan.after.plan.energy_j, replan.before.plan.energy_j);
  EXPECT_EQ(replan.after.frontier.certificate, replan.before.frontier.certificate);
  EXPECT_EQ(replan.same_partition->plan.energy_j, replan.before.plan.energy_j);
}

TEST(WorkReplan, FreezingSavesMoreWithLayersMovedAndMostAtTheOldTime) {
  WorkReplanRequest request = sample_request();
  request.after.change.frozen_layers = 4;
  const WorkReplan old_time = replan_work(request);
  request.step_time = StepTime::own_fastest;
  const WorkReplan own_time = replan_work(request);

  EXPECT_GT(old_time.after.partition.front(), 4);
  expect_certified(old_time.before, old_time.before.fastest_s);
  expect_certified(old_time.after, old_time.before.fastest_s);
  expect_certified(own_time.after, own_time.after.fastest_s);
  EXPECT_LT(own_time.after.fastest_s, own_time.same_partition->fastest_s);
  EXPECT_LT(own_time.after.plan.energy_j, own_time.before.plan.energy_j);
  EXPECT_LT(old_time.after.plan.energy_j, own_time.after.plan.energy_j);
  EXPECT_LT(old_time.after.plan.energy_j, old_time.same_partition->plan.energy_j);
}

TEST(WorkReplan, StagesOfFrozenLayersRunForwardsOnly) {
  WorkReplanRequest request = sample_request();
  request.after.change.frozen_layers = 4;
  request.keep_partition = true;
  const WorkReplan replan = replan_work(request);
  EXPECT_EQ(replan.after.pipeline.schedule.frozen_stages, 1);
  EXPECT_FALSE(replan.after.pipeline.profile.has(0, OpKind::backward));
  EXPECT_EQ(replan.after.plan.ranks.front().size(), 6U);
  request.after.change.frozen_layers = 5;
  EXPECT_EQ(replan_work(request).after.pipeline.schedule.frozen_stages, 1);
  request.after.change.frozen_layers = 11;
  EXPECT_EQ(replan_work(request).after.pipeline.schedule.frozen_stages, 2);
}

TEST(WorkReplan, KeepsTheTimePerMicrobatchWhenTheirNumberChanges) {
  WorkReplanRequest request = sample_request(6);
  request.after.schedule = schedule::one_f_one_b_schedule(3, 12);
  request.keep_partition = true;
  const WorkReplan replan = replan_work(request);
  expect_certified(replan.after, 2 * replan.before.fastest_s);
  EXPECT_GT(replan.after.plan.time_s, replan.after.fastest_s) << "the bubble is smaller, so there is time to use";
  EXPECT_LT(replan.after.plan.energy_j, 2 * replan.before.plan.energy_j);
}

TEST(WorkReplan, RandomChangesGiveCertifiedPlans) {
  std::mt19937 random(3);
  for (int round = 0; round < 12; ++round) {
    WorkReplanRequest request = sample_request(2 + static_cast<int>(random() % 5));
    WorkChange& change = request.after.change;
    change.frozen_layers = static_cast<int>(random() % 12);
    if (random() % 2 == 0) change.scales = {{.begin = 0, .end = 12, .time_factor = 0.7, .energy_factor = 0.8}};
    if (random() % 3 == 0) change.recomputation = Recomputation::added;
    request.step_time = StepTime::own_fastest;
    request.keep_partition = random() % 2 == 0;
    const WorkReplan replan = replan_work(request);
    expect_certified(replan.after, replan.after.fastest_s);
    EXPECT_EQ(profile::layer_count(replan.after.partition), 12);
    ASSERT_TRUE(replan.same_partition);
    EXPECT_LE(replan.after.plan.time_s, replan.after.full_clocks.time_s + 1e-9);
  }
}

/// Energy on the frontier at a time from T_min on; that of T* after it.
double frontier_energy_j(const std::vector<simulator::PipelineFigures>& vertices, double time_s) {
  for (std::size_t i = 1; i < vertices.size(); ++i) {
    if (vertices[i].time_s < time_s) continue;
    const double share = (time_s - vertices[i - 1].time_s) / (vertices[i].time_s - vertices[i - 1].time_s);
    return std::lerp(vertices[i - 1].energy_j, vertices[i].energy_j, share);
  }
  return vertices.back().energy_j;
}

/// The least energy at `deadline_s` over all partitions of the layers into three stages, one by one.
double least_energy_j(WorkReplanRequest request, double deadline_s) {
  double least_j = std::numeric_limits<double>::infinity();
  const int layers = request.profile.layers.stages();
  request.keep_partition = true;
  request.after_deadline_s = 1e6;
  for (int first = 1; first + 2 <= layers; ++first) {
    for (int second = 1; first + second + 1 <= layers; ++second) {
      request.partition = {first, second, layers - first - second};
      const CertifiedFrontier frontier = replan_work(request).after.frontier;
      if (frontier.vertices.front().time_s > deadline_s) continue;
      least_j = std::min(least_j, frontier_energy_j(frontier.vertices, deadline_s));
    }
  }
  return least_j;
}

TEST(WorkReplan, NoOtherPartitionSavesMuchMoreAtTheOldTime) {
  for (const int frozen : {2, 4}) {
    WorkReplanRequest request = sample_request(4);
    request.partition = {3, 3, 3};
    request.profile =
        profile::layer_profile_of(planner::modelled_profile({0.050, 0.050, 0.056}, 1335), request.partition);
    request.after.change.frozen_layers = frozen;
    const WorkReplan replan = replan_work(request);
    const double least_j = least_energy_j(request, replan.before.fastest_s);
    EXPECT_LE(*replan.after.plan.lower_bound_j, 1.01 * least_j) << frozen << " of 9 layers frozen";
  }
}

TEST(WorkReplan, RefusesWhatCannotBe) {
  WorkReplanRequest slower = sample_request();
  slower.after.change.recomputation = Recomputation::added;
  EXPECT_THAT(error_of([&] { (void)replan_work(slower); }), HasSubstr("cannot be kept"));

  WorkReplanRequest ranks = sample_request();
  ranks.after.schedule = schedule::one_f_one_b_schedule(4, 6);
  EXPECT_THAT(error_of([&] { (void)replan_work(ranks); }), HasSubstr("only its order and its microbatches may change"));

  WorkReplanRequest partition = sample_request();
  partition.partition = {6, 6};
  EXPECT_THAT(error_of([&] { (void)replan_work(partition); }), HasSubstr("the layers of every stage"));

  WorkReplanRequest interleaved = sample_request();
  interleaved.partition = {2, 2, 2, 2, 2, 2};
  interleaved.profile = profile::layer_profile_of(
      with_stages_on_ranks(planner::modelled_profile({0.05, 0.05, 0.05}, 1305), std::vector{0, 1, 2, 0, 1, 2}),
      interleaved.partition);
  interleaved.before.schedule = interleaved.after.schedule = schedule::interleaved_schedule(3, 6, 2);
  EXPECT_THAT(error_of([&] { (void)replan_work(interleaved); }), HasSubstr("keep the partition"));
  interleaved.keep_partition = true;
  interleaved.after.change.frozen_layers = 3;
  expect_certified(replan_work(interleaved).after, 1e6);
}

TEST(WorkReplan, GivesNoPlanForTheOldPartitionWhereItCannotKeepTheTime) {
  WorkReplanRequest request = sample_request();
  request.after.change.frozen_layers = 4;
  request.step_time = StepTime::own_fastest;
  request.after_deadline_s = replan_work(request).after.fastest_s;
  const WorkReplan replan = replan_work(request);
  EXPECT_FALSE(replan.same_partition);
  expect_certified(replan.after, *request.after_deadline_s);
}

/// GPT-3 175B on A100, 8 stages, 48 microbatches, 1F1B, waiting at 83.64 W: energy against full clocks.
class PublishedProfile : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto text = simulator::read_shared("perseus/stage_profile/gpt3-175b+a100_sxm_bf16.csv");
    if (!text) GTEST_SKIP() << simulator::kNoSharedData;
    measured_ = profile::read_profile_file(*text, "gpt3-175b+a100_sxm_bf16.csv").profile;
  }

  static WorkReplanRequest request() {
    WorkReplanRequest request;
    request.blocking_power_w.assign(8, 83.64);
    request.before.schedule = schedule::one_f_one_b_schedule(8, 48);
    request.after = request.before;
    return request;
  }

  /// The time of forward and backward together, of the first stage at its fastest clocks.
  [[nodiscard]] double time_s(OpKind kind) const { return measured_.at_max_clock(0, kind).time_s; }

  /// The model as 8 stages like the first one, cut where stages end now, and where they would if layers could be cut
  /// anywhere: at equal shares of the time.
  [[nodiscard]] WorkReplanRequest with_pieces(int frozen_stages) const {
    const double forward_s = time_s(OpKind::forward);
    const double backward_s = time_s(OpKind::backward);
    const double share_s = (8 * forward_s + (8 - frozen_stages) * backward_s) / 8;
    std::vector<double> cuts;
    for (int stage = 0; stage <= 8; ++stage) {
      const double before_s = share_s * stage;
      const double frozen_s = forward_s * frozen_stages;
      cuts.push_back(stage);
      cuts.push_back(before_s <= frozen_s ? before_s / forward_s
                                          : frozen_stages + (before_s - frozen_s) / (forward_s + backward_s));
    }
    std::ranges::sort(cuts);
    const auto [first, last] = std::ranges::unique(cuts, [](double a, double b) { return std::abs(a - b) < 1e-9; });
    cuts.erase(first, last);
    WorkReplanRequest result = request();
    result.partition.assign(8, 0);
    result.profile.layers = profile::StageProfile(static_cast<int>(cuts.size()) - 1);
    for (std::size_t piece = 0; piece + 1 < cuts.size(); ++piece) {
      const double size = cuts[piece + 1] - cuts[piece];
      for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
        for (const profile::Measurement& row : measured_.measurements(0, kind)) {
          result.profile.layers.add(static_cast<int>(piece), kind,
                                    {row.clock_mhz, size * row.time_s, size * row.energy_j});
        }
      }
      const double middle = (cuts[piece] + cuts[piece + 1]) / 2;
      ++result.partition[static_cast<std::size_t>(middle)];
      result.after.change.frozen_layers += middle < frozen_stages ? 1 : 0;
    }
    return result;
  }

  profile::StageProfile measured_;
};

double pct(double value, double of) { return 100 * (value / of - 1); }

/// A row of the table: time and energy in per cent against no freezing at full clocks.
struct FrozenRow {
  int eighths;
  double freeze_time, freeze_energy, freeze_own_energy;
  double moved_time, moved_energy, moved_own_energy, moved_old_energy;
};

/// Published for a linear program over the first stage's convex hull, solved by another program (Clp), with stages of
/// the same layers that can be cut anywhere.
TEST_F(PublishedProfile, FreezingSavesWhatALinearProgramSays) {
  const std::vector<FrozenRow> rows = {{1, -1.2, -6.8, -9.8, -8.1, -8.2, -10.1, -26.0},
                                       {2, -2.4, -13.6, -17.5, -16.3, -16.3, -17.8, -37.9},
                                       {4, -4.7, -27.2, -33.2, -32.5, -32.6, -33.1, -48.4}};
  for (const FrozenRow& row : rows) {
    SCOPED_TRACE(row.eighths);
    WorkReplanRequest ask = with_pieces(row.eighths);
    const WorkReplan old_time = replan_work(ask);
    ask.step_time = StepTime::own_fastest;
    const WorkReplan own_time = replan_work(ask);
    const simulator::PipelineFigures& base = own_time.before.full_clocks;
    constexpr double kOfTheTable = 0.1;  // per cent: it has one digit
    const PlannedWork& same = *own_time.same_partition;
    const PlannedWork& moved = own_time.after;
    EXPECT_NEAR(pct(*own_time.before.plan.lower_bound_j, base.energy_j), -2.1, kOfTheTable);
    EXPECT_NEAR(pct(same.full_clocks.time_s, base.time_s), row.freeze_time, kOfTheTable);
    EXPECT_NEAR(pct(same.full_clocks.energy_j, base.energy_j), row.freeze_energy, kOfTheTable);
    EXPECT_NEAR(pct(*same.plan.lower_bound_j, base.energy_j), row.freeze_own_energy, kOfTheTable);
    EXPECT_NEAR(pct(moved.full_clocks.time_s, base.time_s), row.moved_time, kOfTheTable);
    EXPECT_NEAR(pct(moved.full_clocks.energy_j, base.energy_j), row.moved_energy, kOfTheTable);
    EXPECT_NEAR(pct(*moved.plan.lower_bound_j, base.energy_j), row.moved_own_energy, kOfTheTable);
    const plan::Plan& plan = old_time.after.plan;
    const double waiting_j = 8 * 83.64 * (base.time_s - plan.time_s);
    if (row.eighths < 4) {
      EXPECT_NEAR(pct(*plan.lower_bound_j, base.energy_j), row.moved_old_energy, kOfTheTable);
      continue;
    }
    // With half of the layers frozen T* is earlier than the old time. The program is between a plan that ends at T* and
    // one that then waits until the old time.
    EXPECT_LT(plan.time_s, 0.98 * base.time_s);
    EXPECT_LT(pct(*plan.lower_bound_j, base.energy_j), row.moved_old_energy);
    EXPECT_GT(pct(*plan.lower_bound_j + waiting_j, base.energy_j), row.moved_old_energy);
  }
}

/// The real model: 96 whole layers, a last stage with the head, and clocks that exist.
TEST_F(PublishedProfile, FreezingWholeLayersSavesNearlyAsMuch) {
  for (const auto& [layers, least_pct] : {std::pair{12, 30.0}, std::pair{24, 38.0}, std::pair{48, 49.5}}) {
    SCOPED_TRACE(layers);
    WorkReplanRequest ask = request();
    ask.partition = profile::uniform_partition(96, 8);
    ask.profile = profile::layer_profile_of(measured_, ask.partition);
    ask.after.change.frozen_layers = layers;
    const WorkReplan replan = replan_work(ask);
    const simulator::PipelineFigures& base = replan.before.full_clocks;
    EXPECT_LE(pct(replan.after.plan.energy_j, base.energy_j), -least_pct);
    EXPECT_LE(replan.after.plan.time_s, base.time_s);
    expect_certified(replan.after, base.time_s);
  }
}

}  // namespace

}  // namespace lowgear::api
