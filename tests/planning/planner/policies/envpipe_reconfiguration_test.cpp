#include "planning/planner/policies/envpipe_reconfiguration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planning/planner/policies/sample_problem.h"
#include "planning/schedule/generators.h"

namespace lowgear::planner {
namespace {

using Reconfiguration = EnvPipeOptions::Reconfiguration;

constexpr int kTopMhz = 1350;

/// EnvPipe's rules as they are published, on a table of units by stage: independent of graphs, profiles and clocks.
class PublishedLoop {
 public:
  struct Unit {
    char kind;
    int microbatch;
    int clock_mhz;
    double receive_ms = 0;
  };
  using Place = std::pair<std::size_t, std::size_t>;  ///< stage, place in it

  PublishedLoop(std::vector<std::vector<Unit>> stages, double scale, bool greedy)
      : stages_(std::move(stages)), scale_(scale), greedy_(greedy) {}

  void receive(std::size_t stage, std::size_t place, double time_ms) { stages_[stage][place].receive_ms = time_ms; }
  [[nodiscard]] const std::vector<std::vector<Unit>>& stages() const { return stages_; }
  [[nodiscard]] bool finished() const { return fin_ > 10; }

  /// Returns the path, last unit first.
  std::vector<Place> step() {
    if (threshold_ms_ < 0) {
      double least = 0;
      for (const Unit& unit : stages_.back()) {
        if (unit.receive_ms != 0 && (least == 0 || unit.receive_ms < least)) least = unit.receive_ms;
      }
      threshold_ms_ = least * scale_;
    }
    const std::vector<Place> path = critical_path();
    const bool all_in_envelope = std::all_of(path.begin(), path.end(), [this](const Place& p) { return in_envelope(p); });
    const bool raised = !all_in_envelope && (greedy_ ? raise_greedy(path) : raise_balanced(path));
    fin_ = raised ? 0 : fin_ + 1;
    return path;
  }

 private:
  Unit& unit(const Place& p) { return stages_[p.first][p.second]; }

  bool in_envelope(const Place& p) {
    const int last = static_cast<int>(stages_[0].size()) / 2 - 1;
    const Unit& u = unit(p);
    return p.first + 1 == stages_.size() || (u.kind == 'F' ? u.microbatch == 0 : u.microbatch == last);
  }

  std::vector<Place> critical_path() {
    Place place{0, stages_[0].size() - 1};
    std::vector<Place> path{place};
    while (place != Place{0, 0}) {
      const Unit& u = unit(place);
      if (u.receive_ms < threshold_ms_) {
        place = {place.first, place.second - 1};
      } else {
        const std::size_t sender = u.kind == 'F' ? place.first - 1 : place.first + 1;
        std::size_t i = 0;
        while (stages_[sender][i].kind != u.kind || stages_[sender][i].microbatch != u.microbatch) ++i;
        place = {sender, i};
      }
      path.push_back(place);
    }
    return path;
  }

  bool raise_greedy(const std::vector<Place>& path) {
    for (const Place& p : path) {
      if (unit(p).clock_mhz >= kTopMhz) continue;
      unit(p).clock_mhz += 3 * 30;
      return true;
    }
    return false;
  }

  bool raise_balanced(const std::vector<Place>& path) {
    int least = kTopMhz;
    for (const Place& p : path) least = std::min(least, unit(p).clock_mhz);
    if (least >= kTopMhz) return false;
    for (const Place& p : path) {
      if (unit(p).clock_mhz == least) unit(p).clock_mhz += 30;
    }
    return true;
  }

