#include "planning/schedule/list_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <span>
#include <utility>

#include "base/core/error.h"

namespace lowgear::schedule {
namespace {

constexpr TimePs kNever = std::numeric_limits<TimePs>::max() / 2;

std::size_t at(int number) { return static_cast<std::size_t>(number); }

/// How far a stage has come in the simulated iteration. Microbatches are taken in turn.
struct StageProgress {
  int rank = 0;
  int next_forward = 0;
  int next_backward = 0;
  int next_weight = 0;
  std::vector<TimePs> forward_end_ps;   ///< by microbatch that has begun
  std::vector<TimePs> backward_end_ps;  ///< the same
};

struct RankProgress {
  TimePs free_ps = 0;
  int held = 0;   ///< stage-microbatches in memory
  int ahead = 0;  ///< of them, those whose backward has not begun
  int owed = 0;   ///< weight gradients whose input gradient has begun
};

void require_request(const ListScheduleRequest& request) {
  std::size_t stages = 0;
  for (const auto& of_rank : request.stages_of_rank) stages += of_rank.size();
  const std::size_t ranks = request.stages_of_rank.size();
  const bool fits = ranks > 0 && request.microbatches > 0 && request.times.size() == stages &&
                    request.most_activations.size() == ranks &&
                    (request.rule.most_ahead.empty() || request.rule.most_ahead.size() == ranks);
  if (!fits) throw InputError("list schedule: times or limits are missing for a stage or a rank");
  constexpr double kKinds = 3;
  if (static_cast<double>(stages) * request.microbatches * kKinds > static_cast<double>(kMaxActions)) {
    throw InputError(fmt::format("list schedule: {} stages and {} microbatches are more than {} computations", stages,
                                 request.microbatches, kMaxActions));
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto least = static_cast<int>(request.stages_of_rank[rank].size());
    if (request.most_activations[rank] >= least) continue;
    throw InputError(fmt::format("rank {}: {} stage-microbatches fit into memory, and its {} stages need {}", rank,
                                 request.most_activations[rank], least, least));
  }
}

/// The simulated iteration.
class ListSimulation {
 public:
  explicit ListSimulation(const ListScheduleRequest& request) : request_(request) {
    stages_.resize(request.times.size());
    ranks_.resize(request.stages_of_rank.size());
    schedule_ = {"list", static_cast<int>(stages_.size()), request.microbatches, {}};
    schedule_.ranks.resize(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const int stage : request.stages_of_rank[rank]) stages_[at(stage)].rank = static_cast<int>(rank);
    }
    for (StageProgress& stage : stages_) {
      stage.forward_end_ps.reserve(at(request.microbatches));
      stage.backward_end_ps.reserve(at(request.microbatches));
    }
  }

  Schedule run() {
    ends_.push(0);
    while (!ends_.empty()) {
      now_ps_ = ends_.top();
      while (!ends_.empty() && ends_.top() == now_ps_) ends_.pop();
      // Late ranks first, so that the gradients that they begin are expected by those before them.
      for (std::size_t rank = ranks_.size(); rank-- > 0;) {
        if (ranks_[rank].free_ps > now_ps_) continue;
        if (const std::optional<Action> action = most_urgent(rank)) begin(rank, *action);
      }
    }
    return std::move(schedule_);
  }

 private:
  [[nodiscard]] std::span<const int> stages_of(std::size_t rank) const { return request_.stages_of_rank[rank]; }
  [[nodiscard]] bool is_last(int stage) const { return at(stage) + 1 == stages_.size(); }

  /// When the op's input has arrived; kNever while that is not known.
  [[nodiscard]] TimePs forward_ready_ps(int stage) const {
    const int microbatch = stages_[at(stage)].next_forward;
    if (microbatch >= request_.microbatches) return kNever;
    return stage == 0 ? 0 : end_of(stages_[at(stage - 1)].forward_end_ps, microbatch);
  }
  [[nodiscard]] TimePs backward_ready_ps(int stage) const {
    const StageProgress& progress = stages_[at(stage)];
    const int microbatch = progress.next_backward;
    if (microbatch >= request_.microbatches) return kNever;
    const TimePs forward_ps = end_of(progress.forward_end_ps, microbatch);
    if (is_last(stage)) return forward_ps;
    return std::max(forward_ps, end_of(stages_[at(stage + 1)].backward_end_ps, microbatch));
  }
  [[nodiscard]] static TimePs end_of(const std::vector<TimePs>& ends_ps, int microbatch) {
    return at(microbatch) < ends_ps.size() ? ends_ps[at(microbatch)] : kNever;
  }

