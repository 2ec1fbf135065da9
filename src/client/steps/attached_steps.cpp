#include "client/steps/attached_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/core/error.h"

namespace lowgear::client {
namespace {

constexpr std::chrono::milliseconds kWritePeriod{100};
/// Newest iterations whose lengths may still be recorded: they are told in their course, or looked at late.
constexpr std::int64_t kWrittenLate = 64;

}  // namespace

AttachedSteps::AttachedSteps(AttachedStepsOptions options, Client& client)
    : options_(std::move(options)), told_(options_.replicas, options_.schedule.microbatches) {
  if (options_.pp_rank < 0 || options_.pp_rank >= options_.schedule.rank_count()) {
    throw InputError(fmt::format("there is no pipeline rank {} in a schedule of {}", options_.pp_rank,
                                 options_.schedule.rank_count()));
  }
  if (options_.replica < 0 || options_.replica >= options_.replicas) {
    throw InputError(fmt::format("there is no replica {} of {}", options_.replica, options_.replicas));
  }
  if (options_.files) {
    StepClocksOptions clocks;
    clocks.planning = read_step_planning(*options_.files, options_.schedule);
    clocks.pp_rank = options_.pp_rank;
    clocks.replica = options_.replica;
    clocks.speaks = options_.speaks;
    clocks.lengths = [this](std::int64_t iteration) { return told_.of(iteration); };
    clocks.offer = [&client](Client::IterationPlan plan) { return client.plan_iteration(std::move(plan)); };
    clocks.name = [](std::int64_t iteration) { return fmt::format("lowgear: iteration {}", iteration); };
    clocks_.emplace(std::move(clocks));
    clocks_->begin(0);
  }
  thread_.emplace(kWritePeriod, [this] { look_after(); });
}

void AttachedSteps::tell(std::int64_t iteration, int replica, std::span<const steps::Amounts> microbatches) {
  const bool is_news = told_.tell(iteration, replica, microbatches);
  if (is_news && clocks_) clocks_->lengths_change(iteration);
}

void AttachedSteps::iteration_begins(std::uint64_t number) noexcept {
  begun_.store(static_cast<std::int64_t>(number), std::memory_order_release);
  if (clocks_) clocks_->step_begins(static_cast<std::int64_t>(number));
}

/// Records the lengths of iterations that have begun, once they are known, each once.
void AttachedSteps::look_after() {
  const std::int64_t begun = begun_.load(std::memory_order_acquire);
  const std::int64_t oldest = begun - kWrittenLate;
  for (std::int64_t step = std::max(written_ + 1, oldest); step <= begun; ++step) {
    if (!options_.speaks || options_.recording.empty()) break;
    const StepLengths lengths = told_.of(step);
    if (lengths.state != StepLengths::State::known) continue;
    if (!file_) file_.emplace(options_.recording, step);
    file_->add(step, lengths.amounts, options_.schedule.microbatches);
    written_ = step;
  }
  told_.forget_before(oldest);
}

std::optional<std::string> AttachedSteps::finish() {
  thread_.reset();
  return clocks_ ? std::optional(clocks_->finish()) : std::nullopt;
}

}  // namespace lowgear::client
