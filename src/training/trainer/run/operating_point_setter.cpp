#include "training/trainer/run/operating_point_setter.h"

#include <cstddef>
#include <filesystem>

#include "base/core/environment.h"
#include "base/core/files/file.h"
#include "planning/plan/plan.h"
#include "planning/plan/plan_json.h"

namespace lowgear::trainer {

OperatingPointSetter::OperatingPointSetter(const launcher::OperatingPoints& points, client::Client& client,
                                           int position)
    : points_(&points), client_(&client), position_(position) {
  for (const std::filesystem::path& plan : points.plans) plans_.push_back(read_file(plan, plan::kMaxPlanBytes));
}

void OperatingPointSetter::begin(const schedule::Schedule& schedule) {
  for (int point = static_cast<int>(points_->names().size()) - 1; point >= 0; --point) load(point, schedule);
  loaded_ = wanted(0, schedule);
}

void OperatingPointSetter::set(int point, const schedule::Schedule& schedule) {
  const Loaded next = wanted(point, schedule);
  if (loaded_ == next) return;
  loaded_ = next;
  load(point, schedule);
}

OperatingPointSetter::Loaded OperatingPointSetter::wanted(int point, const schedule::Schedule& schedule) const {
  return {.point = point,
          .frozen_stages = points_->clocks_mhz.empty() ? 0 : schedule.frozen_stages,
          .agents = points_->power_limits_w.empty() ? 0 : client_->status().reconnects};
}

void OperatingPointSetter::load(int point, const schedule::Schedule& schedule) {
  const auto index = static_cast<std::size_t>(point);
  if (!points_->power_limits_w.empty()) {
    set_power_limit(points_->power_limits_w[index]);
  } else if (plans_.empty()) {
    const plan::Plan plan = plan::uniform_plan(schedule, points_->clocks_mhz[index], "operating point");
    client_->load_plan_text(plan::write_plan(plan), "adapt.slowdown.clocks_mhz", position_, /*nearest_below=*/false);
  } else {
    client_->load_plan_text(plans_[index], points_->plans[index].string(), position_, /*nearest_below=*/false);
  }
}

/// Under the lease that this process has at the agent already: the limit ends with it.
void OperatingPointSetter::set_power_limit(double limit_w) {
  if (!settings_) settings_.emplace(client::agent_http_socket(client_->agent_socket(), process_environment()));
  (void)settings_->set_power_limit(client_->status().gpu_uuid, limit_w);
}

}  // namespace lowgear::trainer