  std::vector<std::vector<Unit>> stages_;
  double scale_;
  bool greedy_;
  double threshold_ms_ = -1;
  int fin_ = 0;
};

/// Clocks as EnvPipe's lists have them on an A100.
profile::StageProfile a100_profile(int stages) {
  profile::StageProfile profile(stages);
  for (int stage = 0; stage < stages; ++stage) {
    for (int clock = kTopMhz; clock >= 810; clock -= 30) {
      const double time_s = 0.01 * kTopMhz / clock;
      profile.add(stage, OpKind::forward, {clock, time_s, 100 * time_s});
      profile.add(stage, OpKind::backward, {clock, 2 * time_s, 200 * time_s});
    }
  }
  return profile;
}

struct Case {
  int stages;
  int microbatches;
  std::vector<int> early;  ///< EnvPipe's cnt
  double scale;
  Reconfiguration method;
  bool uniform;
};

/// Waits of a training in which ranks fall behind at random: transfers of about 1 ms, half of the receives wait.
double receive_ms(std::mt19937& random) {
  const double transfer_ms = 0.8 + 0.4 * static_cast<double>(random() % 1000) / 1000;
  return random() % 2 == 0 ? transfer_ms : transfer_ms + static_cast<double>(random() % 30);
}

void expect_same_decisions(const Case& c, unsigned seed) {
  const schedule::PipelineDag dag = build_dag(schedule::envpipe_schedule(c.microbatches, c.early));
  const profile::StageProfile profile = a100_profile(c.stages);
  constexpr int kStartMhz[] = {1080, 990, 1170, 810};
  std::vector<int> clocks;
  std::vector<std::vector<PublishedLoop::Unit>> units(static_cast<std::size_t>(c.stages));
  std::vector<PublishedLoop::Place> places;
  for (const schedule::ComputeOp& op : dag.ops) {
    const bool forward = op.kind == OpKind::forward;
    const bool envelope = op.rank == c.stages - 1 || op.microbatch == (forward ? 0 : c.microbatches - 1);
    clocks.push_back(envelope && !c.uniform ? kTopMhz : kStartMhz[op.rank % 4]);
    auto& stage = units[static_cast<std::size_t>(op.rank)];
    places.emplace_back(op.rank, stage.size());
    stage.push_back({forward ? 'F' : 'B', op.microbatch, clocks.back()});
  }
  PublishedLoop theirs(units, c.scale, c.method == Reconfiguration::greedy);
  EnvPipeReconfiguration ours(dag, profile, {.reconfiguration = c.method, .threshold_scale = c.scale}, clocks);
  std::mt19937 random(seed);
  int steps = 0;
  for (; !theirs.finished(); ++steps) {
    ASSERT_FALSE(ours.is_finished()) << "step " << steps;
    std::vector<double> receive_s(dag.ops.size(), 0);
    for (std::size_t op = 0; op < dag.ops.size(); ++op) {
      if (ours.senders()[op] < 0) continue;
      // The first unit of a rank always waits: EnvPipe's walk must not leave the start of a stage.
      const double time_ms = places[op].second == 0 ? 1e4 : receive_ms(random);
      receive_s[op] = time_ms * 1e-3;
      theirs.receive(places[op].first, places[op].second, receive_s[op] * 1e3);
    }
    const std::vector<PublishedLoop::Place> their_path = theirs.step();
    const EnvPipeReconfiguration::Step decided = ours.step(receive_s);
    std::vector<PublishedLoop::Place> our_path;
    for (const int op : decided.path) our_path.push_back(places[static_cast<std::size_t>(op)]);
    ASSERT_EQ(our_path, their_path) << "step " << steps;
    for (std::size_t op = 0; op < dag.ops.size(); ++op) {
      // Theirs has no upper end for greedy rises; clocks above the highest one do not exist.
      const int their_mhz = theirs.stages()[places[op].first][places[op].second].clock_mhz;
      ASSERT_EQ(ours.clocks_mhz()[op], std::min(their_mhz, kTopMhz)) << "step " << steps << ", op " << op;
    }
  }
  EXPECT_TRUE(ours.is_finished());
  EXPECT_GT(steps, 11);
}

TEST(EnvPipeReconfiguration, DecidesAsThePublishedLoopStepByStep) {
  for (const Reconfiguration method : {Reconfiguration::balanced, Reconfiguration::greedy}) {
    for (const bool uniform : {false, true}) {
      for (const double scale : {4.0, 8.0, 10.0}) {
        expect_same_decisions({4, 16, {0, 0, 0, 0}, scale, method, uniform}, 1);
        expect_same_decisions({4, 8, {4, 3, 1, 0}, scale, method, uniform}, 2);
        expect_same_decisions({2, 4, {1, 0}, scale, method, uniform}, 3);
        expect_same_decisions({8, 32, {7, 6, 5, 4, 3, 2, 1, 0}, scale, method, uniform}, 4);
      }
    }
  }
}

TEST(EnvPipeReconfiguration, PrintsTheGridWithItsPathInBrackets) {
  const schedule::PipelineDag dag = build_dag(schedule::one_f_one_b_schedule(2, 2));
  const std::vector<int> clocks(8, 1350);
  const std::vector<double> receive_s{0, 0, 0.0125, 0.001, 0.003, 0, 0.001, 0};
  const std::vector<int> path{3, 2, 1, 0};
  EXPECT_EQ(envpipe_step_text(dag, clocks, receive_s, path),
            "Stage 0 | [F0 1350 0.0] [F1 1350 0.0] [B0 1350 12.5] [B1 1350 1.0]\n"
            "Stage 1 |  F0 1350 3.0   B0 1350 0.0   F1 1350 1.0   B1 1350 0.0 \n");
}

}  // namespace
}  // namespace lowgear::planner
