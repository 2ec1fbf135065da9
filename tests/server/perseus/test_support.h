#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/core/formats/json.h"
#include "base/http/server/reply.h"
#include "server/perseus/protocol.h"
#include "server/perseus/window.h"
#include "server/store/store.h"

namespace lowgear::server::perseus {

/// An answer that stays here.
class FakeReply final : public http::Reply {
 public:
  void send(http::Response response) override {
    if (!answer) answer = std::move(response);
  }
  std::shared_ptr<http::EventStream> stream(http::Response /*head*/) override { return nullptr; }
  [[nodiscard]] bool closed() const override { return answer.has_value() || gone; }
  void on_close(std::function<void()> callback) override { callback_ = std::move(callback); }

  /// The client goes.
  void leave() {
    gone = true;
    if (!answer && callback_) std::exchange(callback_, nullptr)();
  }
  [[nodiscard]] int status() const { return answer ? answer->status : 0; }
  [[nodiscard]] Json json() const { return Json::parse(answer->text()); }

  std::optional<http::Response> answer;
  bool gone = false;

 private:
  std::function<void()> callback_;
};

/// Keeps documents in memory and answers when told to.
class FakeStore final : public Store {
 public:
  StoreContents load() override {
    StoreContents contents;
    for (const auto& [key, document] : documents) contents.documents.push_back({key, document});
    return contents;
  }
  void write(StoreChange change, std::function<void(StoreOutcome)> done) override {
    waiting.emplace_back(std::move(change), std::move(done));
  }
  void read_decisions(std::string /*job*/, std::int64_t /*after*/, int /*limit*/,
                      std::function<void(std::vector<StoredDecision>)> /*done*/) override {}
  void read_page(ExportQuery /*query*/, std::function<void(std::optional<ExportPage>)> done) override {
    done(ExportPage{});
  }
  void read_archive(std::string /*job*/, std::function<void(std::optional<StoredArchive>)> /*done*/) override {}

  /// Commits all that waits, and what that leads to.
  void settle() {
    while (!waiting.empty()) {
      auto [change, done] = std::move(waiting.front());
      waiting.pop_front();
      if (outcome == StoreOutcome::committed) {
        for (const StoredDocument& document : change.documents) documents[document.key] = document.document;
      }
      if (done) done(outcome);
    }
  }

  std::map<std::string, std::string> documents;
  std::deque<std::pair<StoreChange, std::function<void(StoreOutcome)>>> waiting;
  StoreOutcome outcome = StoreOutcome::committed;
};

inline constexpr int kTestMicrobatches = 6;

/// What Merak's rank runs: 1F1B with everything around it.
inline std::vector<Instruction> test_pipe_schedule(int stages, int stage, int microbatches = kTestMicrobatches) {
  using enum Instruction;
  std::vector<Instruction> schedule;
  const int warm_up = std::min(stages - stage, microbatches);
  int backwards = 0;
  for (int forward_index = 0; forward_index < microbatches; ++forward_index) {
    schedule.insert(schedule.end(), {stage == 0 ? load : p2p, forward, p2p});
    if (forward_index + 1 >= warm_up) {
      schedule.insert(schedule.end(), {p2p, backward});
      ++backwards;
    }
  }
  while (backwards++ < microbatches) schedule.insert(schedule.end(), {p2p, backward});
  schedule.insert(schedule.end(), {cc, step});
  return schedule;
}

inline const std::vector<int>& test_clocks() {
  static const std::vector<int> clocks = [] {
    std::vector<int> all;
    for (int mhz = 1410; mhz >= 810; mhz -= 30) all.push_back(mhz);
    return all;
  }();
  return clocks;
}

/// How a simulated GPU of a stage behaves.
inline double test_time_s(int stage, Instruction kind, int clock_mhz) {
  const double work = (1 + 0.2 * stage) * (kind == Instruction::forward ? 1 : 2);
  return work * (0.004 + 22.0 / clock_mhz);
}
inline double test_power_w(int clock_mhz) {
  const double relative = clock_mhz / 1410.0;
  return 120 + 280 * relative * relative * relative;
}
inline constexpr double kTestBlockingPower_w = 80;

struct TestJobShape {
  int pp = 2;
  int dp = 1;
  int tp = 1;
  /// (pp, dp, tp) of each rank.
  std::function<std::array<int, 3>(int rank)> coordinates = nullptr;

  [[nodiscard]] int world() const { return pp * dp * tp; }
  [[nodiscard]] std::array<int, 3> of(int rank) const {
    if (coordinates) return coordinates(rank);
    return {rank % pp, rank / pp % dp, rank / pp / dp};  // as Merak numbers them: stages next to each other
  }
};

inline JobInfo test_job(const TestJobShape& shape) {
  return {shape.pp, shape.dp, shape.tp, shape.world(), "merak", "gpt3-xl", "uniform", 4, kTestMicrobatches, ""};
}

inline RankInfo test_rank(const TestJobShape& shape, int rank) {
  const auto [pp, dp, tp] = shape.of(rank);
  return {rank, dp, pp, tp, test_pipe_schedule(shape.pp, pp), test_clocks()};
}

inline std::vector<RankInfo> test_ranks(const TestJobShape& shape) {
  std::vector<RankInfo> ranks;
  for (int rank = 0; rank < shape.world(); ++rank) ranks.push_back(test_rank(shape, rank));
  return ranks;
}

/// What a rank of a stage measures when it runs these power states, in an iteration as long as `iteration_s` (0: no
/// waiting), `slower` times as slow as others. Energies by instruction are left out as Merak does unless asked for.
inline Result test_result(const RankInfo& rank, const std::vector<int>& states, double iteration_s = 0,
                          bool with_energies = true, double slower = 1, int iterations = 3) {
  Result result;
  result.rank = rank.rank;
  for (int i = 0; i < iterations; ++i) {
    std::map<Instruction, std::vector<double>> times;
    std::map<Instruction, std::vector<double>> energies;
    double busy_s = 0;
    double busy_j = 0;
    for (std::size_t k = 0; k < states.size(); ++k) {
      const Instruction kind = rank.pipe_schedule[k];
      if (!is_computation(kind)) continue;
      const double warming = i == 0 ? 1.5 : 1;  // which must not count
      const double time_s = test_time_s(rank.pp_rank, kind, states[k]) * slower * warming;
      times[kind].push_back(time_s);
      energies[kind].push_back(time_s * test_power_w(states[k]));
      busy_s += time_s;
      busy_j += energies[kind].back();
    }
    const double whole_s = std::max(iteration_s, busy_s);
    result.iteration_time_s.push_back(whole_s);
    result.iteration_energy_j.push_back(busy_j + (whole_s - busy_s) * kTestBlockingPower_w);
    for (auto& [kind, list] : times) result.time_s[kind].push_back(list);
    for (auto& [kind, list] : energies) {
      result.energy_j[kind].push_back(with_energies ? list : std::vector<double>());
    }
  }
  return result;
}

}  // namespace lowgear::server::perseus
