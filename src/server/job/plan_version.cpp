#include "server/job/plan_version.h"

#include <algorithm>
#include <utility>

#include "base/core/formats/json.h"
#include "planning/plan/plan_json.h"
#include "protocol/json_members.h"
#include "server/store/store.h"

namespace lowgear::server {

namespace {

constexpr const char* kFormat = "lowgear.plan_version/1";

/// The plan as one rank of it sees it: as its first.
plan::Plan plan_of_rank(const plan::Plan& plan, int pp_rank) {
  std::vector<std::vector<lowgear::plan::PlannedOp>> own;
  own.push_back(plan.ranks.at(static_cast<std::size_t>(pp_rank)));
  return {.policy = plan.policy,
          .schedule = plan.schedule,
          .gpu_name = plan.gpu_name,
          .simulated = plan.simulated,
          .microbatches = plan.microbatches,
          .deadline_s = plan.deadline_s,
          .time_s = plan.time_s,
          .energy_j = plan.energy_j,
          .lower_bound_j = plan.lower_bound_j,
          .clock_lead_s = plan.clock_lead_s,
          .switches = lowgear::plan::count_switches(own),
          .ranks = std::move(own)};
}

}  // namespace

std::optional<int> PlanVersion::trial_mhz(std::int64_t iteration) const {
  for (const plan::ClockTrial& trial : trials) {
    if (iteration >= trial.first_iteration && iteration < trial.end_iteration()) return trial.clock_mhz;
  }
  return std::nullopt;
}

std::string write_plan_version(const PlanVersion& version) {
  Json document = to_json(static_cast<const protocol::PlanHead&>(version));
  document["format"] = kFormat;
  document["expected_compute_s"] = version.expected_compute_s;
  document["plan_of_replica"] = version.plan_of_replica;
  std::string plans = "[";
  for (const plan::Plan& plan : version.plans) {
    if (plans.size() > 1) plans += ',';
    plans += write_plan(plan);
  }
  return protocol::with_member(document, "plans", plans + ']');
}

PlanVersion read_plan_version(std::string_view text) {
  const Json document = parse_json(text, "plan version");
  const JsonView view(document, "plan version");
  require_format(view, kFormat);
  // The server has always written these.
  for (const char* member : {"iterations", "settle_iterations", "reason", "time_s", "energy_j"}) (void)view.at(member);
  if (!protocol::is_plan_purpose(view.at("purpose").text())) view.at("purpose").fail("is not a purpose of a plan");
  PlanVersion version{protocol::read_plan_head(view), {}, {}, {}, {}};
  const JsonView plans = view.at("plans");
  for (std::size_t i = 0; i < plans.size(); ++i) {
    version.plans.push_back(plan::read_plan(plans.at(i).json().dump(), "plan version"));
  }
  const JsonView expected = view.at("expected_compute_s");
  for (std::size_t plan = 0; plan < expected.size(); ++plan) {
    std::vector<double>& by_rank = version.expected_compute_s.emplace_back();
    for (std::size_t r = 0; r < expected.at(plan).size(); ++r) by_rank.push_back(expected.at(plan).at(r).number());
  }
  const JsonView replicas = view.at("plan_of_replica");
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    version.plan_of_replica.push_back(replicas.at(i).integer_in(0, static_cast<int>(plans.size()) - 1));
  }
  return version;
}

std::shared_ptr<const std::string> RankPlanTexts::text(int dp_rank, int pp_rank, std::int64_t from_iteration) {
  const Key key{version_->plan_of_replica.at(static_cast<std::size_t>(dp_rank)), pp_rank, from_iteration};
  auto& text = texts_[key];
  if (!text) {
    protocol::RankPlan plan{*version_, write_plan(plan_of_rank(version_->plan_of(dp_rank), pp_rank))};
    plan.from_iteration = from_iteration;
    text = std::make_shared<const std::string>(write_rank_plan(plan));
  }
  return text;
}

int PlanDelivery::take_version() {
  ++last_version_;
  if (reserved_version_ - last_version_ < kReservedVersions) reserved_version_ = last_version_ + 2 * kReservedVersions;
  return last_version_;
}

namespace {

std::optional<int> only_clock_mhz(const PlanVersion& version) {
  std::optional<int> only_mhz;
  for (const plan::Plan& plan : version.plans) {
    for (const auto& ops : plan.ranks) {
      for (const plan::PlannedOp& op : ops) {
        if (only_mhz.value_or(op.clock_mhz) != op.clock_mhz) return std::nullopt;
        only_mhz = op.clock_mhz;
      }
    }
  }
  return only_mhz;
}

}  // namespace

void PlanDelivery::keep(PlanVersion version) {
  version.only_mhz = only_clock_mhz(version);
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
  reserved_version_ = state.at("reserved_version").integer_in(0, kMaxStoredNumber);
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
