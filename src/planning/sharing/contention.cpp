#include "planning/sharing/contention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/core/error.h"

namespace lowgear::sharing {
namespace {

/// A job without pauses pauses for this share of its time: the chain needs a rate.
constexpr double kShortestPause = 1e-7;
/// A job without kernels.
constexpr double kLeastBusy = 1e-9;

using Matrix = std::vector<std::vector<double>>;

void check(std::span<const Demand> jobs, double margin) {
  if (jobs.size() > kMaxJobsPerGpu) {
    throw InputError(fmt::format("{} jobs on one GPU: at most {} can share it", jobs.size(), kMaxJobsPerGpu));
  }
  if (!(margin >= 0 && margin <= 10)) throw InputError(fmt::format("a margin is 0 to 10, not {}", margin));
  for (const Demand& job : jobs) {
    if (!(job.busy >= 0 && job.busy <= 1)) throw InputError(fmt::format("a busy share is 0 to 1, not {}", job.busy));
    if (!(job.width > 0 && job.width <= 1)) {
      throw InputError(fmt::format("a share of the SMs is above 0 and at most 1, not {}", job.width));
    }
  }
}

bool holds(std::size_t set, std::size_t job) { return ((set >> job) & 1U) != 0; }

/// Of each kernel while exactly the jobs of `set` have one.
double rate_of(std::span<const Demand> jobs, std::size_t set) {
  double width = 0;
  for (std::size_t job = 0; job < jobs.size(); ++job) width += holds(set, job) ? jobs[job].width : 0;
  return 1 / std::max(1.0, width);
}

/// Solves `matrix` x = `right`. Partial pivoting; the matrix is regular.
std::vector<double> solve(Matrix matrix, std::vector<double> right) {
  const std::size_t size = right.size();
  for (std::size_t column = 0; column < size; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < size; ++row) {
      if (std::fabs(matrix[row][column]) > std::fabs(matrix[pivot][column])) pivot = row;
    }
    std::swap(matrix[column], matrix[pivot]);
    std::swap(right[column], right[pivot]);
    for (std::size_t row = 0; row < size; ++row) {
      if (row == column) continue;
      const double factor = matrix[row][column] / matrix[column][column];
      for (std::size_t other = column; other < size; ++other) matrix[row][other] -= factor * matrix[column][other];
      right[row] -= factor * right[column];
    }
  }
  for (std::size_t row = 0; row < size; ++row) right[row] /= matrix[row][row];
  return right;
}

/// Probabilities of the sets of jobs that have a kernel.
std::vector<double> set_probabilities(std::span<const Demand> jobs) {
  const std::size_t sets = std::size_t{1} << jobs.size();
  Matrix balance(sets, std::vector<double>(sets, 0));
  const auto add_flow = [&](std::size_t from, std::size_t to, double rate) {
    balance[to][from] += rate;
    balance[from][from] -= rate;
  };
  for (std::size_t set = 0; set < sets; ++set) {
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      const double busy = std::max(kLeastBusy, jobs[job].busy);
      const double pause = std::max(kShortestPause, 1 - jobs[job].busy);
      const std::size_t other = set ^ (std::size_t{1} << job);
      add_flow(set, other, holds(set, job) ? rate_of(jobs, set) / busy : 1 / pause);
    }
  }
  // The balance of one state follows from the others'; in its place the probabilities sum to 1.
  std::ranges::fill(balance.back(), 1);
  std::vector<double> right(sets, 0);
  right.back() = 1;
  return solve(std::move(balance), std::move(right));
}

double predicted_slowdown(std::span<const Demand> jobs, const std::vector<double>& probabilities, std::size_t job) {
  double per_time = 0;  // time of the job alone that passes in a unit of time: it passes in pauses and in kernels
  for (std::size_t set = 0; set < probabilities.size(); ++set) {
    per_time += probabilities[set] * (holds(set, job) ? rate_of(jobs, set) : 1);
  }
  return std::max(1.0, 1 / per_time);
}

/// While its kernels overlap with others, a job loses at most 1 - 1/c of its rate, with c the sum of all widths. They
/// overlap for at most all of their time, and at most as long as the others have kernels.
double worst_slowdown(std::span<const Demand> jobs, std::size_t job) {
  double width = 0;
  double busy_others = 0;
  for (std::size_t other = 0; other < jobs.size(); ++other) {
    width += jobs[other].width;
    if (other != job) busy_others += jobs[other].busy;
  }
  const double excess = std::max(1.0, width) - 1;
  const double lost_by_own = jobs[job].busy * excess;
  const double share = excess * busy_others;
  return 1 + (share < 1 ? std::min(lost_by_own, share / (1 - share)) : lost_by_own);
}

double best_slowdown(std::span<const Demand> jobs, const std::vector<double>& worst, std::size_t job) {
  double left = 1;
  for (std::size_t other = 0; other < jobs.size(); ++other) {
    if (other != job) left -= jobs[other].busy * jobs[other].width / worst[other];
  }
  return left > 0 ? std::max(1.0, jobs[job].busy * jobs[job].width / left) : 1;
}

}  // namespace

std::vector<Slowdown> shared_slowdowns(std::span<const Demand> jobs, double margin) {
  check(jobs, margin);
  const std::vector<double> probabilities = set_probabilities(jobs);
  std::vector<double> worst;
  for (std::size_t job = 0; job < jobs.size(); ++job) worst.push_back(worst_slowdown(jobs, job));
  std::vector<Slowdown> slowdowns;
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    const double low = std::min(best_slowdown(jobs, worst, job), worst[job]);
    const double predicted = std::clamp(predicted_slowdown(jobs, probabilities, job), low, worst[job]);
    const bool alone = jobs.size() == 1;
    slowdowns.push_back({.low = low, .predicted = predicted, .high = alone ? 1 : worst[job] * (1 + margin)});
  }
  return slowdowns;
}

}  // namespace lowgear::sharing
