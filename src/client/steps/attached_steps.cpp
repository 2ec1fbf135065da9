#include "client/steps/attached_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/core/error.h"

namespace lowgear::client {
namespace {

constexpr std::chrono::milliseconds kWritePeriod{100};

}  // namespace

AttachedSteps::AttachedSteps(AttachedStepsOptions options, Client& client)
    : options_(std::move(options)), told_(begun_, options_.replicas, options_.schedule.microbatches) {
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
    clocks_.emplace(begun_, std::move(clocks));
    clocks_->begin();
  }
  if (options_.speaks && !options_.recording.empty()) thread_.emplace(kWritePeriod, [this] { record(); });
}

void AttachedSteps::tell(std::int64_t iteration, int replica, std::span<const steps::Amounts> microbatches) {
  const bool is_news = told_.tell(iteration, replica, microbatches);
  if (is_news && clocks_) clocks_->lengths_change(iteration);
}

/// Records the lengths of iterations that have begun, once they are known, each once. Those of iterations that training
/// repeats take the place of the earlier ones.
void AttachedSteps::record() {
  const BegunSteps::Run run = begun_.run();
  if (run_.goes_back_in(run)) {
    waiting_.erase(waiting_.lower_bound(run.first), waiting_.end());
    if (file_) file_.emplace(lengths_file(options_.recording, run.first));
    seen_ = run.first - 1;
  }
  run_ = run;
  for (std::int64_t step = std::max<std::int64_t>(seen_ + 1, run.first); step <= run.newest; ++step) {
    waiting_.emplace(step, "this process was too busy to look at it");
  }
  seen_ = run.newest;
  leave_out_before(run.newest - ToldLengths::kKept);
  for (auto step = waiting_.begin(); step != waiting_.end();) {
    StepLengths lengths = told_.of(step->first);
    if (lengths.state != StepLengths::State::known) {
      (step++)->second = std::move(lengths.reason);
      continue;
    }
    // Another job may have left a file in the folder.
    if (!file_) file_.emplace(lengths_file(options_.recording, 0));
    file_->add(lengths_rows(step->first, lengths.amounts, options_.schedule.microbatches));
    ++recorded_;
    step = waiting_.erase(step);
  }
}

void AttachedSteps::leave_out_before(std::int64_t iteration) {
  const auto end = waiting_.lower_bound(iteration);
  for (auto step = waiting_.begin(); step != end; step = waiting_.erase(step)) {
    if (left_out_++ == 0) why_left_out_ = fmt::format("iteration {}: {}", step->first, step->second);
  }
}

std::optional<std::string> AttachedSteps::finish() {
  if (thread_) {
    thread_.reset();
    record();  // the thread may not have begun
  }
  leave_out_before(seen_ + 1);
  if (left_out_ > 0 && told_.any()) {
    fmt::print(stderr,
               "lowgear: the lengths of {} of {} iterations were not recorded, and lowgear profile leaves these out; "
               "{}\n",
               left_out_, left_out_ + recorded_, why_left_out_);
  }
  return clocks_ ? std::optional(clocks_->finish()) : std::nullopt;
}

}  // namespace lowgear::client
