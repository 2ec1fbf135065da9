#include "server/parts/plan_delivery.h"

#include <algorithm>
#include <utility>

#include "base/core/formats/json.h"
#include "server/parts/state_bounds.h"

namespace lowgear::server {

int PlanDelivery::take_version() {
  ++last_version_;
  if (reserved_version_ - last_version_ < kReservedVersions) reserved_version_ = last_version_ + 2 * kReservedVersions;
  return last_version_;
}

void PlanDelivery::keep(PlanVersion version) {
  versions_.push_back(std::make_shared<const PlanVersion>(std::move(version)));
  if (versions_.size() > kKeptVersions) versions_.pop_front();
  texts_.emplace(*versions_.back());
}

const PlanVersion& PlanDelivery::issue(PlanVersion version, const IterationHistory& history, double now_s) {
  version.version = take_version();
  version.from_iteration = history.next_boundary(now_s);
  for (plan::ClockTrial& trial : version.trials) trial.first_iteration += version.from_iteration;
  keep(std::move(version));
  late_boundary_.reset();
  return *versions_.back();
}

std::shared_ptr<const std::string> PlanDelivery::plan_after(const protocol::RankSpec& rank, int after,
                                                            const IterationHistory& history, double now_s) {
  if (newest_version() <= after) return nullptr;
  std::int64_t from = versions_.back()->from_iteration;
  const std::int64_t latest = history.latest();
  if (latest >= 0 && from <= latest + 1) {
    // It has been missed: all ranks that still ask begin together again.
    if (!late_boundary_ || *late_boundary_ <= latest + 1) late_boundary_ = history.next_boundary(now_s);
    from = *late_boundary_;
  }
  return texts_->text(rank.dp_rank, rank.pp_rank, from);
}

const PlanVersion* PlanDelivery::find(int version) const {
  const auto found = std::ranges::find_if(versions_, [version](const auto& kept) { return kept->version == version; });
  return found == versions_.end() ? nullptr : found->get();
}

int PlanDelivery::due_version(std::int64_t iteration) const {
  const auto due = std::ranges::find_if(versions_.rbegin(), versions_.rend(),
                                        [&](const auto& version) { return version->from_iteration <= iteration; });
  return due == versions_.rend() ? 0 : (*due)->version;
}

void PlanDelivery::train_by_newest() {
  training_ = versions_.back();
  if (first_training_version_ == 0) first_training_version_ = training_->version;
}

void PlanDelivery::restore(PlanVersion version) { keep(std::move(version)); }

void PlanDelivery::restore_numbers(const JsonView& state) {
  // States of older servers name none.
  if (has_value(state, "reserved_version")) {
    reserved_version_ = state.at("reserved_version").integer_in(0, kMaxStoredNumber);
  }
  last_version_ = std::max(newest_version(), reserved_version_);
  first_training_version_ = state.at("first_training_version").integer_in(0, kMaxStoredNumber);
  const int training = state.at("training_version").integer_in(0, kMaxStoredNumber);
  for (const auto& version : versions_) {
    if (version->version == training) training_ = version;
  }
}

void PlanDelivery::write_state(Json& state) const {
  state["reserved_version"] = reserved_version_;
  state["training_version"] = training_version();
  state["first_training_version"] = first_training_version_;
}

}  // namespace lowgear::server