  [[nodiscard]] std::optional<Action> most_urgent(std::size_t rank) const {
    TimePs next_gradient_ps = kNever;
    const std::span<const int> stages = stages_of(rank);
    for (std::size_t place = stages.size(); place-- > 0;) {
      const TimePs ready_ps = backward_ready_ps(stages[place]);
      if (ready_ps <= now_ps_) return backward_of(stages[place]);
      next_gradient_ps = std::min(next_gradient_ps, ready_ps);
    }
    const std::optional<Action> weight = oldest_weight_gradient(rank);
    const bool weights_first = weight && ranks_[rank].owed > request_.rule.weight_backlog;
    std::optional<Action> chosen = weights_first ? weight : ready_forward(rank);
    if (!chosen) chosen = weight;
    if (!chosen || next_gradient_ps == kNever) return chosen;
    const double share = request_.rule.patience * static_cast<double>(duration_ps(*chosen));
    return static_cast<double>(next_gradient_ps - now_ps_) < share ? std::nullopt : chosen;
  }

  [[nodiscard]] Action backward_of(int stage) const {
    const OpKind kind = request_.splits_backward ? OpKind::input_gradient : OpKind::backward;
    return {ActionKind::compute, kind, stage, stages_[at(stage)].next_backward};
  }

  [[nodiscard]] std::optional<Action> oldest_weight_gradient(std::size_t rank) const {
    if (!request_.splits_backward) return std::nullopt;
    const std::span<const int> stages = stages_of(rank);
    for (std::size_t place = stages.size(); place-- > 0;) {
      const StageProgress& progress = stages_[at(stages[place])];
      if (progress.next_weight < progress.next_backward) {
        return Action{ActionKind::compute, OpKind::weight_gradient, stages[place], progress.next_weight};
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Action> ready_forward(std::size_t rank) const {
    const std::span<const int> stages = stages_of(rank);
    const RankProgress& progress = ranks_[rank];
    const auto& most_ahead = request_.rule.most_ahead;
    for (std::size_t place = stages.size(); place-- > 0;) {
      const auto reserved = static_cast<int>(stages.size() - 1 - place);
      // Only the first stage's forwards are put off: those of later ones are needed by older microbatches.
      if (place == 0 && !most_ahead.empty() && progress.ahead >= most_ahead[rank]) continue;
      if (progress.held >= request_.most_activations[rank] - reserved) continue;
      if (forward_ready_ps(stages[place]) > now_ps_) continue;
      return Action{ActionKind::compute, OpKind::forward, stages[place], stages_[at(stages[place])].next_forward};
    }
    return std::nullopt;
  }

  [[nodiscard]] TimePs duration_ps(const Action& action) const {
    const StageTimes& times = request_.times[at(action.stage)];
    if (action.op == OpKind::forward) return times.forward_ps;
    return action.op == OpKind::weight_gradient ? times.weight_gradient_ps : times.backward_ps;
  }

  void begin(std::size_t rank, const Action& action) {
    const TimePs end_ps = now_ps_ + std::max<TimePs>(duration_ps(action), 1);
    StageProgress& stage = stages_[at(action.stage)];
    RankProgress& progress = ranks_[rank];
    switch (action.op) {
      case OpKind::forward:
        ++stage.next_forward;
        ++progress.held;
        ++progress.ahead;
        stage.forward_end_ps.push_back(end_ps);
        break;
      case OpKind::weight_gradient:
        ++stage.next_weight;
        --progress.owed;
        --progress.held;
        break;
      default:
        ++stage.next_backward;
        --progress.ahead;
        if (request_.splits_backward) {
          ++progress.owed;
        } else {
          --progress.held;
        }
        stage.backward_end_ps.push_back(end_ps);
    }
    progress.free_ps = end_ps;
    ends_.push(end_ps);
    schedule_.ranks[rank].push_back(action);
  }

  const ListScheduleRequest& request_;
  std::vector<StageProgress> stages_;
  std::vector<RankProgress> ranks_;
  std::priority_queue<TimePs, std::vector<TimePs>, std::greater<>> ends_;
  TimePs now_ps_ = 0;
  Schedule schedule_;
};

}  // namespace

StageLayout looped_layout(int ranks, int chunks) {
  StageLayout layout(at(ranks));
  for (int stage = 0; stage < ranks * chunks; ++stage) layout[at(stage % ranks)].push_back(stage);
  return layout;
}

StageLayout v_layout(int ranks) {
  StageLayout layout;
  for (int rank = 0; rank < ranks; ++rank) layout.push_back({rank, 2 * ranks - 1 - rank});
  return layout;
}

Schedule list_schedule(const ListScheduleRequest& request) {
  require_request(request);
  return ListSimulation(request).run();
}

}  // namespace lowgear::schedule
