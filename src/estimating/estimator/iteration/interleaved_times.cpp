#include "estimating/estimator/iteration/interleaved_times.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

namespace lowgear::estimator {
namespace {

/// The interleaved schedule for some rounds of microbatches. Forwards of a rank are numbered in the order in which it
/// runs them, and so are backwards; the number says chunk and microbatch, the same ones on every rank.
class Rounds {
 public:
  Rounds(const PipelineCosts& costs, int per_round, int rounds)
      : costs_(costs),
        ranks_(static_cast<std::size_t>(costs.ranks)),
        chunks_(static_cast<std::size_t>(costs.chunks)),
        per_round_(static_cast<std::size_t>(per_round)),
        total_(chunks_ * per_round_ * static_cast<std::size_t>(rounds)),
        forward_end_s_(ranks_ * total_),
        backward_end_s_(ranks_ * total_),
        progress_(ranks_) {
    chunk_of_.reserve(total_);
    for (std::size_t number = 0; number < total_; ++number) chunk_of_.push_back(number / per_round_ % chunks_);
  }

  void run() {
    std::size_t done = 0;
    while (done < ranks_) {
      done = 0;
      for (std::size_t rank = 0; rank < ranks_; ++rank) advance(rank);
      for (std::size_t rank = ranks_; rank-- > 0;) {
        advance(rank);
        if (progress_[rank].backwards == total_) ++done;
      }
    }
  }

  [[nodiscard]] std::vector<double> end_s() const {
    std::vector<double> ends;
    for (const Progress& rank : progress_) ends.push_back(rank.free_s);
    return ends;
  }

  /// What a round adds to every time once rounds repeat; nothing while they do not. Times repeat for good when a whole
  /// round of forwards and of backwards comes one `shift` after the round before on every rank: each op waits for ops
  /// that are at most a round older, counted with what the first rank runs ahead.
  [[nodiscard]] std::optional<double> repeating_shift_s() const {
    const std::size_t round = chunks_ * per_round_;
    const std::size_t backwards_from = round;
    const std::size_t forwards_from = round + warmup(0) + 1;
    if (forwards_from + round > total_) return std::nullopt;
    const double shift_s = forward_end_s_[forwards_from] - forward_end_s_[forwards_from - round];
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      for (std::size_t i = 0; i < round; ++i) {
        if (!shifted(forward_end_s_, rank * total_ + forwards_from + i, round, shift_s)) return std::nullopt;
        if (!shifted(backward_end_s_, rank * total_ + backwards_from + i, round, shift_s)) return std::nullopt;
      }
    }
    return shift_s;
  }

 private:
  struct Progress {
    std::size_t forwards = 0;
    std::size_t backwards = 0;
    double free_s = 0;
  };

  static bool shifted(const std::vector<double>& times_s, std::size_t at, std::size_t by, double shift_s) {
    constexpr double kRounding = 1e-12;
    return std::abs(times_s[at] - times_s[at - by] - shift_s) <= kRounding * times_s[at];
  }

  [[nodiscard]] std::size_t warmup(std::size_t rank) const {
    return std::min(total_, (chunks_ - 1) * per_round_ + 2 * (ranks_ - 1 - rank));
  }

  /// Runs what the rank can run by now.
  void advance(std::size_t rank) {
    Progress& progress = progress_[rank];
    const std::size_t ahead = warmup(rank);
    while (progress.backwards < total_) {
      const bool forward = progress.forwards < std::min(total_, ahead + progress.backwards + 1);
      if (!(forward ? run_forward(rank, progress) : run_backward(rank, progress))) return;
    }
  }

  bool run_forward(std::size_t rank, Progress& progress) {
    const std::size_t number = progress.forwards;
    const std::size_t chunk = chunk_of_[number];
    const std::size_t stage = chunk * ranks_ + rank;
    double ready_s = 0;
    if (rank > 0 || chunk > 0) {
      const std::size_t from = rank > 0 ? rank - 1 : ranks_ - 1;
      const std::size_t before = rank > 0 ? number : number - per_round_;
      if (progress_[from].forwards <= before) return false;
      ready_s = forward_end_s_[from * total_ + before] + costs_.activation_send_s[stage - 1];
    }
    progress.free_s = std::max(progress.free_s, ready_s) + costs_.forward_s[stage];
    forward_end_s_[rank * total_ + number] = progress.free_s;
    ++progress.forwards;
    return true;
  }

  bool run_backward(std::size_t rank, Progress& progress) {
    const std::size_t number = progress.backwards;
    const std::size_t chunk = chunks_ - 1 - chunk_of_[number];
    const std::size_t stage = chunk * ranks_ + rank;
    double ready_s = 0;
    if (rank + 1 < ranks_ || chunk + 1 < chunks_) {
      const std::size_t from = rank + 1 < ranks_ ? rank + 1 : 0;
      const std::size_t before = rank + 1 < ranks_ ? number : number - per_round_;
      if (progress_[from].backwards <= before) return false;
      ready_s = backward_end_s_[from * total_ + before] + costs_.gradient_send_s[stage];
    }
    progress.free_s = std::max(progress.free_s, ready_s) + costs_.backward_s[stage];
    backward_end_s_[rank * total_ + number] = progress.free_s;
    ++progress.backwards;
    return true;
  }

  const PipelineCosts& costs_;
  std::size_t ranks_;
  std::size_t chunks_;
  std::size_t per_round_;
  std::size_t total_;                   ///< forwards of a rank
  std::vector<double> forward_end_s_;   ///< by rank and number
  std::vector<double> backward_end_s_;  ///< by rank and number
  std::vector<Progress> progress_;      ///< by rank
  std::vector<std::size_t> chunk_of_;   ///< by number: of a forward; of a backward, counted from the last
};

}  // namespace

std::vector<double> interleaved_end_s(const PipelineCosts& costs) {
  const int rounds = std::max(1, costs.microbatches / costs.ranks);
  const int per_round = costs.microbatches / rounds;
  // Enough for two rounds to compare in addition to the warmup; then many more, or all.
  for (int tried = 4; tried < rounds; tried *= 4) {
    Rounds part(costs, per_round, tried);
    part.run();
    const std::optional<double> shift_s = part.repeating_shift_s();
    if (!shift_s) continue;
    std::vector<double> ends = part.end_s();
    for (double& end_s : ends) end_s += (rounds - tried) * *shift_s;
    return ends;
  }
  Rounds all(costs, per_round, rounds);
  all.run();
  return all.end_s();
}

}  // namespace lowgear::estimator
