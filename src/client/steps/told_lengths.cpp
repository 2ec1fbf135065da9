#include "client/steps/told_lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/core/error.h"

namespace lowgear::client {
namespace {

/// Why the lengths of a replica cannot be right; empty: they can.
std::string fault_of(int replica, std::span<const steps::Amounts> microbatches, int expected) {
  if (microbatches.size() != static_cast<std::size_t>(expected)) {
    return fmt::format("replica {} told lengths of {} microbatches, and the schedule has {}", replica,
                       microbatches.size(), expected);
  }
  for (std::size_t i = 0; i < microbatches.size(); ++i) {
    if (microbatches[i].add_up()) continue;
    return fmt::format("the lengths of microbatch {} of replica {} do not add up: {:.0f} tokens, {:.0f} squared tokens",
                       i, replica, microbatches[i].tokens, microbatches[i].squared_tokens);
  }
  return "";
}

}  // namespace

bool ToldLengths::tell(std::int64_t iteration, int replica, std::span<const steps::Amounts> microbatches) {
  if (replica < 0 || replica >= replicas_) {
    throw InputError(fmt::format("there is no replica {} of {}", replica, replicas_));
  }
  const std::lock_guard lock(mutex_);
  look_at_begun();
  const bool has_begun = iteration <= run_.newest;
  const std::map<std::int64_t, Told>& waiting = has_begun ? again_ : iterations_;
  if (waiting.size() >= kMostIterations && !waiting.contains(iteration)) {
    throw InputError(fmt::format("the lengths of {} iterations wait for their begin: tell those of {} later",
                                 kMostIterations, iteration));
  }
  newest_ = iteration;
  if (has_begun) add(again_[iteration], replica, microbatches);
  return add(iterations_[iteration], replica, microbatches);
}

/// Whether this is news.
bool ToldLengths::add(Told& told, int replica, std::span<const steps::Amounts> microbatches) const {
  const auto [before, is_new] =
      told.replicas.try_emplace(replica, std::vector<steps::Amounts>(microbatches.begin(), microbatches.end()));
  if (!is_new && std::ranges::equal(before->second, microbatches)) return false;
  std::string fault = fault_of(replica, microbatches, microbatches_);
  if (!is_new) {
    fault = fmt::format("the lengths of replica {} were changed after they were told", replica);
  }
  if (told.fault.empty()) told.fault = std::move(fault);
  return true;
}

/// Iterations that have begun since the last call. The training thread, which begins them, does not wait for the mutex.
void ToldLengths::look_at_begun() {
  const BegunSteps::Run run = begun_->run();
  const bool goes_back = run_.goes_back_in(run);
  if (goes_back) {
    iterations_.erase(iterations_.lower_bound(run.first), iterations_.end());
    for (auto again = again_.lower_bound(run.first); again != again_.end(); ++again) {
      iterations_[again->first] = std::move(again->second);
    }
  }
  if (goes_back || run.newest != run_.newest) again_.clear();
  run_ = run;
  iterations_.erase(iterations_.begin(), iterations_.lower_bound(run.newest - kKept));
}

std::string ToldLengths::what_is_missing(const Told& told) const {
  for (int replica = 0; replica < replicas_; ++replica) {
    if (told.replicas.contains(replica)) continue;
    return replicas_ == 1 ? "its lengths were not told"
                          : fmt::format("its lengths were not told by replica {}", replica);
  }
  return "";
}

StepLengths ToldLengths::of(std::int64_t iteration) {
  using State = StepLengths::State;
  const std::lock_guard lock(mutex_);
  look_at_begun();
  const auto found = iterations_.find(iteration);
  if (found == iterations_.end()) {
    return {.state = State::awaited,
            .reason = newest_ ? fmt::format("its lengths were not told, those of iteration {} were last", *newest_)
                              : "its lengths were not told"};
  }
  const Told& told = found->second;
  if (!told.fault.empty()) return {.state = State::invalid, .reason = told.fault};
  if (std::string missing = what_is_missing(told); !missing.empty()) {
    return {.state = State::awaited, .reason = std::move(missing)};
  }
  StepLengths lengths{.state = State::known};
  for (const auto& [replica, amounts] : told.replicas) {
    lengths.amounts.insert(lengths.amounts.end(), amounts.begin(), amounts.end());
  }
  return lengths;
}

bool ToldLengths::any() const {
  const std::lock_guard lock(mutex_);
  return newest_.has_value();
}

}  // namespace lowgear::client
